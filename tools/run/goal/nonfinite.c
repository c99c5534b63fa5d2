/* Losses, gradients and weights that are no finite numbers. */
#include "tools/run/goal/nonfinite.h"

#include <math.h>

#include "stage/log.h"

static void fail(struct stop *stop, const struct step_report *report, uint32_t tower, double learning_rate)
{
    stop_fail(stop, EXIT_CODE_NONFINITE,
              "%s%s: epoch %u, %s %llu, tower %u: try a smaller learning rate than %g",
              report->broken != NULL ? report->broken : "the loss is no longer a finite number",
              report->broken != NULL ? " holds a number that is not finite" : "", report->span.epoch + 1,
              report->span.pass == PASS_TRAIN ? "step" : "evaluation batch",
              (unsigned long long)report->span.step + 1, tower, learning_rate);
}

/* Was it left out by any of the towers? Where they are one model, then by all that had samples. */
static bool is_skipped(struct step_report *const *reports, uint32_t count)
{
    bool is_skipped = false;
    for (uint32_t d = 0; d < count; d++)
        is_skipped = is_skipped || reports[d]->result.is_skipped != 0;
    return is_skipped && reports[0]->span.pass == PASS_TRAIN;
}

static void note_step(struct stop *stop, const struct span *span, bool is_skipped, struct course *course)
{
    course_add_step(course, is_skipped);
    if (is_skipped && course->skipped == 1)
        log_message(LOG_RUN, "epoch %u, step %llu: gradients are not finite: the step is left out, as others will be",
                    span->epoch + 1, (unsigned long long)span->step + 1);
    if (course->skipped_in_row >= NONFINITE_ROW_MAX)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "%u steps in a row have gradients that are not finite, up to epoch %u, step %llu: try a smaller "
                  "learning rate, or train.clip_norm", NONFINITE_ROW_MAX, span->epoch + 1,
                  (unsigned long long)span->step + 1);
}

void nonfinite_check(struct stop *stop, struct step_report *const *reports, struct tower_range towers,
                     const struct train_settings *train, struct course *course)
{
    const bool was_skipped = train->on_nan == ON_NAN_SKIP && is_skipped(reports, towers.count);
    const bool may_overflow = was_skipped || (train->on_nan == ON_NAN_SKIP && reports[0]->span.pass == PASS_EVALUATE);
    for (uint32_t d = 0; d < towers.count; d++)
        if (reports[d]->broken != NULL || (!isfinite(reports[d]->result.loss_sum) && !may_overflow))
            fail(stop, reports[d], towers.first + d, train->learning_rate);
    if (train->on_nan == ON_NAN_SKIP && reports[0]->span.pass == PASS_TRAIN)
        note_step(stop, &reports[0]->span, was_skipped, course);
}
