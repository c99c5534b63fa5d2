/* The trainer thread: one tower's life, from opening its arenas to the last report. */
#include "sync/trainer.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage/thread.h"

#define POLL_NAP_NS 20000       /* between looks at a device that computes */

/* Where the thread is; main and the thread move it forward under the lock. */
enum phase { PHASE_OPENING, PHASE_OPEN, PHASE_FAILED, PHASE_RUNNING, PHASE_DONE, PHASE_LEAVING };

/* A step that is queued and not yet reported. */
struct flight { struct step_report *report; struct step_facts facts; };

struct trainer {
    struct trainer_spec spec;
    struct thread *thread;
    struct tower *tower;
    struct buckets buckets;
    uint32_t started;               /* buckets of this step whose reduction is started */
    int start_result;               /* of the first reduce start that failed in this step */
    struct step_clock *clock;
    uint32_t depth;                 /* steps that may be queued and not yet reported */
    struct flight *flights;         /* step n has flights[n % depth] */
    struct backend_result *results; /* pinned, of the same places */
    uint64_t queued, finished;      /* steps */
    bool joined;                    /* the reduction, or tried to */
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

static void bind_thread(const struct trainer_spec *spec)
{
    struct device *const device = spec->tower.device;
    if (spec->cpus == NULL) {
        device->ops->bind(device);
        return;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < spec->cpu_count; i++)
        CPU_SET(spec->cpus[i], &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static int open_flights(struct trainer *trainer)
{
    struct device *const device = trainer->spec.tower.device;
    trainer->depth = device->ops->steps_ahead + 1;
    trainer->flights = calloc(trainer->depth, sizeof(*trainer->flights));
    if (trainer->flights == NULL)
        return -ENOMEM;
    void *memory;
    int rc = device->ops->alloc_pinned(device, trainer->depth * sizeof(*trainer->results), &memory);
    if (rc != 0)
        return rc;
    trainer->results = memory;
    return step_clock_open(&trainer->clock, trainer->spec.tower.compute, trainer->buckets.count, trainer->depth);
}

static void close_flights(struct trainer *trainer)
{
    struct device *const device = trainer->spec.tower.device;
    step_clock_close(trainer->clock);
    if (trainer->results != NULL)
        device->ops->free_pinned(device, trainer->results);
    free(trainer->flights);
}

/* The tower may run from the end of one bucket to the end of the next as one piece. */
static int cut_tower(struct trainer *trainer)
{
    size_t ends[BUCKETS_MAX];
    for (uint32_t b = 0; b < trainer->buckets.count; b++)
        ends[b] = trainer->buckets.bucket[b].offset + trainer->buckets.bucket[b].count;
    return tower_cut(trainer->tower, ends, trainer->buckets.count);
}

static int join_reduction(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    const struct reduce_member member = {
        .device = spec->tower.device,
        .compute = spec->tower.compute,
        .communication = spec->communication,
        .gradients = tower_gradients(trainer->tower),
        .gradient_count = tower_arena(trainer->tower)->count,
    };
    trainer->joined = true;
    return spec->reduce->ops->join(spec->reduce, spec->tower.index, &member, &trainer->buckets);
}

/* From the tower's own thread: what belongs to it in the reduction. */
static void leave_reduction(struct trainer *trainer)
{
    const struct reduce_ops *const ops = trainer->spec.reduce->ops;
    if (trainer->joined && ops->leave != NULL)
        ops->leave(trainer->spec.reduce, trainer->spec.tower.index);
}

static int open_tower(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    bind_thread(spec);
    if (spec->no_compute)
        return open_flights(trainer);
    int rc = tower_open(&trainer->tower, &spec->tower);
    if (rc != 0)
        return rc;
    buckets_init(&trainer->buckets, tower_arena(trainer->tower), spec->bucket_bytes);
    rc = cut_tower(trainer);
    if (rc == 0)
        rc = open_flights(trainer);
    return rc == 0 ? join_reduction(trainer) : rc;
}

static int mark(struct trainer *trainer, enum mark mark)
{
    return step_clock_mark(trainer->clock, trainer->queued, mark);
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

/* What is to be done with a bucket that is reduced. */
static int use_bucket(struct trainer *trainer, uint32_t b, float gradient_scale)
{
    const struct bucket *const bucket = &trainer->buckets.bucket[b];
    const float learning_rate = trainer->spec.learning_rate;
    if (!tower_updates_at_once(trainer->tower))
        return tower_update(trainer->tower, bucket->offset, bucket->count, gradient_scale, learning_rate);
    const int rc = tower_check(trainer->tower, bucket->offset, bucket->count);
    if (rc != 0 || b + 1 < trainer->buckets.count)
        return rc;
    return tower_update(trainer->tower, 0, tower_arena(trainer->tower)->count, gradient_scale, learning_rate);
}

/* Wait for each bucket's sum and update its range. */
static int update_buckets(struct trainer *trainer, const struct span *span)
{
    const struct trainer_spec *const spec = &trainer->spec;
    const bool alone = spec->mode == SYNC_INDEPENDENT;
    const uint32_t samples = alone ? span->count : span->global_count;
    int rc = 0;
    for (uint32_t b = 0; b < trainer->buckets.count && rc == 0; b++) {
        rc = spec->reduce->ops->wait(spec->reduce, spec->tower.index, b);
        if (rc == 0)
            rc = step_clock_mark_bucket(trainer->clock, trainer->queued, b, BUCKET_REDUCED);
        if (rc == 0 && samples > 0)
            rc = use_bucket(trainer, b, 1.0f / (float)samples);
        if (rc == 0)
            rc = step_clock_mark_bucket(trainer->clock, trainer->queued, b, BUCKET_UPDATED);
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
        rc = mark(trainer, MARK_BACKWARD);
    return rc == 0 ? update_buckets(trainer, span) : rc;
}

static uint32_t place_of(const struct trainer *trainer, uint64_t number)
{
    return (uint32_t)(number % trainer->depth);
}

static int queue_result(struct trainer *trainer, const struct span *span)
{
    struct backend_result *const result = &trainer->results[place_of(trainer, trainer->queued)];
    if (!trainer->spec.no_compute)
        return tower_result(trainer->tower, result);
    *result = (struct backend_result){.counted = span->count};
    return 0;
}

static struct flight *flight_of(struct trainer *trainer, uint64_t number)
{
    return &trainer->flights[place_of(trainer, number)];
}

/* Queue the whole step; the slot goes back as soon as what reads it is queued. */
static int queue_step(struct trainer *trainer, struct slot *slot, struct step_report *report)
{
    const struct trainer_spec *const spec = &trainer->spec;
    struct flight *const flight = flight_of(trainer, trainer->queued);
    const bool training = slot->span.pass == PASS_TRAIN;
    report->span = slot->span;
    memcpy(report->ids, slot->ids, slot->span.count * sizeof(*slot->ids));
    flight->report = report;
    flight->facts.trained = training && !spec->no_compute;
    int rc = spec->no_compute ? stream_record(spec->tower.compute, slot->free)
                              : tower_forward(trainer->tower, slot, training);
    slots_give_back(spec->slots, slot);
    if (rc == 0)
        rc = mark(trainer, MARK_FORWARD);
    if (rc == 0 && flight->facts.trained)
        rc = train(trainer, &report->span);
    if (rc == 0)
        rc = queue_result(trainer, &report->span);
    if (rc == 0)
        rc = mark(trainer, MARK_END);
    if (rc == 0)
        trainer->queued++;
    return rc;
}

static bool is_cancelled(struct trainer *trainer)
{
    pthread_mutex_lock(&trainer->lock);
    const bool cancelled = trainer->cancelled;
    pthread_mutex_unlock(&trainer->lock);
    return cancelled;
}

/* Wait for the device, looking after a reduction that can fail by itself. */
static int await_end(struct trainer *trainer, struct event *end)
{
    const struct device_ops *const device = end->device->ops;
    struct reduce *const reduce = trainer->spec.reduce;
    const struct timespec nap = {.tv_nsec = POLL_NAP_NS};
    int rc = 0;
    while (trainer->joined && reduce->ops->poll != NULL && !device->event_passed(end) && rc == 0) {
        nanosleep(&nap, NULL);
        rc = is_cancelled(trainer) ? -ECANCELED : reduce->ops->poll(reduce, trainer->spec.tower.index);
    }
    return rc != 0 ? rc : device->event_wait(end);
}

/* Report the oldest step that is not yet reported. */
static int finish_step(struct trainer *trainer)
{
    const uint64_t number = trainer->finished;
    const struct flight *const flight = flight_of(trainer, number);
    struct step_report *const report = flight->report;
    int rc = await_end(trainer, step_clock_end(trainer->clock, number));
    if (rc == 0)
        rc = step_clock_read(trainer->clock, number, flight->facts, &report->times, &report->ended_ns);
    if (rc != 0)
        return rc;
    report->result = trainer->results[place_of(trainer, number)];
    trainer->finished++;
    return queue_put(trainer->full, report);
}

static uint64_t waited_ns(const struct trainer *trainer)
{
    struct slots_counts counts;
    slots_count(trainer->spec.slots, &counts);
    return counts.take_waited_ns;
}

/* The next slot the gate lets through, its pixels readable. -ENODATA at the end. */
static int take_slot(struct trainer *trainer, struct slot **slot_out)
{
    const struct trainer_spec *const spec = &trainer->spec;
    struct step_facts *const facts = &flight_of(trainer, trainer->queued)->facts;
    const uint64_t before_ns = waited_ns(trainer);
    struct slot *slot;
    int rc = mark(trainer, MARK_BEGIN);
    if (rc == 0)
        rc = slots_take(spec->slots, &slot);
    if (rc != 0)
        return rc;
    if (!gate_pass(spec->gate, slot->span.number)) {
        slots_give_back(spec->slots, slot);
        return -ENODATA;
    }
    facts->waited = waited_ns(trainer) > before_ns;
    facts->copied = slot->ready->device->ops->event_passed(slot->ready);
    rc = mark(trainer, MARK_TAKEN);
    if (rc == 0)
        rc = stream_wait(spec->tower.compute, slot->ready);
    if (rc == 0)
        rc = mark(trainer, MARK_INPUT);
    *slot_out = slot;
    return rc;
}

/* Queue a step, then report the one that is steps_ahead before it. */
static int step(struct trainer *trainer)
{
    void *report;
    int rc = queue_get(trainer->empty, &report);
    if (rc != 0)
        return rc;
    struct slot *slot;
    rc = take_slot(trainer, &slot);
    if (rc == 0)
        rc = queue_step(trainer, slot, report);
    if (rc == 0 && trainer->queued - trainer->finished == trainer->depth)
        rc = finish_step(trainer);
    return rc;
}

/* No more is queued: report what is. */
static int finish_steps(struct trainer *trainer)
{
    int rc = 0;
    while (rc == 0 && trainer->finished < trainer->queued)
        rc = finish_step(trainer);
    return rc;
}

static void run_steps(struct trainer *trainer)
{
    int rc = step_clock_start(trainer->clock);
    while (rc == 0)
        rc = step(trainer);
    if (rc == -ENODATA)
        rc = finish_steps(trainer);
    if (rc != 0 && rc != -ECANCELED)
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
    leave_reduction(trainer);
    trainer->spec.tower.compute->device->ops->stream_drain(trainer->spec.tower.compute);
    set_phase(trainer, PHASE_DONE, rc);
    await_phase(trainer, PHASE_LEAVING);
    close_flights(trainer);
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
