/* The trainer thread: one tower's life, from opening its arenas to the last report. */
#include "sync/trainer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/thread.h"

/* Where the thread is; main and the thread move it forward under the lock. */
enum phase { PHASE_OPENING, PHASE_OPEN, PHASE_FAILED, PHASE_RUNNING, PHASE_DONE, PHASE_LEAVING };

/* Points on the compute stream of one step, in order; the time between two is accounted. */
enum mark { MARK_BEGIN, MARK_TAKEN, MARK_INPUT, MARK_FORWARD, MARK_BACKWARD, MARK_END, MARK_COUNT };

struct trainer {
    struct trainer_spec spec;
    struct thread *thread;
    struct tower *tower;
    struct buckets buckets;
    uint32_t started;               /* buckets of this step whose reduction is started */
    int start_result;               /* of the first reduce start that failed in this step */
    struct event *marks[MARK_COUNT];
    struct event *reduced[BUCKETS_MAX], *updated[BUCKETS_MAX];
    uint64_t last_end_ns;
    struct step_report *reports;    /* report_depth of them, in circulation between two queues */
    uint64_t *ids;
    struct queue *full, *empty;
    pthread_mutex_t lock;           /* guards phase, result, cancelled */
    pthread_cond_t changed;
    enum phase phase;
    int result;
    bool cancelled;
};

static void set_phase(struct trainer *trainer, enum phase phase, int result)
{
    pthread_mutex_lock(&trainer->lock);
    trainer->phase = phase;
    trainer->result = result;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}

/* Wait until the phase is `phase` or further; a cancel ends only waits of a run that
 * goes on, never those that order the end. 0 or -ECANCELED. */
static int await_phase(struct trainer *trainer, enum phase phase)
{
    pthread_mutex_lock(&trainer->lock);
    while (trainer->phase < phase && (!trainer->cancelled || phase >= PHASE_DONE))
        pthread_cond_wait(&trainer->changed, &trainer->lock);
    const int rc = trainer->phase >= phase ? 0 : -ECANCELED;
    pthread_mutex_unlock(&trainer->lock);
    return rc;
}

