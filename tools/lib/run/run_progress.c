/* The achievements of a run, as numbers. */
#include "tools/lib/run/run_progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/decimal.h"

/* ---- measures ---- */

double best_by_value(enum best_by by, const struct account *account)
{
    const struct step_totals *const evaluation = &account->state.phases[PHASE_EVALUATE];
    const struct mean_measures *const measures = &account->state.measures;
    const double values[BEST_BY_COUNT] = {
        [BEST_BY_ACCURACY] = totals_accuracy(evaluation),
        [BEST_BY_LOSS] = totals_loss(evaluation),
        [BEST_BY_BALANCED_ACCURACY] = measures->balanced_accuracy,
        [BEST_BY_MACRO_PRECISION] = measures->macro.precision,
        [BEST_BY_MACRO_RECALL] = measures->macro.recall,
        [BEST_BY_MACRO_F1] = measures->macro.f1,
        [BEST_BY_WEIGHTED_PRECISION] = measures->weighted.precision,
        [BEST_BY_WEIGHTED_F1] = measures->weighted.f1,
    };
    const bool is_known = by <= BEST_BY_LOSS || account_has_measures(account);
    return is_known ? values[by] : NAN;
}

bool best_by_reaches(enum best_by by, double value, double goal)
{
    return by == BEST_BY_LOSS ? value <= goal : value >= goal;
}

const char *best_by_words(enum best_by by)
{
    static const char *const words[BEST_BY_COUNT] = {
        [BEST_BY_ACCURACY] = "validation accuracy",
        [BEST_BY_LOSS] = "validation loss",
        [BEST_BY_BALANCED_ACCURACY] = "validation balanced accuracy",
        [BEST_BY_MACRO_PRECISION] = "validation macro precision",
        [BEST_BY_MACRO_RECALL] = "validation macro recall",
        [BEST_BY_MACRO_F1] = "validation macro F1",
        [BEST_BY_WEIGHTED_PRECISION] = "validation weighted precision",
        [BEST_BY_WEIGHTED_F1] = "validation weighted F1",
    };
    return words[by];
}

const char *best_by_title(enum best_by by)
{
    static const char *const titles[BEST_BY_COUNT] = {
        [BEST_BY_ACCURACY] = "accuracy",
        [BEST_BY_LOSS] = "accuracy",
        [BEST_BY_BALANCED_ACCURACY] = "balanced",
        [BEST_BY_MACRO_PRECISION] = "macro P",
        [BEST_BY_MACRO_RECALL] = "macro R",
        [BEST_BY_MACRO_F1] = "macro F1",
        [BEST_BY_WEIGHTED_PRECISION] = "wtd. P",
        [BEST_BY_WEIGHTED_F1] = "wtd. F1",
    };
    return titles[by];
}

struct best_by_text best_by_text(enum best_by by, double value)
{
    struct best_by_text out;
    if (by == BEST_BY_ACCURACY || by == BEST_BY_BALANCED_ACCURACY)
        snprintf(out.text, sizeof(out.text), "%.2f %%", 100 * value);
    else if (by == BEST_BY_LOSS)
        snprintf(out.text, sizeof(out.text), "%.4g", value);
    else
        snprintf(out.text, sizeof(out.text), "%.4f", value);
    return out;
}

/* ---- the best evaluation ---- */

struct run_progress_evaluation run_progress_latest(enum best_by by, const struct account *account)
{
    const struct step_totals *const evaluation = &account->state.phases[PHASE_EVALUATE];
    return (struct run_progress_evaluation){ evaluation->correct, evaluation->images, account->step,
                                             best_by_value(by, account) };
}

__extension__ typedef unsigned __int128 wide;

/* Compares two fractions without rounding. */
static bool is_more_accurate(const struct run_progress *progress, const struct run_progress_evaluation *evaluation)
{
    return (wide)evaluation->correct * progress->best_images > (wide)progress->best_correct * evaluation->images;
}

