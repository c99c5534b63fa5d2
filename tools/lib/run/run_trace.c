/* Chooses the steps to trace and the time to write the file, and records main's own track. */
#include "tools/lib/run/run_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/trace/range.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/run/trace_file.h"

#define TRACKS_PER_TOWER 4u     /* feeder, copies, tower, reduction */
#define ENTRIES_PER_STEP 64u    /* at most, on the busiest track */
#define ENTRIES_LEAST 8192u
#define ENTRIES_MOST 131072u

struct run_trace {
    const char *path;
    struct trace *trace;
    struct trace_file *file;
    struct trace_track *track;  /* main's own track */
    struct trace_batch batch;   /* the batch that main processes */
    uint64_t followed_ns;       /* when main began to process it; 0: there is none yet */
    uint64_t ended_ns;          /* when the previous training step ended on all towers; 0: the previous batch was no
                                 * training step */
    bool is_written;
};

/* Is a trace wanted? It contains the towers of rank 0 only. */
static bool is_wanted(const struct settings *settings, const struct run_plan *plan)
{
    return *settings->report.trace != '\0' && settings->rank == 0 && plan->only_evaluated == 0;
}

/* The batch of training step `step`, counted from 0; UINT64_MAX: the run has no such step. */
static uint64_t batch_of(const struct schedule *schedule, uint64_t step)
{
    const uint64_t per_epoch = schedule_steps_per_epoch(schedule);
    uint64_t number;
    if (step >= schedule_step_count(schedule) || per_epoch == 0)
        return UINT64_MAX;
    const struct position position = { .epoch = (uint32_t)(step / per_epoch), .step = step };
    return schedule_seek(schedule, position, &number) == 0 ? number : UINT64_MAX;
}

static uint32_t entries_of(const struct trace_steps *steps)
{
    const uint64_t count = steps->last - steps->first + 1;
    if (count >= ENTRIES_MOST / ENTRIES_PER_STEP)
        return ENTRIES_MOST;
    return count * ENTRIES_PER_STEP > ENTRIES_LEAST ? (uint32_t)count * ENTRIES_PER_STEP : ENTRIES_LEAST;
}

static struct trace_spec spec_of(const struct settings *settings, const struct run_plan *plan)
{
    const bool has_loader = settings->input.source != INPUT_SYNTHETIC;
    struct trace_spec spec = {
        .tracks = 1 + TRACKS_PER_TOWER * plan->devices.towers.count +
                  (has_loader ? plan->read_threads + plan->decode_threads : 0) +
                  (settings->ranks > 1 ? REDUCE_TRACKS_MAX : 0),
        .end = UINT64_MAX,
    };
    struct trace_steps steps;
    (void)trace_steps_read(settings->report.trace_steps, &steps);       /* checked with the settings */
    spec.entries = entries_of(&steps);
    spec.keeps_last = steps.last == 0;
    if (spec.keeps_last)
        return spec;
    const uint64_t last = batch_of(&plan->schedule, steps.last - 1);
    spec.first = batch_of(&plan->schedule, steps.first - 1);
    spec.end = last == UINT64_MAX ? UINT64_MAX : last + 1;
    return spec;
}

size_t run_trace_bytes(const struct settings *settings, const struct run_plan *plan)
{
    if (!is_wanted(settings, plan))
        return 0;
    const struct trace_spec spec = spec_of(settings, plan);
    return sizeof(struct run_trace) + trace_bytes(&spec) + trace_file_bytes(&spec, plan->devices.towers);
}

static void release(struct run_trace *run)
{
    trace_file_close(run->file);
    trace_close(run->trace);
    free(run);
}

/* Report an error, with `problem` before it unless that is NULL. */
static void report_error(const struct run_trace *run, const char *problem, int rc)
{
    const char *const error = rc == -EEXIST ? NULL : strerror(-rc);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: cannot write the trace: %s%s%s: the run continues without", run->path,
                    problem != NULL ? problem : "", problem != NULL && error != NULL ? ": " : "",
                    error != NULL ? error : "");
}