static void bind_to_cpus(const struct trainer_spec *spec)
{
    if (spec->cpus == NULL)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < spec->cpu_count; i++)
        CPU_SET(spec->cpus[i], &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static int mark_open(struct trainer *trainer, struct event **event_out)
{
    struct device *const device = trainer->spec.tower.device;
    return device->ops->event_open(device, event_out);
}

static int marks_open(struct trainer *trainer)
{
    int rc = 0;
    for (uint32_t i = 0; i < MARK_COUNT && rc == 0; i++)
        rc = mark_open(trainer, &trainer->marks[i]);
    for (uint32_t b = 0; b < trainer->buckets.count && rc == 0; b++) {
        rc = mark_open(trainer, &trainer->reduced[b]);
        if (rc == 0)
            rc = mark_open(trainer, &trainer->updated[b]);
    }
    return rc;
}

static void mark_close(struct event *event)
{
    if (event != NULL)
        event->device->ops->event_close(event);
}

static void marks_close(struct trainer *trainer)
{
    for (uint32_t i = 0; i < MARK_COUNT; i++)
        mark_close(trainer->marks[i]);
    for (uint32_t b = 0; b < trainer->buckets.count; b++) {
        mark_close(trainer->reduced[b]);
        mark_close(trainer->updated[b]);
    }
}

static int open_tower(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    bind_to_cpus(spec);
    if (spec->no_compute)
        return marks_open(trainer);
    int rc = tower_open(&trainer->tower, &spec->tower);
    if (rc != 0)
        return rc;
    buckets_init(&trainer->buckets, tower_arena(trainer->tower), spec->bucket_bytes);
    rc = marks_open(trainer);
    if (rc != 0)
        return rc;
    const struct reduce_member member = {
        .device = spec->tower.device,
        .compute = spec->tower.compute,
        .communication = spec->communication,
        .gradients = tower_gradients(trainer->tower),
    };
    return spec->reduce->ops->join(spec->reduce, spec->tower.index, &member, &trainer->buckets);
}

static int mark(struct trainer *trainer, struct event *event)
{
    return stream_record(trainer->spec.tower.compute, event);
}

/* Called by tower_backward: start the buckets that lie in the first `floats` gradients. */
static void start_buckets(void *arg, size_t floats)
{
    struct trainer *const trainer = arg;
    const struct reduce_ops *const ops = trainer->spec.reduce->ops;
    while (trainer->started < trainer->buckets.count && trainer->start_result == 0) {
        const struct bucket *const bucket = &trainer->buckets.bucket[trainer->started];
        if (bucket->offset + bucket->count > floats)
            return;
        trainer->start_result = ops->start(trainer->spec.reduce, trainer->spec.tower.index, trainer->started);
        trainer->started++;
    }
}

/* Wait for each bucket's sum and update its range. */
static int update_buckets(struct trainer *trainer, const struct span *span)
{
    const struct trainer_spec *const spec = &trainer->spec;
    const bool alone = spec->mode == SYNC_INDEPENDENT;
    const uint32_t samples = alone ? span->count : span->global_count;
    int rc = 0;
    for (uint32_t b = 0; b < trainer->buckets.count && rc == 0; b++) {
        const struct bucket *const bucket = &trainer->buckets.bucket[b];
        rc = spec->reduce->ops->wait(spec->reduce, spec->tower.index, b);
        if (rc == 0)
            rc = mark(trainer, trainer->reduced[b]);
        if (rc == 0 && samples > 0)
            rc = tower_update(trainer->tower, bucket->offset, bucket->count, 1.0f / (float)samples,
                              spec->learning_rate);
        if (rc == 0)
            rc = mark(trainer, trainer->updated[b]);
    }
    return rc;
}

static int train(struct trainer *trainer, const struct span *span)
{
    trainer->started = 0;
    trainer->start_result = 0;
    int rc = tower_backward(trainer->tower, start_buckets, trainer);
    if (rc == 0)
        rc = trainer->start_result;
    if (rc == 0)
        rc = mark(trainer, trainer->marks[MARK_BACKWARD]);
    return rc == 0 ? update_buckets(trainer, span) : rc;
}

/* Forward, and the slot goes back; then the rest of a training step. */
static int compute(struct trainer *trainer, struct slot *slot, const struct span *span)
{
    const struct trainer_spec *const spec = &trainer->spec;
    const bool training = span->pass == PASS_TRAIN;
    int rc = spec->no_compute ? stream_record(spec->tower.compute, slot->free)
                              : tower_forward(trainer->tower, slot, training);
    slots_give_back(spec->slots, slot);
    if (rc == 0)
        rc = mark(trainer, trainer->marks[MARK_FORWARD]);
    if (rc == 0 && training && !spec->no_compute)
        rc = train(trainer, span);
    return rc;
}

static uint64_t mark_time(struct event *event)
{
    uint64_t time_ns = 0;
    event->device->ops->event_time(event, &time_ns);
    return time_ns;
}

/* All marks of the step have passed. */
static void account(struct trainer *trainer, const struct span *span, struct step_times *times)
{
    uint64_t at[MARK_COUNT];
    for (uint32_t i = 0; i < MARK_COUNT; i++)
        at[i] = mark_time(trainer->marks[i]);
    *times = (struct step_times){
        .input_wait = at[MARK_TAKEN] - at[MARK_BEGIN],
        .exposed_copy = at[MARK_INPUT] - at[MARK_TAKEN],
        .forward = at[MARK_FORWARD] - at[MARK_INPUT],
        .total = at[MARK_END] - trainer->last_end_ns,
    };
    if (span->pass == PASS_TRAIN && !trainer->spec.no_compute) {
        times->backward = at[MARK_BACKWARD] - at[MARK_FORWARD];
        uint64_t before = at[MARK_BACKWARD];
        for (uint32_t b = 0; b < trainer->buckets.count; b++) {
            const uint64_t reduced = mark_time(trainer->reduced[b]);
            const uint64_t updated = mark_time(trainer->updated[b]);
            times->exposed_reduction += reduced - before;
            times->update += updated - reduced;
            before = updated;
        }
    }
    times->other = times->total - times->input_wait - times->exposed_copy - times->forward - times->backward -
                   times->exposed_reduction - times->update;
    trainer->last_end_ns = at[MARK_END];
}

static int finish_report(struct trainer *trainer, struct step_report *report)
{
    struct event *const end = trainer->marks[MARK_END];
    int rc = 0;
    if (trainer->spec.no_compute)
        report->result = (struct backend_result){.counted = report->span.count};
    else
        rc = tower_result(trainer->tower, &report->result);
    if (rc == 0)
        rc = mark(trainer, end);
    if (rc == 0)
        rc = end->device->ops->event_wait(end);
    if (rc != 0)
        return rc;
    account(trainer, &report->span, &report->times);
    report->ended_ns = trainer->last_end_ns;
    return queue_put(trainer->full, report);
}

/* The next slot the gate lets through, its pixels readable. -ENODATA at the end. */
static int take_slot(struct trainer *trainer, struct slot **slot_out)
{
    const struct trainer_spec *const spec = &trainer->spec;
    struct slot *slot;
    int rc = mark(trainer, trainer->marks[MARK_BEGIN]);
    if (rc == 0)
        rc = slots_take(spec->slots, &slot);
    if (rc != 0)
        return rc;
    if (!gate_pass(spec->gate, slot->span.number)) {
        slots_give_back(spec->slots, slot);
        return -ENODATA;
    }
    rc = mark(trainer, trainer->marks[MARK_TAKEN]);
    if (rc == 0)
        rc = stream_wait(spec->tower.compute, slot->ready);
    if (rc == 0)
        rc = mark(trainer, trainer->marks[MARK_INPUT]);
    *slot_out = slot;
    return rc;
}

static int step(struct trainer *trainer)
{
    void *item;
    int rc = queue_get(trainer->empty, &item);
    if (rc != 0)
        return rc;
    struct step_report *const report = item;
    struct slot *slot;
    rc = take_slot(trainer, &slot);
    if (rc != 0)
        return rc;
    report->span = slot->span;
    memcpy(report->ids, slot->ids, slot->span.count * sizeof(*slot->ids));
    rc = compute(trainer, slot, &report->span);
    return rc == 0 ? finish_report(trainer, report) : rc;
}

static void run_steps(struct trainer *trainer)
{
    trainer->last_end_ns = clock_now_ns();
    int rc = 0;
    while (rc == 0)
        rc = step(trainer);
    if (rc != -ENODATA && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, EXIT_CODE_DEVICE, "%s: a step failed: %s", trainer->spec.name, strerror(-rc));
    slots_end(trainer->spec.slots);
    queue_finish(trainer->full);
}

static void trainer_loop(void *arg)
{
    struct trainer *const trainer = arg;
    const int rc = open_tower(trainer);
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_DEVICE,
                  "%s: could not be set up: %s", trainer->spec.name, strerror(-rc));
    set_phase(trainer, rc == 0 ? PHASE_OPEN : PHASE_FAILED, rc);
    if (rc == 0 && await_phase(trainer, PHASE_RUNNING) == 0)
        run_steps(trainer);
    set_phase(trainer, PHASE_DONE, rc);
    await_phase(trainer, PHASE_LEAVING);
    marks_close(trainer);
    tower_close(trainer->tower);
}

