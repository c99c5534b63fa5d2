/* Opening and closing the pipeline. */
#include "tools/lib/run/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "stage/clock.h"
#include "stage/trace/range.h"
#include "stage/watchdog.h"
#include "tools/lib/run/memory_needs.h"
#include "tools/lib/run/ranks/remote_towers.h"
#include "tools/lib/run/report.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_trace.h"
#include "tools/lib/run/tower_pipeline.h"

#define REPORT_DEPTH 8u         /* the most global batches by which a tower may be ahead of main */
/* the same if reports contain outputs: the tower computes one batch while main reads another */
#define OUTPUT_DEPTH 2u

struct pipeline {
    struct pipeline_parts parts;
    uint32_t tower_count;               /* towers of this process */
    struct watchdog *watchdog;          /* NULL: none */
    bool has_gone, closes;
    struct tower_pipeline *towers;
    struct ring **rings;
    struct reduce *reduce;
    struct gate *gate;
    struct remote_towers *remote;       /* NULL: all towers are here */
    struct loader *loader;
    struct run_trace *trace;            /* NULL: none */
    /* [tower of the run], of the current batch; begins with those of this process */
    struct step_report **reports;
    uint64_t waited_ns;                 /* time that main has waited for reports */
};

/* The heartbeats of each tower. */
enum { BEAT_TRAINER, BEAT_FEEDER, BEAT_MAIN, BEAT_COUNT };

/* A heartbeat of tower d of this process; NULL: it is not watched. On a CPU only the trainer's computing is watched,
 * because every wait there is for another thread. */
static struct heartbeat *heartbeat_of(const struct pipeline *pipeline, uint32_t d, int of)
{
    const bool is_cpu = pipeline->parts.plan->devices.ops->host_memory;
    if (pipeline->watchdog == NULL || (is_cpu && of != BEAT_TRAINER))
        return NULL;
    return watchdog_heartbeat(pipeline->watchdog, d * BEAT_COUNT + (uint32_t)of);
}

/* Main acts on the device for tower d from now on. */
static void act_for(const struct pipeline *pipeline, uint32_t d)
{
    heartbeat_adopt(heartbeat_of(pipeline, d, BEAT_MAIN));
    heartbeat_at(pipeline->closes ? "closing" : "setting up", HEARTBEAT_NO_NUMBER);
}

#define LONGER 20u      /* a layer is stuck when it takes so many times as long as any layer before */

/* Name the heartbeats. A feeder waits for its tower's steps, and these may wait for the input of another tower, so only
 * the feeder's device calls are watched, not its waits. The trainer knows when it waits for another tower
 * (reduce.h). */
static void name_heartbeats(const struct pipeline *pipeline, uint32_t d)
{
    const struct run_devices *const devices = &pipeline->parts.plan->devices;
    const uint32_t tower = devices->towers.first + d, index = run_devices_index(devices, d);
    static const char *const of[BEAT_COUNT] = { [BEAT_TRAINER] = "", [BEAT_FEEDER] = ", its feeder",
                                                [BEAT_MAIN] = ", the main thread" };
    for (uint32_t i = 0; i < BEAT_COUNT; i++)
        watchdog_name(pipeline->watchdog, d * BEAT_COUNT + i, "tower %u (%s%u)%s", tower, devices->ops->kind, index,
                      of[i]);
    heartbeat_of(pipeline, d, BEAT_FEEDER)->ignores_waits = true;
}

static void name_heartbeat_of_cpu(const struct pipeline *pipeline, uint32_t d)
{
    struct heartbeat *const heartbeat = heartbeat_of(pipeline, d, BEAT_TRAINER);
    watchdog_name(pipeline->watchdog, d * BEAT_COUNT, "tower %u (%s)",
                  pipeline->parts.plan->devices.towers.first + d, pipeline->parts.plan->devices.ops->kind);
    heartbeat->ignores_waits = true;
    heartbeat->factor = LONGER;
}

static int open_watchdog(struct pipeline *pipeline)
{
    const bool is_cpu = pipeline->parts.plan->devices.ops->host_memory;
    const uint32_t deadline_ms = (uint32_t)pipeline->parts.settings->sync.deadline * 1000;
    const int rc = watchdog_open(&pipeline->watchdog, pipeline->parts.stop, deadline_ms,
                                 pipeline->tower_count * BEAT_COUNT);
    if (rc == 0 && pipeline->parts.poll != NULL)
        watchdog_set_poll(pipeline->watchdog, pipeline->parts.poll, pipeline->parts.poll_arg);
    for (uint32_t d = 0; d < pipeline->tower_count && rc == 0; d++)
        is_cpu ? name_heartbeat_of_cpu(pipeline, d) : name_heartbeats(pipeline, d);
    return rc;
}

