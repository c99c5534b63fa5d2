/* The trainer thread: one tower's life, from its plan to the last report. */
#include "sync/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "stage/clock.h"
#include "stage/thread.h"
#include "stage/trace/range.h"
#include "sync/inflight_steps.h"
#include "sync/phases.h"
#include "sync/report_pool.h"
#include "sync/step_parts.h"

#define STEP_MARKS 5u           /* that queue_step and part_slot make on the clock */
#define PIECE_MARKS 2u          /* that a piece more makes there */

struct trainer {
    struct trainer_spec spec;
    struct thread *thread;
    struct tower *tower;
    struct slots *slots;            /* lent, from trainer_allocate on */
    struct sync sync;
    struct step_clock *clock;
    struct inflight_steps inflight;
    struct snapshot_pool snapshots, shown;
    bool awaits;                    /* the last batch that was queued ends an evaluation: main decides on the next */
    uint64_t next;                  /* the batch of the run behind those that are queued */
    struct report_pool reports;
    struct phases phases;
};

static int open_flights(struct trainer *trainer)
{
    const uint32_t pieces = tower_pieces(trainer->tower, trainer->spec.slice_max);
    const uint32_t marks = STEP_MARKS + (pieces - 1) * PIECE_MARKS + sync_marks(&trainer->sync);
    const int rc = inflight_steps_open(&trainer->inflight, trainer->spec.tower.device, pieces);
    return rc == 0 ? step_clock_open(&trainer->clock, trainer->spec.tower.compute, marks, trainer->inflight.depth) : rc;
}

static struct sync_spec complete_sync(const struct trainer *trainer)
{
    struct sync_spec spec = trainer->spec.sync;
    spec.tower = trainer->tower;
    spec.index = trainer->spec.tower.index;
    spec.device = trainer->spec.tower.device;
    spec.compute = trainer->spec.tower.compute;
    return spec;
}

static int open_tower(struct trainer *trainer)
{
    int rc = tower_allocate(trainer->tower);
    if (rc != 0)
        return rc;
    const struct sync_spec sync = complete_sync(trainer);
    rc = sync_init(&trainer->sync, &sync);
    if (rc == 0)
        rc = open_flights(trainer);
    if (rc == 0)
        rc = snapshot_pool_open(&trainer->snapshots, trainer->tower);
    if (rc == 0)
        rc = snapshot_pool_open(&trainer->shown, trainer->tower);
    return rc == 0 ? sync_join(&trainer->sync, trainer->clock) : rc;
}

/* Steps count from 1, as people see them. */
static void note_step(const struct span *span)
{
    heartbeat_at(span->pass == PASS_TRAIN ? "step" : "evaluation after step",
                 span->pass == PASS_TRAIN ? span->step + 1 : span->step);
}

static int await_end(struct trainer *trainer)
{
    return sync_await_end(&trainer->sync, step_clock_oldest(trainer->clock), &trainer->phases);
}

static bool is_inspected(const struct trainer *trainer, const struct span *span)
{
    const uint64_t every = span->pass == PASS_TRAIN ? trainer->spec.inspect_every : 0;
    return every > 0 && ((span->step + 1) % every == 0 || span->last_of_pass);
}

/* Report the oldest step that is not yet reported. */
static int finish_step(struct trainer *trainer)
{
    const struct step_result *result;
    struct step_report *const report = inflight_steps_oldest(&trainer->inflight, &result);
    note_step(&report->span);
    int rc = await_end(trainer);
    if (rc == 0)
        rc = step_clock_read(trainer->clock, &report->times, &report->ended_ns);
    if (rc != 0)
        return rc;
    report->seen_ns = clock_now_ns();
    step_clock_record(trainer->clock, trainer->spec.track, &report->span, trainer->spec.tower.index);
    sync_record(&trainer->sync);
    step_result_report(result, trainer->tower, is_inspected(trainer, &report->span), report);
    trainer->inflight.finished++;
    return queue_put(trainer->reports.full, report);
}

static int finish_steps(struct trainer *trainer)
{
    int rc = 0;
    while (rc == 0 && trainer->inflight.finished < trainer->inflight.queued)
        rc = finish_step(trainer);
    return rc;
}

/* While none is idle, one may be in a step that is queued and not yet reported. */
static int queue_snapshot(struct trainer *trainer, struct snapshot_pool *pool, struct snapshot **snapshot_out)
{
    int rc = snapshot_pool_try_take(pool, snapshot_out);
    if (rc != -EAGAIN)
        return rc;
    rc = finish_steps(trainer);
    return rc == 0 ? snapshot_pool_take(pool, snapshot_out) : rc;
}

