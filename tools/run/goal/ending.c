/* Ends that are asked for. */
#include "tools/run/goal/ending.h"

#include <inttypes.h>
#include <stdio.h>

bool ending_needs_evaluations(const struct train_settings *train)
{
    return train->stop_at > 0 || train->patience > 0;
}

enum ending ending_of_course(const struct train_settings *train, const struct course *course)
{
    if (course->best_images == 0)
        return ENDING_NONE;
    if (train->stop_at > 0 && course_best(course) >= train->stop_at)
        return ENDING_STOP_AT;
    return train->patience > 0 && course->stale >= (uint64_t)train->patience ? ENDING_PATIENCE : ENDING_NONE;
}

enum ending ending_of_time(const struct train_settings *train, uint64_t elapsed_ns)
{
    const bool is_over = train->max_seconds > 0 && elapsed_ns / UINT64_C(1000000000) >= train->max_seconds;
    return is_over ? ENDING_MAX_TIME : ENDING_NONE;
}

const char *ending_key(enum ending ending)
{
    static const char *const keys[ENDING_COUNT] = { [ENDING_NONE] = "", [ENDING_STOP_AT] = "stop_at",
                                                    [ENDING_PATIENCE] = "patience", [ENDING_MAX_TIME] = "max_time" };
    return keys[ending];
}

void ending_tell(enum ending ending, const struct train_settings *train, const struct course *course, char *words,
                 size_t words_size)
{
    const double best = 100 * course_best(course);
    if (ending == ENDING_STOP_AT)
        snprintf(words, words_size, "validation accuracy %.2f %% reaches train.stop_at (%g %%)", best,
                 100 * train->stop_at);
    else if (ending == ENDING_PATIENCE)
        snprintf(words, words_size, "%" PRIu64 " evaluation%s without a better validation accuracy than %.2f %% at "
                                    "step %" PRIu64 " (train.patience)",
                 course->stale, course->stale == 1 ? "" : "s", best, course->best_step);
    else if (ending == ENDING_MAX_TIME)
        snprintf(words, words_size, "its time is over (train.max_time %s)", train->max_time);
    else
        *words = '\0';
}
