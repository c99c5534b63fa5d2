/* Reasons to stop a run before its last step. */
#include "tools/lib/run/stop_rule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/clock.h"
#include "stage/log.h"

/* ---- reasons to stop ---- */

bool stop_rule_needs_evaluations(const struct train_settings *train)
{
    return train->stop_at > 0 || train->patience > 0;
}

enum stop_reason stop_reason_of_progress(const struct train_settings *train, const struct run_progress *progress)
{
    if (progress->best_images == 0)
        return STOP_REASON_NONE;
    if (train->stop_at > 0 && best_by_reaches(train->best_by, run_progress_best_value(progress), train->stop_at))
        return STOP_REASON_STOP_AT;
    const bool is_stale = train->patience > 0 && progress->stale >= (uint64_t)train->patience;
    return is_stale ? STOP_REASON_PATIENCE : STOP_REASON_NONE;
}

enum stop_reason stop_reason_of_time(const struct train_settings *train, uint64_t elapsed_ns)
{
    const bool is_over = train->max_seconds > 0 && elapsed_ns / UINT64_C(1000000000) >= train->max_seconds;
    return is_over ? STOP_REASON_MAX_TIME : STOP_REASON_NONE;
}

const char *stop_reason_key(enum stop_reason reason)
{
    static const char *const keys[STOP_REASON_COUNT] = { [STOP_REASON_NONE] = "", [STOP_REASON_STOP_AT] = "stop_at",
                                                         [STOP_REASON_PATIENCE] = "patience",
                                                         [STOP_REASON_MAX_TIME] = "max_time" };
    return keys[reason];
}

void stop_reason_describe(enum stop_reason reason, const struct train_settings *train,
                          const struct run_progress *progress, char *words, size_t words_size)
{
    const bool is_accuracy = train->best_by == BEST_BY_ACCURACY || train->best_by == BEST_BY_BALANCED_ACCURACY;
    const struct best_by_text best = best_by_text(train->best_by, run_progress_best_value(progress));
    const char *const measure = best_by_words(train->best_by);
    if (reason == STOP_REASON_STOP_AT)
        snprintf(words, words_size, "%s %s reaches train.stop_at (%g%s)", measure, best.text,
                 is_accuracy ? 100 * train->stop_at : train->stop_at, is_accuracy ? " %" : "");
    else if (reason == STOP_REASON_PATIENCE)
        snprintf(words, words_size, "%" PRIu64 " evaluation%s without a better %s than %s at step %" PRIu64
                                    " (train.patience)",
                 progress->stale, progress->stale == 1 ? "" : "s", measure, best.text, progress->best_step);
    else if (reason == STOP_REASON_MAX_TIME)
        snprintf(words, words_size, "out of time (train.max_time %s)", train->max_time);
    else
        *words = '\0';
}

/* ---- numbers that are not finite ---- */

#define WORDS_BYTES 192u

/* When the loss is not finite: name the first weights that are not finite. Where all are finite, an image or an
 * activation is the cause. */
static void name_weights(const struct step_report *report, char words[WORDS_BYTES])
{
    *words = '\0';
    if (!isfinite(report->result.loss_sum) && report->broken != NULL)
        snprintf(words, WORDS_BYTES, ", first non-finite weights: %.120s", report->broken);
    else if (report->broken == NULL)
        snprintf(words, WORDS_BYTES, ", all weights are finite");
}

static void stop_for_nonfinite(struct stop *stop, const struct step_report *report, uint32_t tower,
                               const struct run_plan *plan, const struct train_settings *train)
{
    const bool is_training = report->local.phase == PHASE_TRAIN, is_lost = !isfinite(report->result.loss_sum);
    char weights[WORDS_BYTES], rate[48] = "";
    name_weights(report, weights);
    if (is_training)
        snprintf(rate, sizeof(rate), ", rate %g", learning_rate_at(&plan->learning_rate, report->local.step));
    stop_fail(stop, EXIT_CODE_NONFINITE,
              "%s%s: epoch %u, %s %llu, tower %u%s%s: try a smaller learning rate than %g",
              is_lost ? "the loss is not finite" : report->broken,
              is_lost ? "" : " has a number that " FINITE_WORDS, report->local.epoch + 1,
              is_training ? "step" : "evaluation batch", (unsigned long long)report->local.step + 1, tower, rate,
              weights, train->learning_rate);
}

/* Did any tower skip the step? All towers of one model that have samples skip it together. */
static bool is_skipped(struct step_report *const *reports, uint32_t count)
{
    bool is_skipped = false;
    for (uint32_t d = 0; d < count; d++)
        is_skipped = is_skipped || reports[d]->result.is_skipped != 0;
    return is_skipped && reports[0]->local.phase == PHASE_TRAIN;
}

static void add_step(struct stop *stop, const struct local_batch *local, bool is_skipped, const struct run_plan *plan,
                      struct run_progress *progress)
{
    const uint64_t steps = schedule_step_count(&plan->schedule);
    run_progress_add_step(progress, is_skipped);
    if (is_skipped && progress->skipped == 1)
        log_message(LOG_RUN, "epoch %u, step %llu: gradients are not finite: skipped, as later steps will be without a "
                    "message", local->epoch + 1, (unsigned long long)local->step + 1);
    if (progress->skipped == steps && local->step + 1 == steps)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "no step had finite gradients, so nothing was learned: try a smaller learning rate, or "
                  "train.clip_norm");
    else if (progress->skipped_in_row >= NONFINITE_ROW_MAX)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "gradients of %u steps in a row are not finite, up to epoch %u, step %llu: try a smaller learning "
                  "rate, or train.clip_norm", NONFINITE_ROW_MAX, local->epoch + 1,
                  (unsigned long long)local->step + 1);
}