/* Everything that can block is registered with `stop`, which cancels it when the run fails. */
static int open_tower(struct pipeline *pipeline, uint32_t d)
{
    struct tower_pipeline *const tower = &pipeline->towers[d];
    act_for(pipeline, d);
    const int rc = tower_pipeline_open(tower, &pipeline->parts.plan->devices, d);
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, device_cancel, tower->device) : rc;
}

static int open_ring(struct pipeline *pipeline, uint32_t d)
{
    struct tower_pipeline *const tower = &pipeline->towers[d];
    if (pipeline->parts.settings->input.source == INPUT_SYNTHETIC)
        return 0;
    const uint32_t depth = (uint32_t)pipeline->parts.settings->input.prefetch_depth;
    act_for(pipeline, d);
    const int rc = tower_pipeline_open_ring(tower, depth, &pipeline->parts.plan->layout);
    pipeline->rings[d] = tower->ring;
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, ring_cancel, tower->ring) : rc;
}

static int open_slots(struct pipeline *pipeline, uint32_t d)
{
    struct tower_pipeline *const tower = &pipeline->towers[d];
    const uint32_t depth = (uint32_t)pipeline->parts.settings->input.staging_depth;
    act_for(pipeline, d);
    const int rc = slots_open(&tower->slots, tower->device, depth, &pipeline->parts.plan->layout);
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, slots_cancel, tower->slots) : rc;
}

static int open_reduction(struct pipeline *pipeline)
{
    const struct reduce_ops *const ops = pipeline->parts.plan->devices.reduce;
    const struct reduce_spec spec = {
        .towers = pipeline->parts.plan->schedule.towers,
        .here = pipeline->parts.plan->devices.towers,
        .in_pairs = pipeline->parts.plan->schedule.slices > 0,
        .ranks = pipeline->parts.ranks,
        .group = pipeline->parts.plan->devices.group,
        .trace = run_trace_recorder(pipeline->trace),
    };
    const int rc = ops->open(&pipeline->reduce, &spec);
    return rc != 0 ? rc : stop_on_failure(pipeline->parts.stop, reduce_cancel, pipeline->reduce);
}

static int open_far(struct pipeline *pipeline)
{
    const struct pipeline_parts *const parts = &pipeline->parts;
    const bool is_async = parts->plan->devices.mode->serves == SERVES_EACH;
    const struct remote_towers_spec spec = { .ranks = parts->ranks, .schedule = &parts->plan->schedule,
                                             .net = parts->net, .gate = pipeline->gate,
                                             .waits_for_main = parts->waits_for_main,
                                             .max_staleness = is_async ? (uint32_t)parts->settings->sync.max_staleness : 0,
                                             .report_every = (uint32_t)parts->settings->sync.report_every,
                                             .interval_steps = report_interval_steps(parts->settings,
                                                                                     &parts->plan->schedule),
                                             .snapshots = parts->snapshots, .shown = parts->shown,
                                             .evaluated = parts->evaluated };
    return parts->ranks == NULL ? 0 : remote_towers_open(&pipeline->remote, &spec);
}

static enum trainer_waits waits_of(const struct pipeline *pipeline)
{
    if (pipeline->remote != NULL)
        return WAITS_BEFORE_BATCH;
    return pipeline->parts.waits_for_main ? WAITS_AFTER_EVALUATION : WAITS_NEVER;
}

static uint32_t report_depth(const struct pipeline *pipeline)
{
    const struct sync_settings *const sync = &pipeline->parts.settings->sync;
    if (pipeline->parts.reports_outputs)
        return OUTPUT_DEPTH;
    const uint32_t depth = REPORT_DEPTH + (uint32_t)sync->max_staleness;
    return pipeline->remote != NULL ? depth + remote_towers_group_ahead((uint32_t)sync->report_every) : depth;
}

