/* The progress of a run. */
#include "tools/run/run_progress.h"

#include <math.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "tools/text/terminal.h"

#define NS_PER_S UINT64_C(1000000000)
#define REPAINT_NS NS_PER_S     /* what is shown is of the time since the last painting: a shorter one is unsteady */
#define JSON_BYTES 2048u        /* more than a line takes */

/* Where lines are not wanted as they are, a terminal gets one that is painted again. */
static enum progress kind_of(const struct settings *settings)
{
    if (settings->report.progress != PROGRESS_AUTO)
        return settings->report.progress;
    return terminal_repaints(STDERR_FILENO) ? PROGRESS_BAR : PROGRESS_LINE;
}

int run_progress_init(struct run_progress *progress, const struct settings *settings, const struct run_plan *plan,
                      struct account *account)
{
    *progress = (struct run_progress){ .settings = settings, .plan = plan, .account = account,
                                       .kind = kind_of(settings), .loader_ns = clock_now_ns() };
    json_init(&progress->json, false);
    return json_reserve(&progress->json, JSON_BYTES);
}

void run_progress_release(struct run_progress *progress)
{
    json_release(&progress->json);
}

/* The steps of the pass that a batch is in: of training fewer than usual where the run ends there. */
static uint64_t steps_of_pass(const struct schedule *schedule, const struct batch_slice *slice, uint64_t *step_out)
{
    const uint64_t per_epoch = schedule_steps_per_epoch(schedule), steps = schedule_step_count(schedule);
    const uint64_t first = slice->phase == PHASE_TRAIN ? slice->step / per_epoch * per_epoch : 0;
    *step_out = slice->step - first + 1;
    if (slice->phase == PHASE_EVALUATE)
        return schedule_batches_per_evaluation(schedule);
    return steps - first < per_epoch ? steps - first : per_epoch;
}

/* Seconds, as the steps of this pass went so far. */
static double pass_left(const struct run_progress *progress, const struct batch_slice *slice, uint64_t left)
{
    const struct tally *const phase = account_phase(progress->account, slice->phase);
    return phase->steps > 0 ? (double)phase->wall_ns / 1e9 / (double)phase->steps * (double)left : NAN;
}

/* Evaluations last as long as the latest one did; of the first one nothing is known. */
static double run_left(const struct run_progress *progress, const struct batch_slice *slice, double epoch_left)
{
    const struct schedule *const schedule = &progress->plan->schedule;
    const struct tally *const train = account_process(progress->account);
    const struct tally *const evaluation = account_phase(progress->account, PHASE_EVALUATE);
    const uint64_t steps_left = schedule_step_count(schedule) - account_step(progress->account);
    const double a_step = train->steps > 0 ? (double)train->wall_ns / 1e9 / (double)train->steps : 0;
    const bool is_whole = evaluation->steps >= schedule_batches_per_evaluation(schedule) && evaluation->steps > 0;
    const uint64_t evaluations = is_whole ? schedule->epochs - slice->epoch - (slice->phase == PHASE_EVALUATE) : 0;
    return (double)steps_left * a_step + (double)evaluations * (double)evaluation->wall_ns / 1e9 +
           (slice->phase == PHASE_EVALUATE ? epoch_left : 0);
}

static struct progress_line line_of(const struct run_progress *progress, const struct batch_slice *slice)
{
    const bool trains = slice->phase == PHASE_TRAIN, computes = progress->plan->devices.backend->computes;
    const bool is_synthetic = progress->settings->input.source == INPUT_SYNTHETIC;
    const struct tally *const recent = trains ? account_recent(progress->account)
                                              : account_phase(progress->account, PHASE_EVALUATE);
    struct progress_line line = {
        .epoch = slice->epoch + 1, .epochs = progress->plan->schedule.epochs,
        .evaluates = !trains,
        .loss = computes ? tally_loss(recent) : NAN,
        .accuracy = computes && !is_synthetic ? tally_accuracy(recent) : NAN,
        .images_per_second = tally_images_per_second(recent),
        .input_wait = tally_fractions(recent).input_wait,
    };
    line.steps = steps_of_pass(&progress->plan->schedule, slice, &line.step);
    line.epoch_left = pass_left(progress, slice, line.steps - line.step);
    line.run_left = run_left(progress, slice, line.epoch_left);
    return line;
}