/* What tower 0 shows is as the step left it. It may wait for the one before, which main gives back when all towers have
 * reported that batch: so these do, too. */
static int queue_shown(struct trainer *trainer, struct step_report *report)
{
    if (report->span.pass != PASS_TRAIN || !snapshot_due(&trainer->spec.shown, &report->span))
        return 0;
    return trainer->shown.rule.count > 0 ? queue_snapshot(trainer, &trainer->shown, &report->shown)
                                         : finish_steps(trainer);
}

/* What is to be made behind a batch that is queued. */
static int queue_snapshots(struct trainer *trainer, struct step_report *report)
{
    const struct trainer_spec *const spec = &trainer->spec;
    report->snapshot = report->shown = NULL;
    report->sync = &trainer->sync;
    int rc = queue_shown(trainer, report);
    if (rc != 0 || !snapshot_wanted(&spec->snapshots, spec->gate, &report->span))
        return rc;
    rc = sync_before_snapshot(&trainer->sync, report->span.number);
    return rc == 0 ? queue_snapshot(trainer, &trainer->snapshots, &report->snapshot) : rc;
}

static int queue_forward(struct trainer *trainer, struct slot *slot, uint32_t piece, bool training)
{
    return part_forward(trainer->tower, trainer->clock, slot, piece, training);
}

/* One behind which others of the slice come. */
static int queue_piece(struct trainer *trainer, struct slot *slot, uint32_t piece, bool training)
{
    const int rc = queue_forward(trainer, slot, piece, training);
    return rc == 0 && training ? part_accumulate(trainer->tower, trainer->clock, slot->span.number) : rc;
}

/* With the last piece of a training batch the tower steps, by the gradients of all; the slot goes back as soon as
 * what reads it is queued. */
static int queue_pieces(struct trainer *trainer, struct slot *slot, const struct span *span,
                        struct backend_result *results)
{
    const uint32_t last = tower_pieces(trainer->tower, span->count) - 1;
    const bool training = span->pass == PASS_TRAIN;
    int rc = sync_before_forward(&trainer->sync, span);
    for (uint32_t i = 0; i < last && rc == 0; i++) {
        rc = queue_piece(trainer, slot, i, training);
        if (rc == 0)
            rc = tower_result(trainer->tower, &results[i]);
    }
    if (rc == 0)
        rc = queue_forward(trainer, slot, last, training);
    slots_give_back(trainer->slots, slot);
    if (rc == 0 && training)
        rc = sync_step(&trainer->sync, span);
    return rc == 0 ? tower_result(trainer->tower, &results[last]) : rc;
}

static int queue_step(struct trainer *trainer, struct slot *slot, struct step_report *report)
{
    report->span = slot->span;
    note_step(&slot->span);
    report->batches_found = slot->batches_found;
    report->slots_found = slot->slots_found;
    memcpy(report->ids, slot->ids, slot->span.count * sizeof(*slot->ids));
    struct step_result *const result = inflight_steps_begin(&trainer->inflight, report);
    range_begin(report->span.pass == PASS_TRAIN ? TRACE_STEP : TRACE_EVALUATION, report->span.number);
    int rc = queue_pieces(trainer, slot, &report->span, result->pieces);
    range_end();
    report->staleness = report->span.pass == PASS_TRAIN ? trainer->sync.staleness : 0;
    if (rc == 0 && is_inspected(trainer, &report->span))
        rc = health_queue(trainer->tower, &result->health);
    if (rc == 0)
        rc = queue_snapshots(trainer, report);
    if (rc == 0)
        rc = step_clock_end(trainer->clock, SPENT_OTHER);
    if (rc != 0)
        return rc;
    trainer->inflight.queued++;
    trainer->next = report->span.number + 1;
    trainer->awaits = trainer->spec.awaits_word && report->span.pass == PASS_EVALUATE && report->span.last_of_pass;
    return 0;
}

/* Main knows an evaluation's result when all of it is reported. */
static int await_word(struct trainer *trainer)
{
    const int rc = trainer->awaits ? finish_steps(trainer) : 0;
    return rc == 0 && trainer->awaits ? gate_await(trainer->spec.gate, trainer->next) : rc;
}

