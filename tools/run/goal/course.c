/* How a run goes, in numbers. */
#include "tools/run/goal/course.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

__extension__ typedef unsigned __int128 wide;

/* Of two shares the larger, without rounding. */
static bool is_better(const struct course *course, uint64_t correct, uint64_t images)
{
    return course->best_images == 0 || (wide)correct * course->best_images > (wide)course->best_correct * images;
}

void course_add_evaluation(struct course *course, uint64_t correct, uint64_t images, uint64_t step)
{
    if (images == 0)
        return;
    if (!is_better(course, correct, images)) {
        course->stale++;
        return;
    }
    course->best_correct = correct;
    course->best_images = images;
    course->best_step = step;
    course->stale = 0;
}

void course_add_step(struct course *course, bool is_skipped)
{
    course->skipped += is_skipped;
    course->skipped_in_row = is_skipped ? course->skipped_in_row + 1 : 0;
}

/* ---- divergence ---- */

#define MILLION 1e6
#define LOSS_MOST 1e12          /* of which millionths are a whole number */
#define LOSS_MARGIN 1.01        /* by which a loss is above another one in earnest */

void course_note_first(struct course *course, double loss)
{
    if (course->first_loss == 0 && loss > 0)
        course->first_loss = loss < LOSS_MOST ? (uint64_t)(loss * MILLION) + 1 : (uint64_t)(LOSS_MOST * MILLION);
}

/* A little above one in so many: classes that are larger than others are guessed more often. */
static bool is_guessing(const struct course_epoch *epoch)
{
    const double chance = 1.0 / epoch->classes;
    return epoch->accuracy <= chance + chance * (1 - chance) / 4;
}

bool course_add_epoch(struct course *course, const struct course_epoch *epoch)
{
    const bool is_above = epoch->loss > LOSS_MARGIN * (double)course->first_loss / MILLION;
    const bool is_lost = course->first_loss > 0 && epoch->classes > 1 && is_above && is_guessing(epoch);
    course->lost_steps = is_lost ? course->lost_steps + epoch->steps : 0;
    if (course->lost_steps < COURSE_LOST_STEPS || course->has_warned != 0)
        return false;
    course->has_warned = 1;
    return true;
}

/* ---- as a text ---- */

#define FIELDS 11u

static void fields_of(struct course *course, uint64_t *fields[FIELDS])
{
    uint64_t *const all[FIELDS] = { &course->best_correct, &course->best_images, &course->best_step, &course->stale,
                                    &course->skipped, &course->skipped_in_row, &course->first_loss,
                                    &course->lost_steps, &course->has_warned, &course->rollbacks, &course->rate_last };
    for (size_t i = 0; i < FIELDS; i++)
        fields[i] = all[i];
}

void course_write(const struct course *course, char text_out[COURSE_TEXT_BYTES])
{
    struct course copy = *course;
    uint64_t *fields[FIELDS];
    size_t used = 0;
    fields_of(&copy, fields);
    for (size_t i = 0; i < FIELDS; i++)
        used += (size_t)snprintf(text_out + used, COURSE_TEXT_BYTES - used, "%s%" PRIu64, i > 0 ? " " : "", *fields[i]);
}

static bool is_possible(const struct course *course)
{
    return course->best_correct <= course->best_images && course->skipped_in_row <= course->skipped &&
           course->has_warned <= 1 && course->rollbacks <= COURSE_ROLLBACKS_MAX;
}

int course_read(struct course *course_out, const char *text)
{
    struct course course = { .stale = 0 };
    uint64_t *fields[FIELDS];
    fields_of(&course, fields);
    for (size_t i = 0; i < FIELDS && *text != '\0'; i++) {
        char *end;
        errno = 0;
        *fields[i] = strtoull(text, &end, 10);
        if (errno != 0 || *text < '0' || *text > '9' || (*end != ' ' && *end != '\0'))
            return -EINVAL;
        text = *end == ' ' ? end + 1 : end;
    }
    if (*text != '\0' || !is_possible(&course))
        return -EINVAL;
    *course_out = course;
    return 0;
}