/* Of training since the line before. */
static struct feed_use measure_feed(struct run_progress *progress)
{
    struct loader_counts now;
    const uint64_t now_ns = clock_now_ns();
    pipeline_count_loader(progress->pipeline, &now);
    const struct feed_use use = {
        .fills = account_recent_fills(progress->account),
        .busy = loader_busy(&progress->loader, &now, now_ns - progress->loader_ns, progress->plan),
    };
    progress->loader = now;
    progress->loader_ns = now_ns;
    return use;
}

static void tell_feed(const struct run_progress *progress, const struct feed_use *use, struct progress_line *line)
{
    line->has_feed = progress->settings->input.source != INPUT_SYNTHETIC;
    line->batches = fill_use(&use->fills->ring).median;
    line->depth = (uint32_t)progress->settings->input.prefetch_depth;
    line->readers = use->busy.readers;
    line->decoders = use->busy.decoders;
}

static void say_json(struct run_progress *progress, const struct progress_line *line, const struct feed_use *use)
{
    struct json *const json = &progress->json;
    json_reset(json);
    json_open_object(json, NULL);
    json_quoted(json, "kind", line->evaluates ? "evaluating" : "training");
    json_u64(json, "epoch", line->epoch);
    json_u64(json, "epochs", line->epochs);
    json_u64(json, "step", line->step);
    json_u64(json, "steps", line->steps);
    json_double(json, "loss", line->evaluates ? NAN : line->loss);
    json_double(json, "accuracy", line->evaluates ? NAN : line->accuracy);
    json_double(json, "images_per_second", line->images_per_second);
    json_double(json, "input_wait", line->evaluates ? NAN : line->input_wait);
    json_double(json, "seconds_left", line->epoch_left);
    json_double(json, "run_seconds_left", line->run_left);
    if (use != NULL)
        feed_write(use, progress->settings, json);
    json_close_object(json);
    if (json_text(json) != NULL)
        log_line(json_text(json));
}

static void say(struct run_progress *progress, const struct progress_line *line, const struct feed_use *use)
{
    char text[PROGRESS_LINE_MAX + 1];
    if (progress->kind == PROGRESS_JSON) {
        say_json(progress, line, use);
    } else if (progress->kind == PROGRESS_BAR) {
        progress_line_bar(line, terminal_columns(STDERR_FILENO) - 1, &progress->room[line->evaluates], text);
        log_live(text);
    } else {
        progress_line_write(line, text);
        log_line(text);
    }
}

/* On a terminal the last step of a pass is shown, too: its results may take a while. */
void run_progress_step(struct run_progress *progress, const struct batch_slice *slice)
{
    const uint64_t now_ns = account_end_ns(progress->account);
    const bool paints = progress->kind == PROGRESS_BAR;
    if (progress->kind == PROGRESS_NONE || (now_ns < progress->due_ns && !(paints && slice->last_of_phase)))
        return;
    progress->due_ns = now_ns + (paints ? REPAINT_NS : (uint64_t)progress->settings->report.pace * NS_PER_S);
    struct progress_line line = line_of(progress, slice);
    const bool has_feed = progress->pipeline != NULL && slice->phase == PHASE_TRAIN;
    const struct feed_use use = has_feed ? measure_feed(progress) : (struct feed_use){ .fills = NULL };
    if (has_feed)
        tell_feed(progress, &use, &line);
    say(progress, &line, has_feed ? &use : NULL);
    if (slice->phase == PHASE_TRAIN)
        account_recent_reset(progress->account);
}

void run_progress_clear(const struct run_progress *progress)
{
    if (progress->kind == PROGRESS_BAR)
        log_live(NULL);
}
