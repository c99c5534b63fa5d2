/* The thread of one tower: it starts, plans the tower, allocates its memory, and runs its steps. queue_compute is the
 * step itself. */
#include "sync/trainer.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/health.h"
#include "compute/team.h"
#include "stage/clock.h"
#include "stage/pairwise.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

#define STEP_MARKS 8u           /* the most clock marks of a step of one microbatch here; the mode adds its own */
#define MICROBATCH_MARKS 2u     /* more marks for each further microbatch: forward, backward */
#define STAGE_MARKS 2u          /* and for each stage of the head with parts */
#define POLL_NAP_NS 20000       /* between two polls of a device that computes */

/* The stage that the thread has reached. Main waits for STARTED, PLANNED and READY, and releases the next stage. */
enum stage {
    STAGE_STARTING,             /* the tower's team of threads is started */
    STAGE_STARTED,              /* the thread waits for trainer_plan */
    STAGE_PLANNING,
    STAGE_PLANNED,              /* the thread waits for trainer_allocate */
    STAGE_ALLOCATING,           /* allocating, and joining the other towers */
    STAGE_READY,                /* the thread waits for trainer_go */
    STAGE_FAILED,               /* planning or allocating has failed */
    STAGE_RUNNING,
    STAGE_DONE,                 /* no more steps; the arenas stay allocated, because other towers may still read them */
    STAGE_CLOSING
};

/* The results of a step, written by the device to pinned memory. */
struct step_result {
    struct backend_result *microbatches;
    struct backend_result *trunks;      /* of a training step, if tower_has_trunk_losses: to be added to the losses */
    struct health health;
};

/* The steps that are queued on the device and not yet reported; step n has index n % depth. */
struct inflight_steps {
    uint32_t depth;
    struct step_report **reports;
    uint32_t microbatches_max;  /* the most microbatches of a step */
    struct step_result *results;        /* one block, which ends with the results of all microbatches */
    uint64_t queued, reported;  /* number of steps so far */
};

struct trainer {
    struct trainer_spec spec;
    struct thread *thread;
    struct tower *tower;
    struct slots *slots;            /* lent, from trainer_allocate on */
    struct sync sync;
    struct step_clock *clock;
    struct inflight_steps inflight;
    struct snapshot_pool snapshots, shown, evaluated;
    bool waits_for_main;            /* main decides whether the run continues after the batch queued last */
    uint64_t next;                  /* number of the batch after the one queued last */
    /* The array of all reports, with memory for their ids; allocated before the first step. */
    struct step_report *reports;
    uint64_t *ids;
    void *outputs;                  /* pinned: answers, or labels and logits, of all reports; NULL: none */
    struct queue *empty_reports;    /* to the thread */
    struct queue *full_reports;     /* to main */
    pthread_mutex_t lock;           /* guards the members below */
    pthread_cond_t changed;
    enum stage stage;
    int result;                     /* 0, or the errno of the failed stage */
    bool is_cancelled;
};

/* ---- stages: main and the thread advance them and wait for each other ---- */

static void set_stage(struct trainer *trainer, enum stage stage, int result)
{
    pthread_mutex_lock(&trainer->lock);
    trainer->stage = stage;
    trainer->result = result;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}

/* Advance from stage `from` to `to`. Does nothing in another stage: a thread that was cancelled while it waited stays
 * in STAGE_DONE. */
static void advance_stage(struct trainer *trainer, enum stage from, enum stage to)
{
    pthread_mutex_lock(&trainer->lock);
    if (trainer->stage == from)
        trainer->stage = to;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}

/* Wait for that stage or a later one: 0, the result of a stage that failed, or -ECANCELED. A cancel does not end the
 * waits for STAGE_DONE and STAGE_CLOSING. */
static int wait_for_stage(struct trainer *trainer, enum stage stage)
{
    pthread_mutex_lock(&trainer->lock);
    while (trainer->stage < stage && (!trainer->is_cancelled || stage >= STAGE_DONE))
        pthread_cond_wait(&trainer->changed, &trainer->lock);
    const int rc = trainer->stage < stage ? -ECANCELED : trainer->result;
    pthread_mutex_unlock(&trainer->lock);
    return rc;
}

static bool is_cancelled(struct trainer *trainer)
{
    pthread_mutex_lock(&trainer->lock);
    const bool is_cancelled = trainer->is_cancelled;
    pthread_mutex_unlock(&trainer->lock);
    return is_cancelled;
}

/* ---- steps in flight ---- */

/* Open as many steps in flight as the device computes ahead, and one more; only one if its outputs are waited for. Call
 * close_inflight after success or failure. */
static int open_inflight(struct trainer *trainer)
{
    struct device *const device = trainer->spec.tower.device;
    struct inflight_steps *const inflight = &trainer->inflight;
    inflight->depth = trainer->spec.reports_outputs ? 1 : device->ops->steps_ahead + 1;
    inflight->microbatches_max = tower_microbatches_most(trainer->tower, trainer->spec.local_max);
    inflight->reports = calloc(inflight->depth, sizeof(struct step_report *));
    if (inflight->reports == NULL)
        return -ENOMEM;
    void *memory;
    const uint32_t results = inflight->microbatches_max * (tower_has_trunk_losses(trainer->tower) ? 2 : 1);
    const size_t bytes = sizeof(struct step_result) + results * sizeof(struct backend_result);
    const int rc = device->ops->alloc_pinned(device, inflight->depth * bytes, &memory);
    if (rc != 0)
        return rc;
    inflight->results = memory;
    struct backend_result *const microbatches = (struct backend_result *)(inflight->results + inflight->depth);
    for (uint32_t i = 0; i < inflight->depth; i++) {
        inflight->results[i].microbatches = microbatches + (size_t)i * results;
        inflight->results[i].trunks = inflight->results[i].microbatches + inflight->microbatches_max;
    }
    return 0;
}

