/* Building and taking down the pipeline. */
#include "tools/run/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/trace/range.h"
#include "stage/watchdog.h"
#include "tools/run/lane.h"
#include "tools/run/memory_fit.h"
#include "tools/run/observe/observers.h"
#include "tools/run/tower_plan.h"
#include "tools/run/trace/run_trace.h"

#define REPORT_DEPTH 8u         /* global batches a tower may be ahead of main */

struct pipeline {
    struct pipeline_parts parts;
    uint32_t towers;                    /* of this process */
    struct watchdog *watchdog;          /* NULL: none */
    bool closes;
    struct lane *lanes;
    struct ring **rings;
    struct reduce *reduce;
    struct gate *gate;
    struct loader *loader;
    struct run_trace *trace;            /* NULL: none */
    struct step_report **reports;       /* of the batch main looks at, by tower */
    uint64_t waited_ns;                 /* main for them */
};

/* Heartbeats: each tower has these. */
enum { BEAT_TRAINER, BEAT_FEEDER, BEAT_MAIN, BEAT_COUNT };

/* Of tower d of this process. NULL: there is none. */
static struct heartbeat *heartbeat_of(const struct pipeline *pipeline, uint32_t d, int of)
{
    if (pipeline->watchdog == NULL)
        return NULL;
    return watchdog_heartbeat(pipeline->watchdog, d * BEAT_COUNT + (uint32_t)of);
}

/* What main does on a device from here on, it does for tower d. */
static void act_for(const struct pipeline *pipeline, uint32_t d)
{
    heartbeat_adopt(heartbeat_of(pipeline, d, BEAT_MAIN));
    heartbeat_at(pipeline->closes ? "closing" : "setting up", HEARTBEAT_NO_NUMBER);
}

/* A feeder waits for its tower's steps, and these may wait for the input of another tower: its calls alone are
 * watched. The trainer knows when it waits for another tower (reduce.h). */
static void name_heartbeats(const struct pipeline *pipeline, uint32_t d)
{
    const struct device_plan *const devices = &pipeline->parts.plan->devices;
    const uint32_t tower = devices->towers.first + d, index = device_plan_index(devices, d);
    static const char *const of[BEAT_COUNT] = { [BEAT_TRAINER] = "", [BEAT_FEEDER] = ", its feeder",
                                                [BEAT_MAIN] = ", the main thread" };
    for (uint32_t i = 0; i < BEAT_COUNT; i++)
        watchdog_name(pipeline->watchdog, d * BEAT_COUNT + i, "tower %u (%s%u)%s", tower, devices->ops->kind, index,
                      of[i]);
    heartbeat_of(pipeline, d, BEAT_FEEDER)->ignores_waits = true;
}

/* Devices that the program itself computes on cannot hang. */
static int open_watchdog(struct pipeline *pipeline)
{
    if (pipeline->parts.plan->devices.ops->host_memory)
        return 0;
    const uint32_t deadline_ms = (uint32_t)pipeline->parts.settings->sync.deadline * 1000;
    const int rc = watchdog_open(&pipeline->watchdog, pipeline->parts.stop, deadline_ms, pipeline->towers * BEAT_COUNT);
    for (uint32_t d = 0; d < pipeline->towers && rc == 0; d++)
        name_heartbeats(pipeline, d);
    return rc;
}

static bool is_synthetic(const struct pipeline *pipeline)
{
    return pipeline->parts.settings->input.source == INPUT_SYNTHETIC;
}

/* Everything that can block ends when the run fails. */
static int open_lane(struct pipeline *pipeline, uint32_t d)
{
    struct lane *const lane = &pipeline->lanes[d];
    act_for(pipeline, d);
    const int rc = lane_open(lane, &pipeline->parts.plan->devices, d);
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, device_cancel, lane->device) : rc;
}