/* A measure that is not a number is worse than any other. */
static bool is_better(const struct run_progress *progress, const struct run_progress_evaluation *evaluation)
{
    const double value = evaluation->value, best = progress->best_value;
    if (progress->best_images == 0)
        return true;
    if (progress->best_by == BEST_BY_ACCURACY)
        return is_more_accurate(progress, evaluation);
    if (isnan(value) || isnan(best))
        return !isnan(value);
    return progress->best_by == BEST_BY_LOSS ? value < best : value > best;
}

bool run_progress_set_best_by(struct run_progress *progress, enum best_by by)
{
    const bool loses = progress->best_by != by && progress->best_images > 0;
    if (progress->best_by != by) {
        run_progress_copy_best(progress, &(struct run_progress){ .best_by = by });
        progress->stale = 0;
    }
    return loses;
}

void run_progress_add_evaluation(struct run_progress *progress, const struct run_progress_evaluation *evaluation)
{
    if (evaluation->images == 0)
        return;
    if (!is_better(progress, evaluation)) {
        progress->stale++;
        return;
    }
    progress->best_correct = evaluation->correct;
    progress->best_images = evaluation->images;
    progress->best_step = evaluation->step;
    progress->best_value = evaluation->value;
    progress->best_spent = progress->spent;
    progress->stale = 0;
}

void run_progress_copy_best(struct run_progress *progress, const struct run_progress *from)
{
    progress->best_by = from->best_by;
    progress->best_correct = from->best_correct;
    progress->best_images = from->best_images;
    progress->best_step = from->best_step;
    progress->best_value = from->best_value;
    progress->best_spent = from->best_spent;
}

void run_progress_add_step(struct run_progress *progress, bool is_skipped)
{
    progress->skipped += is_skipped;
    progress->skipped_in_row = is_skipped ? progress->skipped_in_row + 1 : 0;
}

/* ---- divergence ---- */

#define MILLION 1e6
#define LOSS_MOST 1e12          /* a loss whose millionths fit into 64 bits */
#define LOSS_MARGIN 1.01        /* a loss counts as larger only by this factor */

void run_progress_note_first(struct run_progress *progress, double loss)
{
    if (progress->first_loss == 0 && loss > 0)
        progress->first_loss = loss < LOSS_MOST ? (uint64_t)(loss * MILLION) + 1 : (uint64_t)(LOSS_MOST * MILLION);
}

/* Is the accuracy that of guessing? The limit is above 1 / classes, because always guessing the largest class is right
 * more often. */
static bool is_guessing(const struct run_progress_epoch *epoch)
{
    const double chance = 1.0 / epoch->classes;
    return epoch->accuracy <= chance + chance * (1 - chance) / 4;
}

bool run_progress_add_epoch(struct run_progress *progress, const struct run_progress_epoch *epoch)
{
    const bool is_above = epoch->loss > LOSS_MARGIN * (double)progress->first_loss / MILLION;
    const bool is_lost = progress->first_loss > 0 && epoch->classes > 1 && is_above && is_guessing(epoch);
    progress->lost_steps = is_lost ? progress->lost_steps + epoch->steps : 0;
    if (progress->lost_steps < RUN_PROGRESS_LOST_STEPS || progress->has_warned != 0)
        return false;
    progress->has_warned = 1;
    return true;
}

/* ---- as a text ---- */

#define FIELDS 12u              /* numbers of fields_of */

static void fields_of(struct run_progress *progress, uint64_t *fields[FIELDS])
{
    uint64_t *const all[FIELDS] = { &progress->best_correct, &progress->best_images, &progress->best_step,
                                    &progress->stale, &progress->skipped, &progress->skipped_in_row,
                                    &progress->first_loss, &progress->lost_steps, &progress->has_warned,
                                    &progress->rollbacks, &progress->rate_last, &progress->best_by };
    for (size_t i = 0; i < FIELDS; i++)
        fields[i] = all[i];
}

#define SPENT_FIELDS 8u