static void close_inflight(struct trainer *trainer)
{
    struct device *const device = trainer->spec.tower.device;
    if (trainer->inflight.results != NULL)
        device->ops->free_pinned(device, trainer->inflight.results);
    free(trainer->inflight.reports);
}

/* The loss of a microbatch that has samples. */
static double microbatch_loss(const struct tower *tower, const struct local_batch *local,
                              const struct step_result *result, uint32_t i)
{
    const bool adds_trunk = local->phase == PHASE_TRAIN && tower_has_trunk_losses(tower);
    return result->microbatches[i].loss_sum + (adds_trunk ? result->trunks[i].loss_sum : 0);
}

/* Add up the results of the microbatches. Losses are added in pairs, as main adds those of the towers. Counters over
 * all steps are those of the last microbatch. */
static struct backend_result sum_microbatches(const struct tower *tower, const struct local_batch *local,
                                              const struct step_result *result)
{
    const uint32_t microbatches = tower_microbatches(tower, local->count);
    struct backend_result sum = result->microbatches[microbatches - 1];
    struct pairwise_sum losses = { .count = 0 };
    sum.correct = sum.counted = 0;
    sum.weight_sum = 0;
    for (uint32_t i = 0; i < microbatches; i++) {
        const struct backend_result *const one = &result->microbatches[i];
        const bool is_empty = tower_microbatch(tower, local, i).count == 0;
        pairwise_add(&losses, is_empty ? 0 : microbatch_loss(tower, local, result, i));
        sum.correct += is_empty ? 0 : one->correct;
        sum.counted += is_empty ? 0 : one->counted;
        sum.weight_sum += is_empty ? 0 : one->weight_sum;
    }
    sum.loss_sum = pairwise_total(&losses);
    return sum;
}

/* Are weights and gradients checked after this batch? */
static bool is_inspected(const struct trainer *trainer, const struct local_batch *local)
{
    const uint64_t every = local->phase == PHASE_TRAIN ? trainer->spec.inspect_every : 0;
    return every > 0 && ((local->step + 1) % every == 0 || local->last_of_phase);
}

static void read_result(const struct trainer *trainer, const struct step_result *result, struct step_report *report)
{
    const struct health *const health = is_inspected(trainer, &report->local) ? &result->health : NULL;
    report->result = sum_microbatches(trainer->tower, &report->local, result);
    report->gradient_norm = health != NULL && report->result.is_skipped == 0
                                ? health_gradient_norm(health, report->result.loss_scale) : NAN;
    report->broken = health_of_step(trainer->tower, health, report->result.loss_sum);
}

/* Note the step for the watchdog's message, in which steps, and the batches of an evaluation, count from 1. */
static void note_step(const struct local_batch *local)
{
    heartbeat_at(local->phase == PHASE_TRAIN ? "step" : "evaluation batch", local->step + 1);
}

/* Wait for an event of the tower's device, and poll a reduction that can fail asynchronously. 0, the errno of its
 * failure, or -ECANCELED. */
static int wait_for_device(struct trainer *trainer, struct event *end)
{
    const struct device_ops *const device = end->device->ops;
    const struct timespec nap = { .tv_nsec = POLL_NAP_NS };
    int rc = 0;
    heartbeat_begin_wait("waiting for its results");
    while (sync_needs_polling(&trainer->sync) && !device->event_passed(end) && rc == 0) {
        nanosleep(&nap, NULL);
        rc = is_cancelled(trainer) ? -ECANCELED : sync_poll(&trainer->sync);
    }
    if (rc == 0)
        rc = device->event_wait(end);
    heartbeat_end_wait();
    return rc;
}

/* Wait for the end of the oldest step in flight and report it to main. */
static int report_step(struct trainer *trainer)
{
    const uint64_t place = trainer->inflight.reported % trainer->inflight.depth;
    struct step_report *const report = trainer->inflight.reports[place];
    note_step(&report->local);
    int rc = wait_for_device(trainer, step_clock_oldest(trainer->clock));
    if (rc == 0)
        rc = step_clock_read(trainer->clock, &report->times, &report->ended_ns);
    if (rc != 0)
        return rc;
    report->seen_ns = clock_now_ns();
    step_clock_record(trainer->clock, trainer->spec.track, &report->local, trainer->spec.tower.index);
    sync_record(&trainer->sync);
    read_result(trainer, &trainer->inflight.results[place], report);
    trainer->inflight.reported++;
    return queue_put(trainer->full_reports, report);
}

static int report_all_steps(struct trainer *trainer)
{
    int rc = 0;
    while (rc == 0 && trainer->inflight.reported < trainer->inflight.queued)
        rc = report_step(trainer);
    return rc;
}

/* ---- outputs of an evaluation ---- */

static size_t label_bytes(const struct trainer_spec *spec)
{
    return spec->local_max * sizeof(int32_t);
}

static size_t logits_bytes(const struct trainer_spec *spec)
{
    return (size_t)spec->local_max * spec->tower.net->classes * sizeof(float);
}