static int open_ring(struct pipeline *pipeline, uint32_t d)
{
    struct lane *const lane = &pipeline->lanes[d];
    if (is_synthetic(pipeline))
        return 0;
    const uint32_t depth = (uint32_t)pipeline->parts.settings->input.prefetch_depth;
    act_for(pipeline, d);
    const int rc = lane_open_ring(lane, depth, &pipeline->parts.plan->layout);
    pipeline->rings[d] = lane->ring;
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, ring_cancel, lane->ring) : rc;
}

static int open_slots(struct pipeline *pipeline, uint32_t d)
{
    struct lane *const lane = &pipeline->lanes[d];
    const uint32_t depth = (uint32_t)pipeline->parts.settings->input.staging_depth;
    act_for(pipeline, d);
    const int rc = slots_open(&lane->slots, lane->device, depth, &pipeline->parts.plan->layout);
    return rc == 0 ? stop_on_failure(pipeline->parts.stop, slots_cancel, lane->slots) : rc;
}

static int open_reduction(struct pipeline *pipeline)
{
    const struct reduce_ops *const ops = pipeline->parts.plan->devices.reduce;
    const struct reduce_spec spec = {
        .towers = pipeline->parts.plan->schedule.towers,
    };
    const int rc = ops->open(&pipeline->reduce, &spec);
    return rc != 0 ? rc : stop_on_failure(pipeline->parts.stop, reduce_cancel, pipeline->reduce);
}

static int start_trainer(struct pipeline *pipeline, uint32_t d)
{
    const struct settings *const settings = pipeline->parts.settings;
    const struct run_plan *const plan = pipeline->parts.plan;
    struct lane *const lane = &pipeline->lanes[d];
    const bool is_bound = settings->devices.bind && plan->devices.ops->host_memory;
    int rc = is_bound ? lane_choose_cpus(lane, plan->threads_per_tower, d) : 0;
    if (rc != 0)
        return rc;
    struct tower_spec tower = tower_plan(plan, settings, lane->tower);
    tower.net = pipeline->parts.net;
    tower.device = lane->device;
    tower.compute = lane->compute;
    const struct trainer_spec spec = {
        .name = lane->trainer_name,
        .tower = tower,
        .sync = { .ops = plan->devices.mode,
                 .schedule = &plan->schedule,
                 .reduce = pipeline->reduce,
                 .communication = lane->communication,
                 .track = run_trace_track(pipeline->trace, TRACE_REDUCTION, lane->tower),
                 .learning_rate = &plan->learning_rate,
                 .bucket_bytes = plan->bucket_bytes,
                 .every = (uint64_t)settings->sync.every,
                 .keeps_buffers = settings->sync.average == AVERAGED_PARAMETERS,
                 .max_staleness = (uint32_t)settings->sync.max_staleness,
                 .divides_rate = settings->sync.staleness_rate == STALENESS_RATE_INVERSE },
        .gate = pipeline->gate,
        .stop = pipeline->parts.stop,
        .snapshots = pipeline->parts.snapshots, .inspect_every = (uint64_t)settings->report.interval,
        .shown = observers_rule(settings, plan), .waits_for_main = pipeline->parts.waits_for_main,
        .report_depth = REPORT_DEPTH + (uint32_t)settings->sync.max_staleness,
        .slice_max = plan->layout.capacity,
        .cpus = lane->cpus,
        .cpu_count = plan->threads_per_tower,
        .track = run_trace_track(pipeline->trace, TRACE_TOWER, lane->tower),
        .heartbeat = heartbeat_of(pipeline, d, BEAT_TRAINER),
    };
    rc = trainer_start(&lane->trainer, &spec);
    return rc != 0 ? rc : stop_on_failure(pipeline->parts.stop, trainer_cancel, lane->trainer);
}

