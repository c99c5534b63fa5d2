/* The progress of a run. */
#include "tools/lib/run/progress_display.h"

#include <math.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/text/terminal.h"

#define NS_PER_S UINT64_C(1000000000)
/* numbers are of the interval since the last redraw; shorter intervals would make them unsteady */
#define REDRAW_NS NS_PER_S
#define JSON_BYTES 2048u        /* more than a line needs */

static enum progress_form kind_of(const struct settings *settings)
{
    if (settings->report.progress != PROGRESS_AUTO)
        return settings->report.progress;
    return terminal_repaints(STDERR_FILENO) ? PROGRESS_BAR : PROGRESS_LINE;
}

int progress_display_init(struct progress_display *display, const struct settings *settings,
                          const struct run_plan *plan, struct account *account)
{
    *display = (struct progress_display){ .settings = settings, .plan = plan, .account = account,
                                       .kind = kind_of(settings), .loader_ns = clock_now_ns() };
    json_init(&display->json, false);
    return json_reserve(&display->json, JSON_BYTES);
}

void progress_display_release(struct progress_display *display)
{
    json_release(&display->json);
}

/* The number of steps in the pass of a batch; the last epoch may be shorter. */
static uint64_t steps_of_pass(const struct schedule *schedule, const struct local_batch *local, uint64_t *step_out)
{
    const uint64_t per_epoch = schedule_steps_per_epoch(schedule), steps = schedule_step_count(schedule);
    const uint64_t first = local->phase == PHASE_TRAIN ? local->step / per_epoch * per_epoch : 0;
    *step_out = local->step - first + 1;
    if (local->phase == PHASE_EVALUATE)
        return schedule_batches_per_evaluation(schedule);
    return steps - first < per_epoch ? steps - first : per_epoch;
}

/* Estimated seconds until the end of the pass, at its speed so far. */
static double pass_left(const struct progress_display *display, const struct local_batch *local, uint64_t left)
{
    const struct step_totals *const pass = &display->account->state.phases[local->phase];
    return pass->steps > 0 ? (double)pass->wall_ns / 1e9 / (double)pass->steps * (double)left : NAN;
}

/* Estimated seconds until the end of the run. Each evaluation is assumed to take as long as the latest one; before the
 * first one they are left out. */
static double run_left(const struct progress_display *display, const struct local_batch *local, double epoch_left)
{
    const struct schedule *const schedule = &display->plan->schedule;
    const struct step_totals *const train = &display->account->process;
    const struct step_totals *const evaluation = &display->account->state.phases[PHASE_EVALUATE];
    const uint64_t steps_left = schedule_step_count(schedule) - display->account->step;
    const double a_step = train->steps > 0 ? (double)train->wall_ns / 1e9 / (double)train->steps : 0;
    const bool is_whole = evaluation->steps >= schedule_batches_per_evaluation(schedule) && evaluation->steps > 0;
    const uint64_t evaluations = is_whole ? schedule->epochs - local->epoch - (local->phase == PHASE_EVALUATE) : 0;
    return (double)steps_left * a_step + (double)evaluations * (double)evaluation->wall_ns / 1e9 +
           (local->phase == PHASE_EVALUATE ? epoch_left : 0);
}

static struct progress_line line_of(const struct progress_display *display, const struct local_batch *local)
{
    const bool trains = local->phase == PHASE_TRAIN, computes = display->plan->devices.backend->computes;
    const bool is_synthetic = display->settings->input.source == INPUT_SYNTHETIC;
    const struct step_totals *const recent = trains ? &display->account->recent
                                              : &display->account->state.phases[PHASE_EVALUATE];
    struct progress_line line = {
        .epoch = local->epoch + 1, .epochs = display->plan->schedule.epochs,
        .evaluates = !trains,
        .loss = computes ? totals_loss(recent) : NAN,
        .accuracy = computes && !is_synthetic ? totals_accuracy(recent) : NAN,
        .images_per_second = totals_images_per_second(recent),
        .input_wait = totals_fractions(recent).input_wait,
    };
    line.steps = steps_of_pass(&display->plan->schedule, local, &line.step);
    line.epoch_left = pass_left(display, local, line.steps - line.step);
    line.run_left = run_left(display, local, line.epoch_left);
    return line;
}

/* The use of the input pipeline in training since the previous line. */
static struct feed_use measure_feed(struct progress_display *display)
{
    struct loader_counts now;
    const uint64_t now_ns = clock_now_ns();
    pipeline_count_loader(display->pipeline, &now);
    const struct loader_busy busy = loader_busy(&display->loader, &now, now_ns - display->loader_ns, display->plan);
    display->loader = now;
    display->loader_ns = now_ns;
    return feed_use(&display->account->recent_fills, &busy, display->settings);
}

static void add_feed(const struct progress_display *display, const struct feed_use *use, struct progress_line *line)
{
    line->has_feed = display->settings->input.source != INPUT_SYNTHETIC;
    line->batches = use->ring.fill.median;
    line->depth = (uint32_t)use->ring.depth;
    line->readers = use->busy.readers;
    line->decoders = use->busy.decoders;
}

static void print_json(struct progress_display *display, const struct progress_line *line, const struct feed_use *use)
{
    struct json *const json = &display->json;
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
        metrics_write(&(struct metric_values){ .has = metric_needs_met(display->settings), .feed = *use }, IN_PROGRESS,
                      json);
    json_close_object(json);
    if (json_text(json) != NULL)
        log_line(json_text(json));
}

static void print_line(struct progress_display *display, const struct progress_line *line, const struct feed_use *use)
{
    char text[PROGRESS_LINE_MAX + 1];
    if (display->kind == PROGRESS_JSON) {
        print_json(display, line, use);
    } else if (display->kind == PROGRESS_BAR) {
        progress_line_bar(line, terminal_columns(STDERR_FILENO) - 1, &display->room[line->evaluates], text);
        log_live(text);
    } else {
        progress_line_write(line, text);
        log_line(text);
    }
}

/* On a terminal the last step of a pass is always displayed, because its results may take a while. */
void progress_display_step(struct progress_display *display, const struct local_batch *local)
{
    const uint64_t now_ns = display->account->last_end_ns;
    const bool is_redrawn = display->kind == PROGRESS_BAR;
    if (display->kind == PROGRESS_NONE || (now_ns < display->due_ns && !(is_redrawn && local->last_of_phase)))
        return;
    display->due_ns = now_ns + (is_redrawn ? REDRAW_NS : (uint64_t)display->settings->report.pace * NS_PER_S);
    struct progress_line line = line_of(display, local);
    const bool has_feed = display->pipeline != NULL && local->phase == PHASE_TRAIN;
    const struct feed_use use = has_feed ? measure_feed(display) : (struct feed_use){ .busy = { 0, 0 } };
    if (has_feed)
        add_feed(display, &use, &line);
    print_line(display, &line, has_feed ? &use : NULL);
    if (local->phase == PHASE_TRAIN)
        account_recent_reset(display->account);
}

void progress_display_clear(const struct progress_display *display)
{
    if (display->kind == PROGRESS_BAR)
        log_live(NULL);
}