/* Numbers of an embedding; 0: they are not reported. */
static size_t embedding_count(const struct trainer_spec *spec)
{
    const struct net *const net = spec->tower.net;
    return spec->tower.backend_spec.keeps_embedding ? shape_count(net->layers[net_embedding_layer(net)].in) : 0;
}

static bool evaluates(const struct tower_spec *tower)
{
    uint32_t samples = 0;
    for (uint32_t i = 0; i < TOWER_COUNTS; i++)
        samples |= tower->evaluate_counts[i];
    return samples > 0;
}

/* Bytes of the outputs in a report: answers, or labels and logits. */
static size_t output_bytes(const struct trainer_spec *spec)
{
    if (spec->reports_outputs)
        return label_bytes(spec) + logits_bytes(spec) + spec->local_max * embedding_count(spec) * sizeof(float);
    return evaluates(&spec->tower) ? spec->local_max * sizeof(struct answer) : 0;
}

static void set_outputs(const struct trainer_spec *spec, struct step_report *report, void *outputs)
{
    if (spec->reports_outputs) {
        report->labels = outputs;
        report->logits = (float *)(void *)((char *)outputs + label_bytes(spec));
        if (embedding_count(spec) > 0)
            report->embeddings = report->logits + (size_t)spec->local_max * spec->tower.net->classes;
    } else {
        report->answers = outputs;
    }
}

static int open_outputs(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    struct device *const device = spec->tower.device;
    const size_t bytes = output_bytes(spec);
    if (bytes == 0)
        return 0;
    const int rc = device->ops->alloc_pinned(device, spec->report_depth * bytes, &trainer->outputs);
    for (uint32_t i = 0; i < spec->report_depth && rc == 0; i++)
        set_outputs(spec, &trainer->reports[i], (char *)trainer->outputs + i * bytes);
    return rc;
}

static void close_outputs(struct trainer *trainer)
{
    struct device *const device = trainer->spec.tower.device;
    if (trainer->outputs != NULL)
        device->ops->free_pinned(device, trainer->outputs);
}

/* Queue the copy of the labels, before the slot is returned. */
static int queue_labels(struct trainer *trainer, const struct slot *slot, struct step_report *report)
{
    struct stream *const compute = trainer->spec.tower.compute;
    if (report->labels == NULL)
        return 0;
    return compute->device->ops->copy(compute, report->labels, slot->labels, slot->local.count * sizeof(*slot->labels),
                                      COPY_FROM_DEVICE);
}

/* With parts the head has the results of all microbatches. */
static int queue_head_result(struct trainer *trainer, struct step_report *report, uint32_t microbatch,
                             struct backend_result *result_out)
{
    struct tower *const tower = trainer->tower;
    const struct local_batch *const local = &report->local;
    const int rc = tower_head_result(tower, local, microbatch, result_out);
    if (rc != 0 || local->phase == PHASE_TRAIN || report->answers == NULL)
        return rc;
    const size_t first = tower_microbatch(tower, local, microbatch).first;
    return tower_head_answers(tower, local, microbatch, report->answers + first);
}

/* Queue the copies of the result of a microbatch, and in an evaluation of its answers, after its forward. Logits and
 * embeddings are waited for, because the next forward overwrites them. */
static int queue_result(struct trainer *trainer, struct step_report *report, uint32_t microbatch,
                        struct backend_result *result_out)
{
    if (tower_has_parts(trainer->tower))
        return queue_head_result(trainer, report, microbatch, result_out);
    int rc = tower_result(trainer->tower, result_out);
    if (rc != 0 || report->local.phase == PHASE_TRAIN)
        return rc;
    const size_t first = tower_microbatch(trainer->tower, &report->local, microbatch).first;
    if (report->embeddings != NULL)
        rc = tower_embeddings(trainer->tower, report->embeddings + first * embedding_count(&trainer->spec));
    if (rc == 0 && report->logits != NULL)
        return tower_logits(trainer->tower, report->logits + first * trainer->spec.tower.net->classes);
    if (rc != 0)
        return rc;
    return report->answers != NULL ? tower_answers(trainer->tower, report->answers + first) : 0;
}

/* ---- snapshots ---- */

/* Queue a snapshot. If none is idle, a step in flight may use one: report these steps first. */
static int queue_snapshot(struct trainer *trainer, struct snapshot_pool *pool, struct snapshot **snapshot_out)
{
    int rc = snapshot_pool_try_take(pool, snapshot_out);
    if (rc != -EAGAIN)
        return rc;
    rc = report_all_steps(trainer);
    return rc == 0 ? snapshot_pool_take(pool, snapshot_out) : rc;
}

/* Some snapshots are made by tower 0 alone, unless towers have parts of the net. It may have to wait until main has
 * returned the previous one, which main does only when all towers have reported that batch; so the other towers report
 * all their steps here. */
static int queue_or_wait(struct trainer *trainer, struct snapshot_pool *pool, struct snapshot **snapshot_out)
{
    return pool->rule.count > 0 ? queue_snapshot(trainer, pool, snapshot_out) : report_all_steps(trainer);
}

/* Queue a snapshot of weights and gradients for observers (TensorBoard). */
static int queue_shown(struct trainer *trainer, struct step_report *report)
{
    if (report->local.phase != PHASE_TRAIN || !snapshot_due(&trainer->spec.shown, &report->local))
        return 0;
    return queue_or_wait(trainer, &trainer->shown, &report->shown);
}