static int start_feeder(struct pipeline *pipeline, uint32_t d)
{
    const struct run_plan *const plan = pipeline->parts.plan;
    struct lane *const lane = &pipeline->lanes[d];
    const struct feeder_spec spec = {
        .name = lane->feeder_name,
        .device = lane->device,
        .ring = lane->ring,
        .slots = lane->slots,
        .stop = pipeline->parts.stop,
        .schedule = &plan->schedule,
        .tower = lane->tower,
        .classes = pipeline->parts.net->classes,
        .seed = (uint64_t)pipeline->parts.settings->run.seed,
        .layout = &plan->layout,
        .track = run_trace_track(pipeline->trace, TRACE_FEEDER, lane->tower),
        .copy_track = run_trace_track(pipeline->trace, TRACE_COPIES, lane->tower),
        .heartbeat = heartbeat_of(pipeline, d, BEAT_FEEDER),
    };
    act_for(pipeline, d);
    return feeder_start(&lane->feeder, &spec);
}

static int start_loader(struct pipeline *pipeline)
{
    if (is_synthetic(pipeline))
        return 0;
    const struct pipeline_parts *const parts = &pipeline->parts;
    struct loader_spec spec = run_plan_loader(parts->plan, parts->settings, parts->datasets);
    spec.rings = pipeline->rings;
    spec.damage_sink = parts->damage_sink;
    spec.stop = parts->stop;
    spec.trace = run_trace_recorder(pipeline->trace);
    return loader_start(&pipeline->loader, &spec);
}

/* All are waited for: none plans any more when the devices' memory is looked at. */
static int await_plans(struct pipeline *pipeline)
{
    struct run_plan *const plan = pipeline->parts.plan;
    int rc = 0;
    for (uint32_t d = 0; d < pipeline->towers; d++) {
        struct lane *const lane = &pipeline->lanes[d];
        const int planned = trainer_planned(lane->trainer, &lane->needs);
        if (planned == 0)
            memory_plan_add_tower(&plan->memory, d % plan->devices.count, &lane->needs);
        if (rc == 0)
            rc = planned;
    }
    return rc;
}

static int await_towers(struct pipeline *pipeline)
{
    int rc = 0;
    for (uint32_t d = 0; d < pipeline->towers; d++) {
        const int ready = trainer_ready(pipeline->lanes[d].trainer);
        if (rc == 0)
            rc = ready;
    }
    return rc;
}

static int make_room(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->towers;
    pipeline->lanes = calloc(towers, sizeof(*pipeline->lanes));
    pipeline->rings = calloc(towers, sizeof(*pipeline->rings));
    pipeline->reports = calloc(towers, sizeof(*pipeline->reports));
    return pipeline->lanes != NULL && pipeline->rings != NULL && pipeline->reports != NULL ? 0 : -ENOMEM;
}

/* The list, up to where all that the run needs is known. What blocks is registered with stop before
 * any thread that it could block. */