void nonfinite_check(struct stop *stop, struct step_report *const *reports, const struct run_plan *plan,
                     const struct train_settings *train, struct run_progress *progress)
{
    const uint32_t towers = plan->schedule.towers;
    const bool was_skipped = train->on_nan == ON_NAN_SKIP && is_skipped(reports, towers);
    const bool may_overflow =
        was_skipped || (train->on_nan == ON_NAN_SKIP && reports[0]->local.phase == PHASE_EVALUATE);
    for (uint32_t d = 0; d < towers; d++)
        if (reports[d]->broken != NULL || (!isfinite(reports[d]->result.loss_sum) && !may_overflow)) {
            stop_for_nonfinite(stop, reports[d], d, plan, train);
            return;
        }
    if (train->on_nan == ON_NAN_SKIP && reports[0]->local.phase == PHASE_TRAIN)
        add_step(stop, &reports[0]->local, was_skipped, plan, progress);
}

void nonfinite_check_evaluation(struct stop *stop, const struct account *account, const struct local_batch *local)
{
    const struct step_totals *const evaluation = &account->state.phases[PHASE_EVALUATE];
    if (local->phase == PHASE_EVALUATE && local->last_of_phase && evaluation->images > 0 &&
        evaluation->lossless == evaluation->images)
        stop_fail(stop, EXIT_CODE_NONFINITE,
                  "no loss in the evaluation after epoch %u is finite, so the weights are useless: try a smaller "
                  "learning rate, or train.clip_norm", local->epoch + 1);
}

/* ---- after every batch ---- */

void stop_rule_warn_unused(const struct settings *settings)
{
    const struct train_settings *const train = &settings->train;
    const struct { const char *key; bool is_set; } keys[] = {
        { "train.stop_at", train->stop_at > 0 },
        { "train.patience", train->patience > 0 },
        { "checkpoint.keep_best", settings->checkpoint.keep_best == KEEP_BEST_CHECKPOINT },
    };
    char words[80] = "";
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].is_set)
            snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", words[0] != '\0' ? ", " : "",
                     keys[i].key);
    if (words[0] != '\0')
        log_message(LOG_RUN, "%s: no effect, because evaluations mean nothing with %s", words,
                    settings->input.source == INPUT_SYNTHETIC ? "input.source = synthetic" : "devices.kind = null");
}

static enum stop_reason find_reason(const struct stop_rule *rule, bool is_evaluated)
{
    enum stop_reason reason = STOP_REASON_NONE;
    if (is_evaluated)
        reason = stop_reason_of_progress(rule->train, rule->progress);
    if (reason == STOP_REASON_NONE)
        reason = stop_reason_of_time(rule->train, clock_now_ns() - rule->process_start_ns);
    return reason;
}

/* An evaluation without any finite loss is reported by nonfinite_check_evaluation. */
static void warn_of_infinite_losses(const struct step_totals *evaluation)
{
    if (evaluation->lossless > 0 && evaluation->lossless < evaluation->images)
        log_message(LOG_RUN, "the loss of batches with %" PRIu64 " of the %" PRIu64 " samples of this evaluation is "
                    "not finite: the loss is the mean of the others", evaluation->lossless, evaluation->images);
}

static void warn_of_divergence(const struct stop_rule *rule, const struct run_progress_epoch *epoch)
{
    log_message(LOG_RUN,
                "the run diverges: for a whole epoch the accuracy (%.1f %%) was that of guessing and the loss (%.4g) "
                "above that of the first step (%.4g): try a smaller train.learning_rate than %g, train.warmup_epochs "
                "or train.clip_norm, and check the labels", 100 * epoch->accuracy, epoch->loss,
                (double)rule->progress->first_loss / 1e6, rule->train->learning_rate);
}

static void add_training(struct stop_rule *rule, const struct local_batch *local)
{
    const struct step_totals *const training = &rule->account->state.phases[PHASE_TRAIN];
    run_progress_note_first(rule->progress, totals_loss(training));
    const struct run_progress_epoch epoch = { totals_loss(training), totals_accuracy(training), training->steps,
                                              rule->classes };
    if (local->last_of_phase && run_progress_add_epoch(rule->progress, &epoch))
        warn_of_divergence(rule, &epoch);
}

bool stop_rule_check(struct stop_rule *rule, const struct local_batch *local)
{
    const struct step_totals *const evaluation = &rule->account->state.phases[PHASE_EVALUATE];
    const bool is_evaluated = local->phase == PHASE_EVALUATE && local->last_of_phase && rule->uses_evaluations;
    if (is_evaluated) {
        warn_of_infinite_losses(evaluation);
        const struct run_progress_evaluation result = run_progress_latest(rule->train->best_by, rule->account);
        run_progress_add_evaluation(rule->progress, &result);
    }
    if (local->phase == PHASE_TRAIN && rule->uses_evaluations)
        add_training(rule, local);
    if (rule->reason != STOP_REASON_NONE)
        return false;
    rule->reason = find_reason(rule, is_evaluated);
    stop_reason_describe(rule->reason, rule->train, rule->progress, rule->words, sizeof(rule->words));
    return rule->reason != STOP_REASON_NONE;
}