/* Queue a snapshot of what an evaluation computed with. */
static int queue_evaluated(struct trainer *trainer, struct step_report *report)
{
    if (!snapshot_due(&trainer->spec.evaluated, &report->local))
        return 0;
    return queue_or_wait(trainer, &trainer->evaluated, &report->evaluated);
}

/* Complete the states of all towers before they are copied, as they are after batch `batch`. */
static int complete_state(struct trainer *trainer, uint64_t batch)
{
    const struct sync_ops *const mode = trainer->spec.sync.ops;
    return mode->before_snapshot != NULL ? mode->before_snapshot(&trainer->sync, batch) : 0;
}

/* Queue the snapshots that are due after the batch that was just queued. */
static int queue_snapshots(struct trainer *trainer, struct step_report *report)
{
    const struct trainer_spec *const spec = &trainer->spec;
    report->snapshot = report->shown = report->evaluated = NULL;
    report->sync = &trainer->sync;
    int rc = queue_shown(trainer, report);
    if (rc == 0)
        rc = queue_evaluated(trainer, report);
    if (rc != 0 || !snapshot_wanted(&spec->snapshots, spec->gate, &report->local))
        return rc;
    rc = complete_state(trainer, report->local.number);
    return rc == 0 ? queue_or_wait(trainer, &trainer->snapshots, &report->snapshot) : rc;
}

/* ---- the step: the mode's functions and the tower's in their order ---- */

/* Wait for the next slot. Work that is queued on the compute stream afterwards waits for the slot's copy. -ENODATA at
 * the end of the run. */
static int take_slot(struct trainer *trainer, struct slot **slot_out)
{
    struct slots_counts before, after;
    struct slot *slot;
    slots_count(trainer->slots, &before);
    int rc = step_clock_mark(trainer->clock, SPENT_OTHER);
    if (rc == 0)
        rc = slots_take(trainer->slots, &slot);
    if (rc != 0)
        return rc;
    if (!gate_pass(trainer->spec.gate, slot->local.number)) {
        slots_give_back(trainer->slots, slot);
        return -ENODATA;
    }
    const bool is_copied = slot->ready->device->ops->event_passed(slot->ready);
    slots_count(trainer->slots, &after);
    const bool waited = after.take_waited_ns > before.take_waited_ns;
    rc = step_clock_mark(trainer->clock, waited ? SPENT_INPUT_WAIT : SPENT_OTHER);
    if (rc == 0)
        rc = stream_wait(trainer->spec.tower.compute, slot->ready);
    if (rc == 0)
        rc = step_clock_mark(trainer->clock, is_copied ? SPENT_OTHER : SPENT_EXPOSED_COPY);
    *slot_out = slot;
    return rc;
}

/* Some modes fetch or average weights before forward. An evaluation uses the moving averages of the weights, if the
 * tower has them (train.ema). The mode takes means of both, the trained weights and their averages, so the trained
 * weights are put back in place before. */
static int queue_before_forward(struct trainer *trainer, const struct local_batch *local)
{
    const struct sync_ops *const mode = trainer->spec.sync.ops;
    const bool evaluates = local->phase == PHASE_EVALUATE;
    int rc = evaluates && !local->first_of_phase ? 0 : tower_show_average(trainer->tower, false);
    if (rc == 0 && mode->before_forward != NULL)
        rc = mode->before_forward(&trainer->sync, local);
    return rc == 0 && evaluates ? tower_show_average(trainer->tower, true) : rc;
}

static int queue_forward(struct trainer *trainer, struct slot *slot, uint32_t microbatch, bool is_training)
{
    range_begin(TRACE_FORWARD, slot->local.number);
    const int rc = tower_forward(trainer->tower, slot, microbatch, is_training);
    range_end();
    return rc == 0 ? step_clock_mark(trainer->clock, SPENT_FORWARD) : rc;
}

/* Queue backward of a microbatch that is not the last one: gradients are accumulated on the device. */
static int queue_accumulate(struct trainer *trainer, uint64_t batch)
{
    range_begin(TRACE_BACKWARD, batch);
    const int rc = tower_accumulate(trainer->tower);
    range_end();
    return rc == 0 ? step_clock_mark(trainer->clock, SPENT_BACKWARD) : rc;
}

/* Backward of a batch, while it is being queued. */
struct backward {
    struct sync *sync;
    const struct local_batch *local;
    uint32_t ready;             /* buckets of gradients that are complete */
    int result;                 /* errno of the first bucket_ready that failed */
};

/* Called by tower_backward when the first `floats` of the gradients' arena are queued. In most modes the reduction of a
 * bucket starts as soon as the bucket is complete. */
static void note_ready(void *arg, size_t floats)
{
    struct backward *const backward = arg;
    struct sync *const sync = backward->sync;
    if (sync->spec.ops->bucket_ready == NULL)
        return;
    while (backward->ready < sync->buckets.of[REGION_GRADIENTS].count && backward->result == 0) {
        const struct bucket *const bucket = &sync->buckets.bucket[backward->ready];
        if (bucket->offset + bucket->count > floats)
            return;
        backward->result = sync->spec.ops->bucket_ready(sync, backward->local, backward->ready);
        backward->ready++;
    }
}