static int start_trainer(struct pipeline *pipeline, uint32_t d)
{
    const struct settings *const settings = pipeline->parts.settings;
    const struct run_plan *const plan = pipeline->parts.plan;
    struct tower_pipeline *const tower = &pipeline->towers[d];
    const bool is_bound = settings->devices.bind && plan->devices.ops->host_memory;
    int rc = is_bound ? tower_pipeline_choose_cpus(tower, settings, plan->threads_per_tower, d) : 0;
    if (rc != 0)
        return rc;
    struct tower_spec tower_spec = run_plan_tower(plan, settings, tower->index);
    tower_spec.net = pipeline->parts.net;
    tower_spec.device = tower->device;
    tower_spec.compute = tower->compute;
    const struct trainer_spec spec = {
        .name = tower->trainer_name,
        .tower = tower_spec,
        .sync = { .ops = plan->devices.mode,
                 .schedule = &plan->schedule,
                 .reduce = pipeline->reduce,
                 .communication = tower->communication,
                 .results = tower->results,
                 .track = run_trace_track(pipeline->trace, TRACE_REDUCTION, tower->index),
                 .learning_rate = &plan->learning_rate,
                 .bucket_bytes = plan->bucket_bytes,
                 .every = (uint64_t)settings->sync.every,
                 .keeps_buffers = settings->sync.average == AVERAGED_PARAMETERS,
                 .max_staleness = (uint32_t)settings->sync.max_staleness,
                 .divides_rate = settings->sync.staleness_rate == STALENESS_RATE_INVERSE },
        .gate = pipeline->gate,
        .stop = pipeline->parts.stop,
        .snapshots = pipeline->parts.snapshots,
        .shares_snapshots = plan->schedule.slices > 0,
        .inspect_every = report_interval_steps(settings, &plan->schedule),
        .shown = pipeline->parts.shown, .evaluated = pipeline->parts.evaluated, .waits = waits_of(pipeline),
        .report_depth = report_depth(pipeline),
        .local_max = plan->layout.capacity,
        .reports_outputs = pipeline->parts.reports_outputs,
        .cpus = tower->cpus,
        .cpu_count = plan->threads_per_tower,
        .track = run_trace_track(pipeline->trace, TRACE_TOWER, tower->index),
        .heartbeat = heartbeat_of(pipeline, d, BEAT_TRAINER),
    };
    rc = trainer_start(&tower->trainer, &spec);
    return rc != 0 ? rc : stop_on_failure(pipeline->parts.stop, trainer_cancel, tower->trainer);
}

static int start_feeder(struct pipeline *pipeline, uint32_t d)
{
    const struct run_plan *const plan = pipeline->parts.plan;
    struct tower_pipeline *const tower = &pipeline->towers[d];
    const struct feeder_spec spec = {
        .name = tower->feeder_name,
        .device = tower->device,
        .ring = tower->ring,
        .slots = tower->slots,
        .stop = pipeline->parts.stop,
        .schedule = &plan->schedule,
        .tower = tower->index,
        .classes = pipeline->parts.net->classes,
        .seed = (uint64_t)pipeline->parts.settings->run.seed,
        .layout = &plan->layout,
        .track = run_trace_track(pipeline->trace, TRACE_FEEDER, tower->index),
        .copy_track = run_trace_track(pipeline->trace, TRACE_COPIES, tower->index),
        .heartbeat = heartbeat_of(pipeline, d, BEAT_FEEDER),
    };
    act_for(pipeline, d);
    return feeder_start(&tower->feeder, &spec);
}

static int start_loader(struct pipeline *pipeline)
{
    const struct pipeline_parts *const parts = &pipeline->parts;
    if (parts->plan->is_fed)
        return parts->input.start(parts->input.arg, pipeline->rings[0]);
    if (!run_plan_loads(parts->plan, parts->settings))
        return 0;
    struct loader_spec spec = run_plan_loader(parts->plan, parts->settings, parts->datasets);
    spec.rings = pipeline->rings;
    spec.damage_sink = parts->damage_sink;
    if (pipeline->remote != NULL)
        spec.relay = remote_towers_relay(pipeline->remote);
    spec.stop = parts->stop;
    spec.trace = run_trace_recorder(pipeline->trace);
    return loader_start(&pipeline->loader, &spec);
}

/* Wait for the plans of all towers, so that none is planning when the devices' free memory is read. */
static int wait_for_plans(struct pipeline *pipeline)
{
    struct run_plan *const plan = pipeline->parts.plan;
    int rc = 0;
    for (uint32_t d = 0; d < pipeline->tower_count; d++) {
        struct tower_pipeline *const tower = &pipeline->towers[d];
        const int planned = trainer_planned(tower->trainer, &tower->needs);
        if (planned == 0)
            memory_needs_add_tower(&plan->memory, d % plan->devices.count, &tower->needs);
        if (rc == 0)
            rc = planned;
    }
    return rc;
}