struct run_trace *run_trace_open(const struct settings *settings, const struct run_plan *plan)
{
    range_prepare();
    if (*settings->report.trace == '\0' && *settings->report.trace_steps != '\0' && plan->only_evaluated == 0)
        log_message(LOG_RUN, "report.trace_steps = %s has no effect without report.trace",
                    settings->report.trace_steps);
    if (!is_wanted(settings, plan))
        return NULL;
    const struct trace_spec spec = spec_of(settings, plan);
    struct run_trace *const run = calloc(1, sizeof(*run));
    int rc = run == NULL ? -1 : trace_open(&run->trace, &spec);
    if (rc == 0)
        rc = trace_file_open(&run->file, run->trace, plan->devices.towers);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: out of memory for the trace: the run continues without", settings->report.trace);
        if (run != NULL)
            release(run);
        return NULL;
    }
    run->path = settings->report.trace;
    const char *problem;
    rc = trace_file_check(run->path, &problem);
    report_error(run, problem, rc);
    run->is_written = rc != 0;
    run->track = trace_track_add(run->trace, TRACE_MAIN, 0);
    if (spec.first == UINT64_MAX)
        log_message(LOG_RUN, "%s: the run ends before steps %s: the trace will be empty", run->path,
                    settings->report.trace_steps);
    return run;
}

struct trace *run_trace_recorder(const struct run_trace *run)
{
    return run != NULL ? run->trace : NULL;
}

struct trace_track *run_trace_track(const struct run_trace *run, enum trace_kind kind, uint32_t index)
{
    return trace_track_add(run_trace_recorder(run), kind, index);
}

void run_trace_begin(struct run_trace *run)
{
    if (run == NULL || run->is_written)
        return;
    const char *problem;
    const int rc = trace_file_begin(run->file, run->path, &problem);
    report_error(run, problem, rc);
    run->is_written = rc != 0;
}

static void write_trace(struct run_trace *run)
{
    uint64_t lost;
    if (run->is_written)
        return;
    run->is_written = true;
    report_error(run, NULL, trace_file_write(run->file, &lost));
    if (lost > 0 && !trace_spec_of(run->trace)->keeps_last)
        log_message(LOG_RUN, "%s: %" PRIu64 " entries of the trace were lost: trace fewer steps", run->path,
                    lost);
}

/* Record counters: the speed of the training step, and the fill of each tower's slots. */
static void count(struct run_trace *run, struct step_report *const *reports, uint32_t towers)
{
    const struct local_batch *const local = &reports[0]->local;
    uint64_t ended_ns = 0;
    for (uint32_t d = 0; d < towers; d++) {
        const struct step_report *const report = reports[d];
        ended_ns = report->ended_ns > ended_ns ? report->ended_ns : ended_ns;
        trace_count(run->track, TRACE_FILLED_SLOTS, (struct trace_batch){ local->number, d },
                    report->ended_ns - report->times.total, report->slots_found);
    }
    if (local->phase == PHASE_TRAIN && run->ended_ns > 0 && ended_ns > run->ended_ns)
        trace_count(run->track, TRACE_IMAGES_PER_SECOND, run->batch, ended_ns,
                    (uint32_t)(1e9 * local->global_count / (double)(ended_ns - run->ended_ns)));
    run->ended_ns = local->phase == PHASE_TRAIN ? ended_ns : 0;
}

void run_trace_follow(struct run_trace *run, struct step_report *const *reports, uint32_t towers, uint64_t begun_ns)
{
    if (run == NULL || run->is_written)
        return;
    /* All entries of a batch are recorded when all towers have ended the next batch. */
    if (reports[0]->local.number >= trace_spec_of(run->trace)->end) {
        write_trace(run);
        return;
    }
    if (run->followed_ns > 0)
        trace_put(run->track, &(struct trace_entry){ run->followed_ns, begun_ns, run->batch.number, 0, 0,
                                                     TRACE_FOLLOW });
    run->batch.number = reports[0]->local.number;
    run->followed_ns = clock_now_ns();
    trace_put(run->track, &(struct trace_entry){ begun_ns, run->followed_ns, run->batch.number, 0, 0,
                                                 TRACE_WAIT_TOWERS });
    count(run, reports, towers);
}

void run_trace_close(struct run_trace *run)
{
    if (run == NULL)
        return;
    write_trace(run);
    release(run);
}