/* Queue the head of a batch whose microbatches are all forwarded: its stages and the exchanges between them. */
static int queue_head_forward(struct trainer *trainer, const struct local_batch *local)
{
    struct tower *const tower = trainer->tower;
    const struct head *const head = tower_head(tower);
    int rc = sync_exchange(&trainer->sync, HEAD_FEATURES, HEAD_OUTPUTS - HEAD_FEATURES, local->number);
    for (uint32_t stage = 0; stage < head->stage_count && rc == 0; stage++) {
        range_begin(TRACE_FORWARD, local->number);
        rc = tower_head_forward(tower, local, stage, local->phase == PHASE_TRAIN);
        range_end();
        if (rc == 0)
            rc = step_clock_mark(trainer->clock, SPENT_FORWARD);
        if (rc == 0)
            rc = sync_exchange(&trainer->sync, head_exchange_after(stage), 1, local->number);
    }
    return rc;
}

static int queue_head_backward(struct trainer *trainer, const struct local_batch *local)
{
    struct tower *const tower = trainer->tower;
    const struct head *const head = tower_head(tower);
    int rc = 0;
    for (uint32_t stage = head->stage_count; stage-- > 0 && rc == 0;) {
        range_begin(TRACE_BACKWARD, local->number);
        rc = tower_head_backward(tower, stage);
        range_end();
        if (rc == 0)
            rc = step_clock_mark(trainer->clock, SPENT_BACKWARD);
        if (rc == 0)
            rc = sync_exchange(&trainer->sync, head_exchange_of_gradients(head, stage), 1, local->number);
    }
    return rc;
}

/* Queue backward of the last microbatch of the batch. */
static int queue_backward(struct trainer *trainer, const struct local_batch *local)
{
    struct backward backward = { .sync = &trainer->sync, .local = local };
    int rc = tower_has_slices(trainer->tower) ? sync_start_region(&trainer->sync, REGION_STATISTICS, local->number) : 0;
    if (rc != 0)
        return rc;
    range_begin(TRACE_BACKWARD, local->number);
    rc = tower_backward(trainer->tower, note_ready, &backward);
    range_end();
    if (rc != 0 || backward.result != 0)
        return rc != 0 ? rc : backward.result;
    return step_clock_mark(trainer->clock, SPENT_BACKWARD);
}

