/* From rounds to a choice. */
#include "tools/tune/outcome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 400u
#define ENOUGH 0.95             /* of what is wanted, within what can be measured */
#define FED 0.01                /* share of waiting that nothing has to be done about */

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(const double *values, uint32_t count)
{
    double sorted[TUNE_ROUNDS_MAX];
    if (count == 0)
        return NAN;
    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), compare_doubles);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double candidate_speed(const struct candidate *candidate)
{
    return median(candidate->speeds, candidate->rounds);
}

double candidate_wait(const struct candidate *candidate)
{
    return median(candidate->waits, candidate->rounds);
}

double candidate_range(const struct candidate *candidate)
{
    double least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < candidate->rounds; i++) {
        least = fmin(least, candidate->speeds[i]);
        most = fmax(most, candidate->speeds[i]);
    }
    return candidate->rounds > 1 ? (most - least) / 2 / candidate_speed(candidate) : NAN;
}

/* Round by round, so that a machine that becomes slower between rounds changes nothing. */
static double gain_over(const struct candidate *candidate, const struct candidate *now)
{
    double gains[TUNE_ROUNDS_MAX];
    const uint32_t rounds = candidate->rounds < now->rounds ? candidate->rounds : now->rounds;
    for (uint32_t i = 0; i < rounds; i++)
        gains[i] = candidate->speeds[i] / now->speeds[i] - 1;
    return rounds > 0 ? median(gains, rounds) : -1;
}

static uint32_t threads_of(const struct feed_setting *setting)
{
    return setting->readers + setting->decoders;
}

/* Faster in every round, or by far in every round but one, or in one round by far: what noise does not do often. */
static bool is_sure(const struct candidate *candidate, const struct candidate *now)
{
    const bool is_far = gain_over(candidate, now) > TUNE_MEASURABLE_ONCE;
    uint32_t won = 0;
    for (uint32_t i = 0; i < candidate->rounds && i < now->rounds; i++)
        won += candidate->speeds[i] > now->speeds[i];
    return candidate->rounds > 1 ? won + (is_far && candidate->rounds > 2) >= candidate->rounds : is_far;
}

/* The fastest; of those that are as fast the one with the fewest threads. */
static void choose(struct tune_outcome *outcome)
{
    outcome->best = 0;
    outcome->gain = 0;
    for (uint32_t i = 1; i < outcome->count; i++) {
        const struct candidate *const candidate = &outcome->candidates[i];
        const double gain = candidate->is_refused ? -1 : gain_over(candidate, &outcome->candidates[0]);
        const bool is_alike = fabs(gain - outcome->gain) < TUNE_MEASURABLE / 2 && outcome->best > 0;
        const struct feed_setting *const best = &outcome->candidates[outcome->best].setting;
        if (gain < TUNE_MEASURABLE || !is_sure(candidate, &outcome->candidates[0]) ||
            (is_alike ? threads_of(&candidate->setting) >= threads_of(best) : gain < outcome->gain))
            continue;
        outcome->best = i;
        outcome->gain = gain;
    }
}

/* What the feed gives when nobody computes. */
static int feed_alone(const struct tune_outcome *outcome, const struct feed_setting *setting, double *speed_out)
{
    struct feed_model model = outcome->model;
    struct feed_prediction prediction;
    for (uint32_t i = 0; i < model.step_kinds; i++)
        model.step[i].count = 0;
    const int rc = feed_predict(&model, setting, STEPS, &prediction);
    *speed_out = prediction.images_per_second;
    return rc;
}

bool outcome_lacks_input(const struct tune_outcome *outcome)
{
    return outcome->given < ENOUGH * outcome->wanted;
}

bool outcome_lacks_cores(const struct tune_outcome *outcome)
{
    return outcome->model.steps_on_cores &&
           candidate_speed(&outcome->candidates[outcome->best]) < ENOUGH * outcome->wanted;
}

static enum tune_kind kind_of(const struct tune_outcome *outcome)
{
    const struct candidate *const now = &outcome->candidates[0], *const best = &outcome->candidates[outcome->best];
    const bool is_same_depth = now->setting.ring == best->setting.ring && now->setting.slots == best->setting.slots;
    const bool is_same_threads = now->setting.readers == best->setting.readers &&
                                 now->setting.decoders == best->setting.decoders &&
                                 now->setting.threads == best->setting.threads;
    if (outcome->rounds == 0)
        return TUNE_UNTRIED;
    if (best->is_cached)
        return TUNE_CACHED;
    if (outcome->best > 0)
        return !is_same_threads ? is_same_depth ? TUNE_THREADS : TUNE_BOTH
               : outcome_lacks_input(outcome) ? TUNE_DEPTH : TUNE_SPREAD;
    if (outcome_lacks_input(outcome))
        return TUNE_DEFICIT;
    if (outcome_lacks_cores(outcome))
        return TUNE_SHARED;
    return candidate_wait(now) < FED ? TUNE_FED : TUNE_UNEVEN;
}

int outcome_judge(struct tune_outcome *outcome)
{
    choose(outcome);
    const struct feed_setting *const best = &outcome->candidates[outcome->best].setting;
    const int rc = feed_alone(outcome, best, &outcome->given);
    const double step = feed_step_seconds(&outcome->model, best->threads);
    outcome->wanted = step > 0 ? outcome->model.batch / step : INFINITY;
    outcome->kind = kind_of(outcome);
    const double missing = 1 - outcome->given / outcome->wanted;
    outcome->drain_steps = missing > 0 ? (best->ring + best->slots) / missing : INFINITY;
    return rc;
}
