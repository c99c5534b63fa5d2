/* Losses, gradients and weights that are no finite numbers. */
#include "tools/run/goal/nonfinite.h"

#include <math.h>
#include <stdio.h>

#include "compute/floats.h"
#include "stage/log.h"

#define WORDS_BYTES 192u

/* The first layer whose weights are not finite, behind a loss that is not: where all are, an image or a value between
 * layers is to blame. */
static void name_layer(const struct step_report *report, char words[WORDS_BYTES])
{
    *words = '\0';
    if (!isfinite(report->result.loss_sum) && report->broken != NULL)
        snprintf(words, WORDS_BYTES, ", first of the weights that are not %.120s", report->broken);
    else if (report->broken == NULL)
        snprintf(words, WORDS_BYTES, ", all weights are");
}

static void fail(struct stop *stop, const struct step_report *report, uint32_t tower, const struct run_plan *plan,
                 const struct train_settings *train)
{
    const bool is_training = report->slice.phase == PHASE_TRAIN, is_lost = !isfinite(report->result.loss_sum);
    char layer[WORDS_BYTES], rate[48] = "";
    name_layer(report, layer);
    if (is_training)
        snprintf(rate, sizeof(rate), ", rate %g", learning_rate_at(&plan->learning_rate, report->slice.step));
    stop_fail(stop, EXIT_CODE_NONFINITE,
              "%s%s: epoch %u, %s %llu, tower %u%s%s: try a smaller learning rate than %g",
              is_lost ? "the loss is no longer a finite number" : report->broken,
              is_lost ? "" : " holds a number that " FINITE_WORDS, report->slice.epoch + 1,
              is_training ? "step" : "evaluation batch", (unsigned long long)report->slice.step + 1, tower, rate, layer,
              train->learning_rate);
}

/* Was it left out by any of the towers? Where they are one model, then by all that had samples. */
static bool is_skipped(struct step_report *const *reports, uint32_t count)
{
    bool is_skipped = false;
    for (uint32_t d = 0; d < count; d++)
        is_skipped = is_skipped || reports[d]->result.is_skipped != 0;
    return is_skipped && reports[0]->slice.phase == PHASE_TRAIN;
}

static void note_step(struct stop *stop, const struct batch_slice *slice, bool is_skipped, const struct run_plan *plan,
                      struct course *course)
{
    const uint64_t steps = schedule_step_count(&plan->schedule);
    course_add_step(course, is_skipped);
    if (is_skipped && course->skipped == 1)
        log_message(LOG_RUN, "epoch %u, step %llu: gradients are not finite: the step is left out, as others will be",
                    slice->epoch + 1, (unsigned long long)slice->step + 1);
    if (course->skipped == steps && slice->step + 1 == steps)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "no step had gradients that are finite: nothing was learnt: try a smaller learning rate, or "
                  "train.clip_norm");
    else if (course->skipped_in_row >= NONFINITE_ROW_MAX)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "%u steps in a row have gradients that are not finite, up to epoch %u, step %llu: try a smaller "
                  "learning rate, or train.clip_norm", NONFINITE_ROW_MAX, slice->epoch + 1,
                  (unsigned long long)slice->step + 1);
}

void nonfinite_check(struct stop *stop, struct step_report *const *reports, const struct run_plan *plan,
                     const struct train_settings *train, struct course *course)
{
    const struct tower_range towers = plan->devices.towers;
    const bool was_skipped = train->on_nan == ON_NAN_SKIP && is_skipped(reports, towers.count);
    const bool may_overflow =
        was_skipped || (train->on_nan == ON_NAN_SKIP && reports[0]->slice.phase == PHASE_EVALUATE);
    for (uint32_t d = 0; d < towers.count; d++)
        if (reports[d]->broken != NULL || (!isfinite(reports[d]->result.loss_sum) && !may_overflow))
            fail(stop, reports[d], towers.first + d, plan, train);
    if (train->on_nan == ON_NAN_SKIP && reports[0]->slice.phase == PHASE_TRAIN)
        note_step(stop, &reports[0]->slice, was_skipped, plan, course);
}

void nonfinite_check_evaluation(struct stop *stop, const struct account *account, const struct batch_slice *slice)
{
    const struct tally *const evaluation = account_phase(account, PHASE_EVALUATE);
    if (slice->phase == PHASE_EVALUATE && slice->last_of_phase && evaluation->images > 0 &&
        evaluation->lossless == evaluation->images)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "no loss of the evaluation behind epoch %u is a finite number: the weights are of no use: try a "
                  "smaller learning rate, or train.clip_norm", slice->epoch + 1);
}