/* Queue a step, then report the one that is steps_ahead before it. */
static int step(struct trainer *trainer)
{
    struct slot *slot;
    void *report;
    int rc = await_word(trainer);
    if (rc == 0)
        rc = queue_get(trainer->reports.empty, &report);
    if (rc == 0)
        rc = part_slot(trainer->slots, trainer->spec.gate, trainer->spec.tower.compute, trainer->clock, &slot);
    if (rc == 0)
        rc = queue_step(trainer, slot, report);
    if (rc == 0 && inflight_steps_are_full(&trainer->inflight))
        rc = finish_step(trainer);
    return rc;
}

/* What the mode has to do behind the last batch, and its end. */
static int finish_run(struct trainer *trainer)
{
    int rc = sync_finish(&trainer->sync, trainer->next);
    if (rc == 0)
        rc = step_clock_end(trainer->clock, SPENT_OTHER);
    return rc == 0 ? await_end(trainer) : rc;
}

/* The snapshot behind the last batch, for which other towers may have sums left to do. */
static int take_last(struct trainer *trainer)
{
    struct snapshot *last = NULL;
    int rc = sync_before_snapshot(&trainer->sync, trainer->next);
    if (rc == 0)
        rc = snapshot_pool_take(&trainer->snapshots, &last);
    if (rc == 0)
        rc = sync_await_end(&trainer->sync, snapshot_end(last), &trainer->phases);
    if (rc == 0)
        snapshot_pool_keep_last(&trainer->snapshots, last);
    return rc;
}

static void run_steps(struct trainer *trainer)
{
    int rc = step_clock_start(trainer->clock);
    while (rc == 0)
        rc = step(trainer);
    if (rc == -ENODATA)
        rc = finish_steps(trainer);
    if (rc == 0 && snapshot_pool_has_last(&trainer->snapshots))
        rc = take_last(trainer);
    if (rc == 0)
        rc = finish_run(trainer);
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE), "%s: a step failed: %s", trainer->spec.name,
                  exit_cause(rc));
    slots_end(trainer->slots);
    queue_finish(trainer->reports.full);
}

static int fail(struct trainer *trainer, const char *what, int rc)
{
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(trainer->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE), "%s: steps of %u samples could not be %s: %s",
                  trainer->spec.name, trainer->spec.tower.train_counts[0], what, exit_cause(rc));
    return rc;
}

/* Its thirds, with main's word between them. */
static int set_up(struct trainer *trainer)
{
    const struct trainer_spec *const spec = &trainer->spec;
    heartbeat_at("planning", HEARTBEAT_NO_NUMBER);
    int rc = team_start_bound(spec->tower.device, spec->cpus, spec->cpu_count,
                              spec->tower.backend->has_teams ? spec->tower.backend_spec.threads : 0);
    if (rc == 0)
        rc = phases_meet(&trainer->phases, PHASE_STARTED, PHASE_PLANNING);
    if (rc == 0)
        rc = fail(trainer, "planned", tower_open(&trainer->tower, &trainer->spec.tower));
    if (rc == 0)
        rc = phases_meet(&trainer->phases, PHASE_PLANNED, PHASE_OPENING);
    heartbeat_at("allocating memory and joining the other towers", HEARTBEAT_NO_NUMBER);
    return rc == 0 ? fail(trainer, "set up", open_tower(trainer)) : rc;
}

static void trainer_loop(void *arg)
{
    struct trainer *const trainer = arg;
    heartbeat_adopt(trainer->spec.heartbeat);
    const int rc = set_up(trainer);
    phases_set(&trainer->phases, rc == 0 ? PHASE_OPEN : PHASE_FAILED, rc);
    if (rc == 0 && phases_await(&trainer->phases, PHASE_RUNNING) == 0)
        run_steps(trainer);
    heartbeat_at("closing", HEARTBEAT_NO_NUMBER);
    sync_leave(&trainer->sync);
    trainer->spec.tower.compute->device->ops->stream_drain(trainer->spec.tower.compute);
    phases_set(&trainer->phases, PHASE_DONE, rc);
    phases_await(&trainer->phases, PHASE_LEAVING);
    step_clock_close(trainer->clock);
    inflight_steps_close(&trainer->inflight);
    snapshot_pool_close(&trainer->snapshots);
    snapshot_pool_close(&trainer->shown);
    tower_close(trainer->tower);
    heartbeat_adopt(NULL);
}

static void release(struct trainer *trainer)
{
    report_pool_release(&trainer->reports);
    snapshot_pool_release(&trainer->snapshots);
    snapshot_pool_release(&trainer->shown);
    phases_release(&trainer->phases);
    free(trainer);
}