static int wait_for_towers(struct pipeline *pipeline)
{
    int rc = 0;
    for (uint32_t d = 0; d < pipeline->tower_count; d++) {
        const int ready = trainer_ready(pipeline->towers[d].trainer);
        if (rc == 0)
            rc = ready;
    }
    return rc;
}

static int allocate_towers(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->tower_count;
    pipeline->towers = calloc(towers, sizeof(*pipeline->towers));
    pipeline->rings = calloc(towers, sizeof(*pipeline->rings));
    pipeline->reports = calloc(pipeline->parts.plan->schedule.towers, sizeof(*pipeline->reports));
    return pipeline->towers != NULL && pipeline->rings != NULL && pipeline->reports != NULL ? 0 : -ENOMEM;
}

/* The first half of opening: devices, streams, trainers that plan. Afterwards all memory needs are known. */
static int plan(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->tower_count;
    int rc = allocate_towers(pipeline);
    if (rc == 0)
        rc = open_watchdog(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_tower(pipeline, d);
    if (rc == 0)
        rc = open_reduction(pipeline);
    if (rc == 0)
        rc = gate_open(&pipeline->gate);
    if (rc == 0)
        rc = open_far(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = start_trainer(pipeline, d);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        trainer_plan(pipeline->towers[d].trainer);
    return rc == 0 ? wait_for_plans(pipeline) : rc;
}

/* The second half of opening: rings, slots, loader, memory of the towers, feeders. Feeders start to copy to the devices
 * only when the towers are ready, because towers warm up collectives. */
static int build(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->tower_count;
    int rc = 0;
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_ring(pipeline, d);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_slots(pipeline, d);
    if (rc == 0)
        rc = start_loader(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        trainer_allocate(pipeline->towers[d].trainer, pipeline->towers[d].slots);
    if (rc == 0)
        rc = wait_for_towers(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = start_feeder(pipeline, d);
    if (rc == 0)
        run_trace_begin(pipeline->trace);
    return rc;
}

/* Fail the run; a thread that failed earlier has already reported the cause, which is kept. A tower whose wait for
 * those of another rank was cancelled is no failure of this rank: the other one reports the cause in the next
 * startup_check. */
static int report_failure(const struct pipeline_parts *parts, int rc)
{
    const bool is_of_other = rc == -ECANCELED && parts->ranks != NULL;
    if (rc != 0 && !is_of_other)
        stop_fail(parts->stop, exit_code_of(rc, EXIT_CODE_DEVICE), "cannot build the pipeline: %s",
                  exit_cause(rc));
    return rc;
}

int pipeline_open(struct pipeline **pipeline_out, const struct pipeline_parts *parts)
{
    struct pipeline *const pipeline = calloc(1, sizeof(*pipeline));
    if (pipeline == NULL)
        return report_failure(parts, -ENOMEM);
    pipeline->parts = *parts;
    pipeline->tower_count = parts->plan->devices.towers.count;
    pipeline->trace = run_trace_open(parts->settings, parts->plan);
    const int rc = report_failure(parts, plan(pipeline));
    if (rc != 0) {
        pipeline_close(pipeline, NULL);
        return rc;
    }
    *pipeline_out = pipeline;
    return 0;
}

/* Free memory of the host and of the devices in plan->memory. 0 or a negative errno. */
static int find_memory(const struct pipeline *pipeline, struct memory_there *there_out)
{
    const uint32_t devices = pipeline->parts.plan->memory.device_count;
    memory_host_there(&pipeline->parts.plan->memory, pipeline->parts.settings, there_out);
    size_t total;
    int rc = 0;
    for (uint32_t d = 0; d < devices && rc == 0; d++) {
        struct device *const device = pipeline->towers[d].device;
        act_for(pipeline, d);
        rc = device->ops->memory(device, &there_out->devices[d], &total);
        there_out->devices[d] /= rc == 0 ? pipeline->parts.plan->devices.sharing : 1;
    }
    return rc;
}

int pipeline_check_memory(const struct pipeline *pipeline)
{
    const struct pipeline_parts *const parts = &pipeline->parts;
    const struct memory_fit fit = { parts->settings, parts->plan, parts->net,
                                    parts->datasets, pipeline_needs(pipeline, 0) };
    struct memory_there there;
    struct problems problems;
    if (find_memory(pipeline, &there) != 0)
        return EXIT_CODE_DEVICE;
    problems_init(&problems);
    memory_needs_fit_images(&parts->plan->memory, parts->settings, &there);
    const int rc = memory_needs_check(&parts->plan->memory, parts->settings, &there, &fit, &problems);
    return problems_end(&problems, rc != 0 ? EXIT_CODE_MEMORY : 0);
}

void pipeline_print(const struct pipeline *pipeline, FILE *out)
{
    struct buckets buckets;
    trainer_buckets(pipeline->towers[0].trainer, &buckets);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        memory_needs_print_tower(&pipeline->towers[d].needs, pipeline->towers[d].index, out);
    if (pipeline->parts.plan->schedule.towers > 1)
        run_plan_print_buckets(&buckets, out);
}

const struct trainer_needs *pipeline_needs(const struct pipeline *pipeline, uint32_t tower)
{
    return &pipeline->towers[tower].needs;
}

int pipeline_allocate(struct pipeline *pipeline)
{
    const int rc = build(pipeline);
    /* Main stores weights and states in the towers' layouts next. With a team oneDNN would start threads for that, in
     * addition to those of the towers. */
    team_size(1);
    return report_failure(&pipeline->parts, rc);
}

void pipeline_go(struct pipeline *pipeline)
{
    pipeline->has_gone = true;
    if (pipeline->remote != NULL)
        remote_towers_go(pipeline->remote);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        trainer_go(pipeline->towers[d].trainer);
}

/* Send the reports of this process' towers to rank 0; in rank 0 receive those of the other ranks. */
static int exchange_reports(struct pipeline *pipeline)
{
    if (pipeline->remote == NULL)
        return 0;
    if (ranks_rank(pipeline->parts.ranks) > 0)
        return remote_towers_send(pipeline->remote, pipeline->reports);
    remote_towers_add_problems(pipeline->remote, pipeline->loader);
    return remote_towers_receive(pipeline->remote, pipeline->reports[0]->local.number, pipeline->reports);
}

/* At the end of the run every tower returns -ENODATA. */
int pipeline_step(struct pipeline *pipeline, struct step_report ***reports_out)
{
    const uint64_t begun_ns = clock_now_ns();
    int rc = 0;
    range_begin(TRACE_WAIT_TOWERS, RANGE_NO_BATCH);
    for (uint32_t d = 0; d < pipeline->tower_count; d++) {
        pipeline->reports[d] = NULL;
        const int reported = trainer_report(pipeline->towers[d].trainer, &pipeline->reports[d]);
        if (rc == 0)
            rc = reported;
    }
    if (rc == 0)
        rc = exchange_reports(pipeline);
    else if (pipeline->remote != NULL)
        remote_towers_flush(pipeline->remote);
    range_end();
    pipeline->waited_ns += clock_now_ns() - begun_ns;
    if (rc == 0)
        run_trace_follow(pipeline->trace, pipeline->reports, pipeline->tower_count, begun_ns);
    if (rc == 0)
        *reports_out = pipeline->reports;
    else
        pipeline_give_back(pipeline);
    return rc;
}

void pipeline_give_back(struct pipeline *pipeline)
{
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        if (pipeline->reports[d] != NULL)
            trainer_give_back(pipeline->towers[d].trainer, pipeline->reports[d]);
}

struct snapshot *pipeline_last(struct pipeline *pipeline, uint32_t tower)
{
    return trainer_last(pipeline->towers[tower].trainer);
}

void pipeline_return(struct pipeline *pipeline, uint32_t tower, struct snapshot *snapshot)
{
    trainer_return(pipeline->towers[tower].trainer, snapshot);
}

void pipeline_request_snapshot(struct pipeline *pipeline)
{
    if (pipeline->remote != NULL)
        remote_towers_mark(pipeline->remote);
    else
        gate_mark(pipeline->gate);
}

bool pipeline_is_requested(struct pipeline *pipeline, uint64_t number)
{
    return gate_is_marked(pipeline->gate, number);
}

void pipeline_allow(struct pipeline *pipeline, uint64_t number)
{
    if (pipeline->remote != NULL)
        remote_towers_allow(pipeline->remote, number);
    else
        gate_allow(pipeline->gate, number);
}

void pipeline_count_loader(const struct pipeline *pipeline, struct loader_counts *counts_out)
{
    *counts_out = (struct loader_counts){ 0 };
    if (pipeline != NULL && pipeline->loader != NULL)
        loader_count(pipeline->loader, counts_out);
}

void pipeline_request_stop(void *arg)
{
    struct pipeline *const pipeline = arg;
    if (pipeline->remote != NULL)
        remote_towers_request_stop(pipeline->remote);
    else
        gate_request(pipeline->gate);
    if (pipeline->parts.input.stop != NULL)
        pipeline->parts.input.stop(pipeline->parts.input.arg);
}

struct tower *pipeline_tower(struct pipeline *pipeline, uint32_t tower)
{
    act_for(pipeline, tower);
    return trainer_tower(pipeline->towers[tower].trainer);
}

static void join_feeders(struct pipeline *pipeline, struct feeder_counts *sum)
{
    *sum = (struct feeder_counts){ 0 };
    for (uint32_t d = 0; d < pipeline->tower_count; d++) {
        struct feeder_counts counts = { 0 };
        act_for(pipeline, d);
        feeder_join(pipeline->towers[d].feeder, &counts);
        sum->batches += counts.batches;
        sum->copy_ns += counts.copy_ns;
        sum->wait_batch_ns += counts.wait_batch_ns;
        sum->wait_slot_ns += counts.wait_slot_ns;
    }
}

/* Join the threads in the order of the data: loader, feeders, trainers. Cancels a loader or feeder that waits for free
 * space, and a tower that has not begun. */
static void join_threads(struct pipeline *pipeline, struct pipeline_counts *counts)
{
    if (pipeline->loader != NULL)
        loader_end(pipeline->loader);
    loader_join(pipeline->loader, &counts->loader);
    if (pipeline->has_gone && pipeline->remote != NULL)
        remote_towers_end_loader(pipeline->remote, pipeline->loader, &counts->loader);
    if (pipeline->loader != NULL)
        counts->damage = loader_take_damage(pipeline->loader);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        if (pipeline->towers[d].ring != NULL)
            ring_cancel(pipeline->towers[d].ring);
    if (pipeline->parts.plan->is_fed)
        pipeline->parts.input.join(pipeline->parts.input.arg);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        if (pipeline->towers[d].slots != NULL)
            slots_end(pipeline->towers[d].slots);
    join_feeders(pipeline, &counts->feeders);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        if (pipeline->towers[d].trainer != NULL)
            trainer_cancel(pipeline->towers[d].trainer);
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        trainer_settle(pipeline->towers[d].trainer);
    for (uint32_t d = 0; d < pipeline->tower_count; d++) {
        act_for(pipeline, d);
        tower_pipeline_close_stream(&pipeline->towers[d].communication);
        tower_pipeline_close_stream(&pipeline->towers[d].results);
    }
    for (uint32_t d = 0; d < pipeline->tower_count; d++)
        trainer_join(pipeline->towers[d].trainer);
}

void pipeline_close(struct pipeline *pipeline, struct pipeline_counts *counts_out)
{
    if (pipeline == NULL)
        return;
    struct pipeline_counts counts = { .main_waited_ns = pipeline->waited_ns };
    pipeline->closes = true;
    if (pipeline->towers != NULL) {
        join_threads(pipeline, &counts);
        remote_towers_close(pipeline->remote);
        stop_forget(pipeline->parts.stop);
        loader_close(pipeline->loader);
        if (pipeline->reduce != NULL)
            pipeline->reduce->ops->close(pipeline->reduce);
        for (uint32_t d = 0; d < pipeline->tower_count; d++) {
            act_for(pipeline, d);
            tower_pipeline_close(&pipeline->towers[d]);
        }
        for (uint32_t d = 0; d < pipeline->tower_count; d++) {
            act_for(pipeline, d);
            if (pipeline->towers[d].device != NULL)
                pipeline->towers[d].device->ops->close(pipeline->towers[d].device);
        }
        heartbeat_adopt(NULL);
        watchdog_close(pipeline->watchdog);
    }
    run_trace_close(pipeline->trace);
    gate_close(pipeline->gate);
    free(pipeline->towers);
    free(pipeline->rings);
    free(pipeline->reports);
    free(pipeline);
    if (counts_out != NULL)
        *counts_out = counts;
    else
        free(counts.damage);
}