static void release(struct trainer *trainer)
{
    queue_close(trainer->full);
    queue_close(trainer->empty);
    pthread_cond_destroy(&trainer->changed);
    pthread_mutex_destroy(&trainer->lock);
    free(trainer->reports);
    free(trainer->ids);
    free(trainer);
}

static int open_reports(struct trainer *trainer)
{
    const uint32_t depth = trainer->spec.report_depth;
    const size_t id_count = trainer->spec.slice_max;
    trainer->reports = calloc(depth, sizeof(*trainer->reports));
    trainer->ids = calloc(depth * id_count, sizeof(*trainer->ids));
    if (trainer->reports == NULL || trainer->ids == NULL)
        return -ENOMEM;
    int rc = queue_open(&trainer->full, depth);
    if (rc == 0)
        rc = queue_open(&trainer->empty, depth);
    for (uint32_t i = 0; i < depth && rc == 0; i++) {
        trainer->reports[i].ids = trainer->ids + i * id_count;
        rc = queue_put(trainer->empty, &trainer->reports[i]);
    }
    return rc;
}

int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec)
{
    struct trainer *const trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL)
        return -ENOMEM;
    trainer->spec = *spec;
    pthread_mutex_init(&trainer->lock, NULL);
    pthread_cond_init(&trainer->changed, NULL);
    int rc = open_reports(trainer);
    if (rc == 0)
        rc = thread_start(&trainer->thread, spec->name, trainer_loop, trainer);
    if (rc != 0) {
        release(trainer);
        return rc;
    }
    *trainer_out = trainer;
    return 0;
}

int trainer_ready(struct trainer *trainer)
{
    await_phase(trainer, PHASE_OPEN);
    pthread_mutex_lock(&trainer->lock);
    const int rc = trainer->phase == PHASE_OPENING ? -ECANCELED : trainer->result;
    pthread_mutex_unlock(&trainer->lock);
    return rc;
}

void trainer_go(struct trainer *trainer)
{
    /* A thread that was cancelled while it waited is done and must stay so. */
    pthread_mutex_lock(&trainer->lock);
    if (trainer->phase == PHASE_OPEN)
        trainer->phase = PHASE_RUNNING;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}

int trainer_report(struct trainer *trainer, struct step_report **report_out)
{
    void *item;
    const int rc = queue_get(trainer->full, &item);
    if (rc == 0)
        *report_out = item;
    return rc;
}

void trainer_give_back(struct trainer *trainer, struct step_report *report)
{
    queue_put(trainer->empty, report);
}

struct tower *trainer_tower(struct trainer *trainer)
{
    return trainer->tower;
}

void trainer_settle(struct trainer *trainer)
{
    if (trainer != NULL)
        await_phase(trainer, PHASE_DONE);
}

void trainer_join(struct trainer *trainer)
{
    if (trainer == NULL)
        return;
    trainer_settle(trainer);
    set_phase(trainer, PHASE_LEAVING, 0);
    thread_join(trainer->thread);
    release(trainer);
}

void trainer_cancel(void *arg)
{
    struct trainer *const trainer = arg;
    queue_cancel(trainer->full);
    queue_cancel(trainer->empty);
    pthread_mutex_lock(&trainer->lock);
    trainer->cancelled = true;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}