int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec)
{
    struct trainer *const trainer = calloc(1, sizeof(*trainer));
    if (trainer == NULL)
        return -ENOMEM;
    *trainer = (struct trainer){ .spec = *spec, .next = spec->sync.schedule->first };
    phases_init(&trainer->phases);
    const struct snapshot_rule none = { .count = 0 };
    int rc = report_pool_init(&trainer->reports, spec->report_depth, spec->slice_max);
    if (rc == 0)
        rc = snapshot_pool_init(&trainer->snapshots, &spec->snapshots);
    if (rc == 0)
        rc = snapshot_pool_init(&trainer->shown, spec->tower.index == 0 ? &spec->shown : &none);
    if (rc == 0)
        rc = thread_start(&trainer->thread, spec->name, trainer_loop, trainer);
    if (rc != 0) {
        release(trainer);
        return rc;
    }
    rc = phases_result(&trainer->phases, PHASE_STARTED);
    if (rc != 0)
        trainer_join(trainer);
    else
        *trainer_out = trainer;
    return rc;
}

void trainer_plan(struct trainer *trainer)
{
    phases_advance(&trainer->phases, PHASE_STARTED, PHASE_PLANNING);
}

int trainer_planned(struct trainer *trainer, struct trainer_needs *needs_out)
{
    const int rc = phases_result(&trainer->phases, PHASE_PLANNED);
    if (rc != 0)
        return rc;
    const struct sync_spec sync = complete_sync(trainer);
    *needs_out = (struct trainer_needs){
        .tower = tower_needs(trainer->tower),
        .snapshots = trainer->spec.snapshots.count * snapshot_bytes(trainer->tower, trainer->spec.snapshots.kind) +
                     trainer->shown.rule.count * snapshot_bytes(trainer->tower, SNAPSHOT_SHOWN),
        .reduction = sync_pinned_bytes(&sync),
        .samples = trainer->spec.tower.train_counts[0],
    };
    return 0;
}

void trainer_buckets(const struct trainer *trainer, struct buckets *buckets_out)
{
    const struct sync_spec sync = complete_sync(trainer);
    sync_cut(&sync, buckets_out);
}

void trainer_allocate(struct trainer *trainer, struct slots *slots)
{
    trainer->slots = slots;
    phases_advance(&trainer->phases, PHASE_PLANNED, PHASE_OPENING);
}

int trainer_ready(struct trainer *trainer)
{
    return phases_result(&trainer->phases, PHASE_OPEN);
}

void trainer_go(struct trainer *trainer)
{
    phases_advance(&trainer->phases, PHASE_OPEN, PHASE_RUNNING);
}

int trainer_report(struct trainer *trainer, struct step_report **report_out)
{
    void *item;
    const int rc = queue_get(trainer->reports.full, &item);
    if (rc != 0)
        return rc;
    *report_out = item;
    if ((*report_out)->snapshot != NULL)
        snapshot_pool_lend(&trainer->snapshots);
    if ((*report_out)->shown != NULL)
        snapshot_pool_lend(&trainer->shown);
    return 0;
}

void trainer_give_back(struct trainer *trainer, struct step_report *report)
{
    if (report->snapshot != NULL)
        trainer_return(trainer, report->snapshot);
    if (report->shown != NULL)
        snapshot_pool_give_back(&trainer->shown, report->shown);
    queue_put(trainer->reports.empty, report);
}

struct snapshot *trainer_last(struct trainer *trainer)
{
    return snapshot_pool_last(&trainer->snapshots);
}

void trainer_return(struct trainer *trainer, struct snapshot *snapshot)
{
    snapshot_pool_give_back(&trainer->snapshots, snapshot);
}

struct tower *trainer_tower(struct trainer *trainer)
{
    return trainer->tower;
}

void trainer_settle(struct trainer *trainer)
{
    if (trainer != NULL)
        phases_await(&trainer->phases, PHASE_DONE);
}

void trainer_join(struct trainer *trainer)
{
    if (trainer == NULL)
        return;
    trainer_settle(trainer);
    phases_set(&trainer->phases, PHASE_LEAVING, 0);
    thread_join(trainer->thread);
    release(trainer);
}

void trainer_cancel(void *arg)
{
    struct trainer *const trainer = arg;
    report_pool_cancel(&trainer->reports);
    snapshot_pool_cancel(&trainer->snapshots);
    snapshot_pool_cancel(&trainer->shown);
    gate_cancel(trainer->spec.gate);
    phases_cancel(&trainer->phases);
}