/* With slices, wait for the statistics, of which the towers take the mean after every step. */
static int await_statistics(struct trainer *trainer, const struct local_batch *local)
{
    if (!tower_has_slices(trainer->tower))
        return 0;
    int rc = sync_await_region(&trainer->sync, REGION_STATISTICS);
    if (rc == 0)
        rc = tower_divide_statistics(trainer->tower, local->global_count);
    return rc == 0 ? step_clock_mark(trainer->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int update_average(struct trainer *trainer, const struct local_batch *local)
{
    if (tower_spec(trainer->tower)->average_decay == 0)
        return 0;
    const int rc = tower_update_average(trainer->tower, local->step);
    return rc == 0 ? step_clock_mark(trainer->clock, SPENT_UPDATE) : rc;
}

/* Let the mode wait for the sums and update the weights. */
static int queue_update(struct trainer *trainer, const struct local_batch *local)
{
    const struct sync_ops *const mode = trainer->spec.sync.ops;
    int rc = await_statistics(trainer, local);
    if (rc == 0)
        rc = mode->apply(&trainer->sync, local);
    if (rc == 0)
        rc = update_average(trainer, local);
    return rc == 0 && mode->after_step != NULL ? mode->after_step(&trainer->sync, local) : rc;
}

/* queue_compute with model.parts: the head computes all samples of the batch, between forward and backward of all
 * microbatches. */
static int queue_with_head(struct trainer *trainer, struct slot *slot, struct step_report *report,
                           struct step_result *result)
{
    const struct local_batch *const local = &report->local;
    const uint32_t count = tower_microbatches(trainer->tower, local->count);
    const bool is_training = local->phase == PHASE_TRAIN;
    int rc = queue_before_forward(trainer, local);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = queue_forward(trainer, slot, i, is_training);
    slots_give_back(trainer->slots, slot);
    if (rc == 0)
        rc = queue_head_forward(trainer, local);
    if (rc == 0 && is_training)
        rc = queue_head_backward(trainer, local);
    for (uint32_t i = 0; i + 1 < count && is_training && rc == 0; i++)
        rc = queue_accumulate(trainer, local->number);
    if (rc == 0 && is_training)
        rc = queue_backward(trainer, local);
    if (rc == 0 && is_training)
        rc = queue_update(trainer, local);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = queue_result(trainer, report, i, &result->microbatches[i]);
    for (uint32_t i = 0; i < count && rc == 0 && is_training && tower_has_trunk_losses(trainer->tower); i++)
        if (tower_microbatch(trainer->tower, local, i).count > 0)
            rc = tower_trunk_result(trainer->tower, i, &result->trunks[i]);
    return rc;
}

/* Queue forward, backward, reduction and update of the slot's batch on the device. With train.accumulate a batch has
 * several microbatches; the gradients of all are complete after backward of the last one. An evaluation is forward
 * only. The feeder may fill the slot again as soon as everything that reads it is queued. */
static int queue_compute(struct trainer *trainer, struct slot *slot, struct step_report *report,
                         struct step_result *result)
{
    const struct local_batch *const local = &report->local;
    const uint32_t last = tower_microbatches(trainer->tower, local->count) - 1;
    const bool is_training = local->phase == PHASE_TRAIN;
    int rc = queue_before_forward(trainer, local);
    for (uint32_t i = 0; i < last && rc == 0; i++) {
        rc = queue_forward(trainer, slot, i, is_training);
        if (rc == 0 && is_training)
            rc = queue_accumulate(trainer, local->number);
        if (rc == 0)
            rc = queue_result(trainer, report, i, &result->microbatches[i]);
    }
    if (rc == 0)
        rc = queue_forward(trainer, slot, last, is_training);
    slots_give_back(trainer->slots, slot);
    if (rc == 0 && is_training)
        rc = queue_backward(trainer, local);
    if (rc == 0 && is_training)
        rc = queue_update(trainer, local);
    return rc == 0 ? queue_result(trainer, report, last, &result->microbatches[last]) : rc;
}

static void begin_report(struct step_report *report, const struct slot *slot)
{
    report->local = slot->local;
    report->batches_found = slot->batches_found;
    report->slots_found = slot->slots_found;
    memcpy(report->ids, slot->ids, slot->local.count * sizeof(*slot->ids));
}

static int queue_step(struct trainer *trainer, struct slot *slot, struct step_report *report)
{
    const uint64_t place = trainer->inflight.queued % trainer->inflight.depth;
    struct step_result *const result = &trainer->inflight.results[place];
    const struct local_batch *const local = &report->local;
    begin_report(report, slot);
    note_step(local);
    trainer->inflight.reports[place] = report;
    range_begin(local->phase == PHASE_TRAIN ? TRACE_STEP : TRACE_EVALUATION, local->number);
    int rc = queue_labels(trainer, slot, report);
    if (rc == 0)
        rc = (tower_has_parts(trainer->tower) ? queue_with_head : queue_compute)(trainer, slot, report, result);
    range_end();
    report->staleness = local->phase == PHASE_TRAIN ? trainer->sync.staleness : 0;
    if (rc == 0 && is_inspected(trainer, local))
        rc = health_queue(trainer->tower, &result->health);
    if (rc == 0)
        rc = queue_snapshots(trainer, report);
    if (rc == 0)
        rc = step_clock_end(trainer->clock, SPENT_OTHER);
    if (rc != 0)
        return rc;
    trainer->inflight.queued++;
    trainer->next = local->number + 1;
    trainer->waits_for_main = trainer->spec.waits == WAITS_AFTER_EVALUATION && local->phase == PHASE_EVALUATE &&
                              local->last_of_phase;
    return 0;
}

/* Report all steps and wait for main, which needs all reports of an evaluation, or of the batches before, to decide
 * whether the run continues. */
static int wait_for_main(struct trainer *trainer)
{
    const bool waits = trainer->spec.waits == WAITS_BEFORE_BATCH ? !gate_is_open(trainer->spec.gate, trainer->next)
                                                                 : trainer->waits_for_main;
    if (!waits)
        return 0;
    const int rc = report_all_steps(trainer);
    return rc == 0 ? gate_await(trainer->spec.gate, trainer->next) : rc;
}

/* Queue a step; if that fills the steps in flight, report the oldest one. -ENODATA at the end of the run. */
static int run_step(struct trainer *trainer)
{
    struct slot *slot;
    void *report;
    int rc = wait_for_main(trainer);
    if (rc == 0)
        rc = queue_get(trainer->empty_reports, &report);
    if (rc == 0)
        rc = take_slot(trainer, &slot);
    if (rc == 0)
        rc = queue_step(trainer, slot, report);
    if (rc == 0 && trainer->inflight.queued - trainer->inflight.reported == trainer->inflight.depth)
        rc = report_step(trainer);
    return rc;
}

/* Make the snapshot after the last batch; other towers may still have to compute sums for it. */
static int take_last_snapshot(struct trainer *trainer)
{
    struct snapshot *last = NULL;
    int rc = complete_state(trainer, trainer->next);
    if (rc != 0 || trainer->snapshots.rule.count == 0)
        return rc;
    rc = snapshot_pool_take(&trainer->snapshots, &last);
    if (rc == 0)
        rc = wait_for_device(trainer, snapshot_end(last));
    if (rc == 0)
        snapshot_pool_keep_last(&trainer->snapshots, last);
    return rc;
}

/* Let the mode finish, and wait for it. The tower then has the weights that evaluations use. */
static int finish_run(struct trainer *trainer)
{
    const struct sync_ops *const mode = trainer->spec.sync.ops;
    int rc = tower_show_average(trainer->tower, false);
    if (rc == 0 && mode->finish != NULL)
        rc = mode->finish(&trainer->sync, trainer->next);
    if (rc == 0)
        rc = tower_show_average(trainer->tower, true);
    if (rc == 0)
        rc = step_clock_end(trainer->clock, SPENT_OTHER);
    return rc == 0 ? wait_for_device(trainer, step_clock_oldest(trainer->clock)) : rc;
}

static void run_steps(struct trainer *trainer)
{
    int rc = sync_begin(&trainer->sync);
    if (rc == 0)
        rc = step_clock_start(trainer->clock);
    while (rc == 0)
        rc = run_step(trainer);
    if (rc == -ENODATA)
        rc = report_all_steps(trainer);
    if (rc == 0 && trainer->spec.snapshots.count > 0 && trainer->spec.snapshots.last)
        rc = take_last_snapshot(trainer);
    if (rc == 0)
        rc = finish_run(trainer);
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE), "%s: a step failed: %s", trainer->spec.name,
                  exit_cause(rc));
    slots_end(trainer->slots);
    queue_finish(trainer->full_reports);
}

/* ---- start, plan, allocate ---- */

static struct sync_spec complete_sync(const struct trainer *trainer)
{
    struct sync_spec spec = trainer->spec.sync;
    spec.tower = trainer->tower;
    spec.index = trainer->spec.tower.index;
    spec.device = trainer->spec.tower.device;
    spec.compute = trainer->spec.tower.compute;
    return spec;
}

