/* The achievements of a run, as numbers. */
#include "tools/lib/run/run_progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "stage/text/decimal.h"

__extension__ typedef unsigned __int128 wide;

/* Compares two fractions without rounding. */
static bool is_better(const struct run_progress *progress, uint64_t correct, uint64_t images)
{
    return progress->best_images == 0 || (wide)correct * progress->best_images > (wide)progress->best_correct * images;
}

void run_progress_add_evaluation(struct run_progress *progress, uint64_t correct, uint64_t images, uint64_t step)
{
    if (images == 0)
        return;
    if (!is_better(progress, correct, images)) {
        progress->stale++;
        return;
    }
    progress->best_correct = correct;
    progress->best_images = images;
    progress->best_step = step;
    progress->stale = 0;
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

#define FIELDS 11u

static void fields_of(struct run_progress *progress, uint64_t *fields[FIELDS])
{
    uint64_t *const all[FIELDS] = { &progress->best_correct, &progress->best_images, &progress->best_step,
                                    &progress->stale, &progress->skipped, &progress->skipped_in_row,
                                    &progress->first_loss, &progress->lost_steps, &progress->has_warned,
                                    &progress->rollbacks, &progress->rate_last };
    for (size_t i = 0; i < FIELDS; i++)
        fields[i] = all[i];
}

void run_progress_write(const struct run_progress *progress, char text_out[RUN_PROGRESS_TEXT_BYTES])
{
    struct run_progress copy = *progress;
    uint64_t *fields[FIELDS];
    size_t used = 0;
    fields_of(&copy, fields);
    for (size_t i = 0; i < FIELDS; i++)
        used += (size_t)snprintf(text_out + used, RUN_PROGRESS_TEXT_BYTES - used, "%s%" PRIu64, i > 0 ? " " : "",
                                 *fields[i]);
}

static bool is_possible(const struct run_progress *progress)
{
    return progress->best_correct <= progress->best_images && progress->skipped_in_row <= progress->skipped &&
           progress->has_warned <= 1 && progress->rollbacks <= RUN_PROGRESS_ROLLBACKS_MAX;
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
    if (*text != '\0' || !is_possible(&progress))
        return -EINVAL;
    *course_out = progress;
    return 0;
}