static void spent_of(struct run_progress *progress, uint64_t *fields[SPENT_FIELDS])
{
    struct run_spent *const all[] = { &progress->spent, &progress->best_spent };
    for (size_t i = 0; i < 2; i++) {
        *fields++ = &all[i]->wall_ns;
        *fields++ = &all[i]->machines_ns;
        *fields++ = &all[i]->microjoules;
        *fields++ = &all[i]->is_partial;
    }
}

void run_progress_write(const struct run_progress *progress, char text_out[RUN_PROGRESS_TEXT_BYTES])
{
    struct run_progress copy = *progress;
    uint64_t *fields[FIELDS];
    char number[DECIMAL_SIZE];
    size_t used = 0;
    fields_of(&copy, fields);
    for (size_t i = 0; i < FIELDS; i++)
        used += (size_t)snprintf(text_out + used, RUN_PROGRESS_TEXT_BYTES - used, "%s%" PRIu64, i > 0 ? " " : "",
                                 *fields[i]);
    decimal_write(isnan(copy.best_value) ? -1 : copy.best_value, number, sizeof(number));
    used += (size_t)snprintf(text_out + used, RUN_PROGRESS_TEXT_BYTES - used, " %s", number);
    spent_of(&copy, fields);
    for (size_t i = 0; i < SPENT_FIELDS; i++)
        used += (size_t)snprintf(text_out + used, RUN_PROGRESS_TEXT_BYTES - used, " %" PRIu64, *fields[i]);
}

/* Can a run have spent this, of what it has spent in all? All machines together take at least the time of one. */
static bool is_spent(const struct run_spent *spent, const struct run_spent *all)
{
    return spent->wall_ns <= all->wall_ns && spent->machines_ns <= all->machines_ns &&
           spent->microjoules <= all->microjoules && spent->wall_ns <= spent->machines_ns && spent->is_partial <= 1;
}

static bool is_possible(const struct run_progress *progress)
{
    return progress->best_correct <= progress->best_images && progress->skipped_in_row <= progress->skipped &&
           progress->has_warned <= 1 && progress->best_by < BEST_BY_COUNT && isfinite(progress->best_value) &&
           progress->rollbacks <= RUN_PROGRESS_ROLLBACKS_MAX && is_spent(&progress->spent, &progress->spent) &&
           is_spent(&progress->best_spent, &progress->spent);
}

/* NULL: it is not a number. No measure is negative; a negative one stands for NAN. */
static const char *read_value(const char *text, double *value_out)
{
    const char *const end = decimal_end(text);
    if (end != NULL)
        *value_out = decimal_read(text);
    return end;
}

/* The text is empty, as of an earlier version, or has all numbers. NULL: it has others. */
static const char *read_spent(const char *text, struct run_progress *progress)
{
    uint64_t *fields[SPENT_FIELDS];
    if (text == NULL || *text == '\0')
        return text;
    spent_of(progress, fields);
    for (size_t i = 0; text != NULL && i < SPENT_FIELDS; i++)
        text = *text == ' ' ? decimal_u64_start(text + 1, fields[i]) : NULL;
    return text;
}

int run_progress_read(struct run_progress *course_out, const char *text)
{
    struct run_progress progress = { .stale = 0 };
    uint64_t *fields[FIELDS];
    fields_of(&progress, fields);
    for (size_t i = 0; i < FIELDS && *text != '\0'; i++) {
        const char *const end = decimal_u64_start(text, fields[i]);
        if (end == NULL || (*end != ' ' && *end != '\0'))
            return -EINVAL;
        text = *end == ' ' ? end + 1 : end;
    }
    if (*text != '\0')
        text = read_spent(read_value(text, &progress.best_value), &progress);
    if (text == NULL || *text != '\0' || !is_possible(&progress))
        return -EINVAL;
    progress.best_value = progress.best_value < 0 ? NAN : progress.best_value;
    *course_out = progress;
    return 0;
}