static int open_clock(struct trainer *trainer)
{
    const struct head *const head = tower_head(trainer->tower);
    const uint32_t marks = STEP_MARKS + (trainer->inflight.microbatches_max - 1) * MICROBATCH_MARKS +
                           (head != NULL ? head->stage_count * STAGE_MARKS : 0) +
                           sync_marks(&trainer->sync);
    return step_clock_open(&trainer->clock, trainer->spec.tower.compute, marks, trainer->inflight.depth);
}

static int allocate(struct trainer *trainer)
{
    int rc = tower_allocate(trainer->tower);
    if (rc != 0)
        return rc;
    const struct sync_spec sync = complete_sync(trainer);
    rc = sync_init(&trainer->sync, &sync);
    if (rc == 0)
        rc = open_inflight(trainer);
    if (rc == 0)
        rc = open_clock(trainer);
    if (rc == 0)
        rc = open_outputs(trainer);
    if (rc == 0)
        rc = snapshot_pool_open(&trainer->snapshots, trainer->tower);
    if (rc == 0)
        rc = snapshot_pool_open(&trainer->shown, trainer->tower);
    if (rc == 0)
        rc = snapshot_pool_open(&trainer->evaluated, trainer->tower);
    return rc == 0 ? sync_join(&trainer->sync, trainer->clock) : rc;
}

/* The number of samples in a full local batch. */
static uint32_t samples_of(const struct tower_spec *tower)
{
    return tower->evaluates_only ? tower->evaluate_counts[0] : tower->train_counts[0];
}

static int report_failure(struct trainer *trainer, const char *what, int rc)
{
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE), "%s: cannot %s steps of %u samples: %s",
                  trainer->spec.name, what, samples_of(&trainer->spec.tower), exit_cause(rc));
    return rc;
}

/* Report that a stage is complete, and wait until main releases the next one. */
static int complete_stage(struct trainer *trainer, enum stage reached, enum stage next)
{
    set_stage(trainer, reached, 0);
    return wait_for_stage(trainer, next);
}

/* Start, plan, allocate; main releases planning and allocating. */
static int set_up(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    heartbeat_at("planning", HEARTBEAT_NO_NUMBER);
    int rc = team_start_bound(spec->tower.device, spec->cpus, spec->cpu_count,
                              spec->tower.backend->has_teams ? spec->tower.backend_spec.threads : 0);
    if (rc == 0)
        rc = complete_stage(trainer, STAGE_STARTED, STAGE_PLANNING);
    if (rc == 0)
        rc = report_failure(trainer, "plan", tower_open(&trainer->tower, &trainer->spec.tower));
    if (rc == 0)
        rc = complete_stage(trainer, STAGE_PLANNED, STAGE_ALLOCATING);
    heartbeat_at("allocating memory and joining the other towers", HEARTBEAT_NO_NUMBER);
    return rc == 0 ? report_failure(trainer, "set up", allocate(trainer)) : rc;
}

static void trainer_loop(void *arg)
{
    struct trainer *const trainer = arg;
    heartbeat_adopt(trainer->spec.heartbeat);
    const int rc = set_up(trainer);
    set_stage(trainer, rc == 0 ? STAGE_READY : STAGE_FAILED, rc);
    if (rc == 0 && wait_for_stage(trainer, STAGE_RUNNING) == 0)
        run_steps(trainer);
    heartbeat_at("closing", HEARTBEAT_NO_NUMBER);
    sync_leave(&trainer->sync);
    trainer->spec.tower.compute->device->ops->stream_drain(trainer->spec.tower.compute);
    set_stage(trainer, STAGE_DONE, rc);
    wait_for_stage(trainer, STAGE_CLOSING);
    step_clock_close(trainer->clock);
    close_inflight(trainer);
    close_outputs(trainer);
    snapshot_pool_close(&trainer->snapshots);
    snapshot_pool_close(&trainer->shown);
    snapshot_pool_close(&trainer->evaluated);
    tower_close(trainer->tower);
    heartbeat_adopt(NULL);
}

/* ---- for main ---- */

static int open_reports(struct trainer *trainer, uint32_t depth, uint32_t ids)
{
    trainer->reports = calloc(depth, sizeof(*trainer->reports));
    trainer->ids = calloc((size_t)depth * ids, sizeof(*trainer->ids));
    if (trainer->reports == NULL || trainer->ids == NULL)
        return -ENOMEM;
    int rc = queue_open(&trainer->full_reports, depth);
    if (rc == 0)
        rc = queue_open(&trainer->empty_reports, depth);
    for (uint32_t i = 0; i < depth && rc == 0; i++) {
        trainer->reports[i].ids = trainer->ids + (size_t)i * ids;
        rc = queue_put(trainer->empty_reports, &trainer->reports[i]);
    }
    return rc;
}

static void release(struct trainer *trainer)
{
    queue_close(trainer->full_reports);
    queue_close(trainer->empty_reports);
    free(trainer->reports);
    free(trainer->ids);
    snapshot_pool_release(&trainer->snapshots);
    snapshot_pool_release(&trainer->shown);
    snapshot_pool_release(&trainer->evaluated);
    pthread_cond_destroy(&trainer->changed);
    pthread_mutex_destroy(&trainer->lock);
    free(trainer);
}