static int plan(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->towers;
    int rc = make_room(pipeline);
    if (rc == 0)
        rc = open_watchdog(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_lane(pipeline, d);
    if (rc == 0)
        rc = open_reduction(pipeline);
    if (rc == 0)
        rc = gate_open(&pipeline->gate);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = start_trainer(pipeline, d);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        trainer_plan(pipeline->lanes[d].trainer);
    return rc == 0 ? await_plans(pipeline) : rc;
}

/* The rest of it. Nothing is copied to a device before its towers are open: they warm up
 * collectives. */
static int build(struct pipeline *pipeline)
{
    const uint32_t towers = pipeline->towers;
    int rc = 0;
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_ring(pipeline, d);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = open_slots(pipeline, d);
    if (rc == 0)
        rc = start_loader(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        trainer_allocate(pipeline->lanes[d].trainer, pipeline->lanes[d].slots);
    if (rc == 0)
        rc = await_towers(pipeline);
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        rc = start_feeder(pipeline, d);
    if (rc == 0)
        run_trace_begin(pipeline->trace);
    return rc;
}

/* The cause is there already when it was a thread's. */
static int fail(const struct pipeline_parts *parts, int rc)
{
    if (rc != 0)
        stop_fail(parts->stop, exit_code_of(rc, EXIT_CODE_DEVICE), "the pipeline could not be built: %s",
                  exit_cause(rc));
    return rc;
}

int pipeline_open(struct pipeline **pipeline_out, const struct pipeline_parts *parts)
{
    struct pipeline *const pipeline = calloc(1, sizeof(*pipeline));
    if (pipeline == NULL)
        return fail(parts, -ENOMEM);
    pipeline->parts = *parts;
    pipeline->towers = parts->plan->devices.towers.count;
    pipeline->trace = run_trace_open(parts->settings, parts->plan);
    const int rc = fail(parts, plan(pipeline));
    if (rc != 0) {
        pipeline_close(pipeline, NULL);
        return rc;
    }
    *pipeline_out = pipeline;
    return 0;
}

/* What can be had now, by plan->memory's order of devices. 0 or a negative errno. */
static int find_memory(const struct pipeline *pipeline, struct memory_there *there_out)
{
    const uint32_t devices = pipeline->parts.plan->memory.device_count;
    memory_host_there(&pipeline->parts.plan->memory, there_out);
    size_t total;
    int rc = 0;
    for (uint32_t d = 0; d < devices && rc == 0; d++) {
        struct device *const device = pipeline->lanes[d].device;
        act_for(pipeline, d);
        rc = device->ops->memory(device, &there_out->devices[d], &total);
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
    memory_plan_fit_images(&parts->plan->memory, parts->settings, &there);
    const int rc = memory_plan_check(&parts->plan->memory, parts->settings, &there, &fit, &problems);
    problems_print(&problems);
    const int code = rc != 0 ? problems_code(&problems, EXIT_CODE_MEMORY) : 0;
    problems_release(&problems);
    return code;
}

void pipeline_print(const struct pipeline *pipeline, FILE *out)
{
    struct buckets buckets;
    trainer_buckets(pipeline->lanes[0].trainer, &buckets);
    for (uint32_t d = 0; d < pipeline->towers; d++)
        memory_plan_print_tower(&pipeline->lanes[d].needs, pipeline->lanes[d].tower, out);
    if (pipeline->parts.plan->schedule.towers > 1)
        run_plan_print_buckets(&buckets, out);
}

const struct trainer_needs *pipeline_needs(const struct pipeline *pipeline, uint32_t tower)
{
    return &pipeline->lanes[tower].needs;
}

int pipeline_allocate(struct pipeline *pipeline)
{
    return fail(&pipeline->parts, build(pipeline));
}

void pipeline_go(struct pipeline *pipeline)
{
    for (uint32_t d = 0; d < pipeline->towers; d++)
        trainer_go(pipeline->lanes[d].trainer);
}

/* At the end every tower says so: then all are through. */
int pipeline_step(struct pipeline *pipeline, struct step_report ***reports_out)
{
    const uint64_t begun_ns = clock_now_ns();
    int rc = 0;
    range_begin(TRACE_WAIT_TOWERS, RANGE_NO_BATCH);
    for (uint32_t d = 0; d < pipeline->towers; d++) {
        pipeline->reports[d] = NULL;
        const int reported = trainer_report(pipeline->lanes[d].trainer, &pipeline->reports[d]);
        if (rc == 0)
            rc = reported;
    }
    range_end();
    pipeline->waited_ns += clock_now_ns() - begun_ns;
    if (rc == 0)
        run_trace_follow(pipeline->trace, pipeline->reports, pipeline->towers, begun_ns);
    if (rc == 0)
        *reports_out = pipeline->reports;
    else
        pipeline_give_back(pipeline);
    return rc;
}

void pipeline_give_back(struct pipeline *pipeline)
{
    for (uint32_t d = 0; d < pipeline->towers; d++)
        if (pipeline->reports[d] != NULL)
            trainer_give_back(pipeline->lanes[d].trainer, pipeline->reports[d]);
}

struct snapshot *pipeline_last(struct pipeline *pipeline, uint32_t tower)
{
    return trainer_last(pipeline->lanes[tower].trainer);
}

void pipeline_return(struct pipeline *pipeline, uint32_t tower, struct snapshot *snapshot)
{
    trainer_return(pipeline->lanes[tower].trainer, snapshot);
}

void pipeline_request_snapshot(struct pipeline *pipeline)
{
    gate_mark(pipeline->gate);
}

bool pipeline_is_requested(struct pipeline *pipeline, uint64_t number)
{
    return gate_is_marked(pipeline->gate, number);
}

void pipeline_allow(struct pipeline *pipeline, uint64_t number)
{
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
    gate_request(pipeline->gate);
}

struct tower *pipeline_tower(struct pipeline *pipeline, uint32_t tower)
{
    act_for(pipeline, tower);
    return trainer_tower(pipeline->lanes[tower].trainer);
}

static void join_feeders(struct pipeline *pipeline, struct feeder_counts *sum)
{
    *sum = (struct feeder_counts){ 0 };
    for (uint32_t d = 0; d < pipeline->towers; d++) {
        struct feeder_counts counts = { 0 };
        act_for(pipeline, d);
        feeder_join(pipeline->lanes[d].feeder, &counts);
        sum->batches += counts.batches;
        sum->copy_ns += counts.copy_ns;
        sum->wait_batch_ns += counts.wait_batch_ns;
        sum->wait_slot_ns += counts.wait_slot_ns;
    }
}

/* Threads first, from the data's beginning to its end; a loader or feeder that waits for
 * room is let go, and so is a tower that never began. */
static void join_threads(struct pipeline *pipeline, struct pipeline_counts *counts)
{
    if (pipeline->loader != NULL)
        loader_end(pipeline->loader);
    loader_join(pipeline->loader, &counts->loader);
    if (pipeline->loader != NULL)
        counts->damage = loader_take_damage(pipeline->loader);
    for (uint32_t d = 0; d < pipeline->towers; d++)
        if (pipeline->lanes[d].ring != NULL)
            ring_cancel(pipeline->lanes[d].ring);
    for (uint32_t d = 0; d < pipeline->towers; d++)
        if (pipeline->lanes[d].slots != NULL)
            slots_end(pipeline->lanes[d].slots);
    join_feeders(pipeline, &counts->feeders);
    for (uint32_t d = 0; d < pipeline->towers; d++)
        if (pipeline->lanes[d].trainer != NULL)
            trainer_cancel(pipeline->lanes[d].trainer);
    for (uint32_t d = 0; d < pipeline->towers; d++)
        trainer_settle(pipeline->lanes[d].trainer);
    for (uint32_t d = 0; d < pipeline->towers; d++) {
        act_for(pipeline, d);
        lane_close_stream(&pipeline->lanes[d].communication);
    }
    for (uint32_t d = 0; d < pipeline->towers; d++)
        trainer_join(pipeline->lanes[d].trainer);
}

void pipeline_close(struct pipeline *pipeline, struct pipeline_counts *counts_out)
{
    if (pipeline == NULL)
        return;
    struct pipeline_counts counts = { .main_waited_ns = pipeline->waited_ns };
    pipeline->closes = true;
    if (pipeline->lanes != NULL) {
        join_threads(pipeline, &counts);
        stop_forget(pipeline->parts.stop);
        loader_close(pipeline->loader);
        if (pipeline->reduce != NULL)
            pipeline->reduce->ops->close(pipeline->reduce);
        for (uint32_t d = 0; d < pipeline->towers; d++) {
            act_for(pipeline, d);
            lane_close(&pipeline->lanes[d]);
        }
        for (uint32_t d = 0; d < pipeline->towers; d++) {
            act_for(pipeline, d);
            if (pipeline->lanes[d].device != NULL)
                pipeline->lanes[d].device->ops->close(pipeline->lanes[d].device);
        }
        heartbeat_adopt(NULL);
        watchdog_close(pipeline->watchdog);
    }
    run_trace_close(pipeline->trace);
    gate_close(pipeline->gate);
    free(pipeline->lanes);
    free(pipeline->rings);
    free(pipeline->reports);
    free(pipeline);
    if (counts_out != NULL)
        *counts_out = counts;
    else
        free(counts.damage);
}