int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec)
{
    struct trainer *const trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL)
        return -ENOMEM;
    *trainer = (struct trainer){ .spec = *spec, .next = spec->sync.schedule->first };
    pthread_mutex_init(&trainer->lock, NULL);
    pthread_cond_init(&trainer->changed, NULL);
    const struct snapshot_rule none = { .count = 0 };
    const bool is_needed = spec->tower.index == 0 || spec->tower.parts.all > 0;
    int rc = open_reports(trainer, spec->report_depth, spec->local_max);
    if (rc == 0)
        rc = snapshot_pool_init(&trainer->snapshots, is_needed || !spec->shares_snapshots ? &spec->snapshots : &none);
    if (rc == 0)
        rc = snapshot_pool_init(&trainer->shown, is_needed ? &spec->shown : &none);
    if (rc == 0)
        rc = snapshot_pool_init(&trainer->evaluated, is_needed ? &spec->evaluated : &none);
    if (rc == 0)
        rc = thread_start(&trainer->thread, spec->name, trainer_loop, trainer);
    if (rc != 0) {
        release(trainer);
        return rc;
    }
    rc = wait_for_stage(trainer, STAGE_STARTED);
    if (rc != 0)
        trainer_join(trainer);
    else
        *trainer_out = trainer;
    return rc;
}

void trainer_plan(struct trainer *trainer)
{
    advance_stage(trainer, STAGE_STARTED, STAGE_PLANNING);
}

int trainer_planned(struct trainer *trainer, struct trainer_needs *needs_out)
{
    const int rc = wait_for_stage(trainer, STAGE_PLANNED);
    if (rc != 0)
        return rc;
    const struct sync_spec sync = complete_sync(trainer);
    *needs_out = (struct trainer_needs){
        .tower = tower_needs(trainer->tower),
        .snapshots = trainer->snapshots.rule.count * snapshot_bytes(trainer->tower, trainer->spec.snapshots.kind) +
                     trainer->shown.rule.count * snapshot_bytes(trainer->tower, SNAPSHOT_SHOWN) +
                     trainer->evaluated.rule.count * snapshot_bytes(trainer->tower, SNAPSHOT_EVALUATED),
        .reduction = sync_pinned_bytes(&sync),
        .exchange = sync_device_bytes(&sync),
        .outputs = trainer->spec.report_depth * output_bytes(&trainer->spec),
        .samples = samples_of(&trainer->spec.tower),
    };
    return 0;
}

void trainer_buckets(const struct trainer *trainer, struct buckets *buckets_out)
{
    const struct sync_spec sync = complete_sync(trainer);
    sync_find_buckets(&sync, buckets_out);
}

void trainer_allocate(struct trainer *trainer, struct slots *slots)
{
    trainer->slots = slots;
    advance_stage(trainer, STAGE_PLANNED, STAGE_ALLOCATING);
}

int trainer_ready(struct trainer *trainer)
{
    return wait_for_stage(trainer, STAGE_READY);
}

void trainer_go(struct trainer *trainer)
{
    advance_stage(trainer, STAGE_READY, STAGE_RUNNING);
}

int trainer_report(struct trainer *trainer, struct step_report **report_out)
{
    void *item;
    const int rc = queue_get(trainer->full_reports, &item);
    if (rc != 0)
        return rc;
    *report_out = item;
    if ((*report_out)->snapshot != NULL)
        snapshot_pool_lend(&trainer->snapshots);
    if ((*report_out)->shown != NULL)
        snapshot_pool_lend(&trainer->shown);
    if ((*report_out)->evaluated != NULL)
        snapshot_pool_lend(&trainer->evaluated);
    return 0;
}

void trainer_give_back(struct trainer *trainer, struct step_report *report)
{
    if (report->snapshot != NULL)
        trainer_return(trainer, report->snapshot);
    if (report->shown != NULL)
        trainer_return(trainer, report->shown);
    if (report->evaluated != NULL)
        trainer_return(trainer, report->evaluated);
    queue_put(trainer->empty_reports, report);
}

struct snapshot *trainer_last(struct trainer *trainer)
{
    return snapshot_pool_last(&trainer->snapshots);
}

void trainer_return(struct trainer *trainer, struct snapshot *snapshot)
{
    const enum snapshot_kind kind = snapshot_kind(snapshot);
    struct snapshot_pool *const pool = kind == SNAPSHOT_SHOWN       ? &trainer->shown
                                     : kind == SNAPSHOT_EVALUATED ? &trainer->evaluated
                                                                  : &trainer->snapshots;
    snapshot_pool_give_back(pool, snapshot);
}

struct tower *trainer_tower(struct trainer *trainer)
{
    return trainer->tower;
}

void trainer_settle(struct trainer *trainer)
{
    if (trainer != NULL)
        wait_for_stage(trainer, STAGE_DONE);
}

void trainer_join(struct trainer *trainer)
{
    if (trainer == NULL)
        return;
    trainer_settle(trainer);
    set_stage(trainer, STAGE_CLOSING, 0);
    thread_join(trainer->thread);
    release(trainer);
}

void trainer_cancel(void *arg)
{
    struct trainer *const trainer = arg;
    queue_cancel(trainer->full_reports);
    queue_cancel(trainer->empty_reports);
    snapshot_pool_cancel(&trainer->snapshots);
    snapshot_pool_cancel(&trainer->shown);
    snapshot_pool_cancel(&trainer->evaluated);
    gate_cancel(trainer->spec.gate);
    pthread_mutex_lock(&trainer->lock);
    trainer->is_cancelled = true;
    pthread_cond_broadcast(&trainer->changed);
    pthread_mutex_unlock(&trainer->lock);
}
