/* Settings proposed from the verdict of a trial, and the choice of the best one from the rounds. */
#include "tools/tune/tune_result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READERS_MAX 16u
#define PREFETCH_MAX 32u
#define STAGING_MAX 8u
#define ENOUGH 0.95             /* at this share of the towers' speed, the input is fast enough: the rest is noise */
#define FED 0.01                /* towers that wait for a smaller share of their time do not need faster input */
#define HOPELESS 0.9            /* settings below this share of the speed as configured get no round */
/* readers wait for files if they are busy for more than this share and compute for less */
#define WAITING 0.5
#define ALL_BUSY 0.9            /* all cores are busy from this share of their time on */
/* Expected gains, as shares of the gain if towers never waited: at least NAMED for the limit that the verdict names;
 * MAIN and MINOR for other limits. */
#define NAMED 0.6
#define MAIN 0.5
#define MINOR 0.2

static const struct { const char *section, *key; size_t offset; } keys[] = {
    { "input", "prefetch_depth", offsetof(struct tune_setting, prefetch_depth) },
    { "input", "staging_depth", offsetof(struct tune_setting, staging_depth) },
    { "input", "read_threads", offsetof(struct tune_setting, readers) },
    { "input", "decode_threads", offsetof(struct tune_setting, decoders) },
    { "devices", "threads_per_tower", offsetof(struct tune_setting, tower_threads) },
};
#define KEY_COUNT (sizeof(keys) / sizeof(*keys))

static uint32_t value_of(const struct tune_setting *setting, size_t key)
{
    return *(const uint32_t *)((const char *)setting + keys[key].offset);
}

bool tune_same_setting(const struct tune_setting *a, const struct tune_setting *b)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (value_of(a, i) != value_of(b, i))
            return false;
    return a->is_cached == b->is_cached;
}

uint32_t tune_changes(const struct tune_setting *setting, const struct tune_setting *from, bool has_cpu_towers,
                      struct config_change changes_out[TUNE_CHANGES_MAX])
{
    uint32_t count = 0;
    if (setting->is_cached && (from == NULL || !from->is_cached))
        changes_out[count++] = (struct config_change){ "input", "source", "cached" };
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const bool is_fixed = !has_cpu_towers && strcmp(keys[i].section, "devices") == 0;
        if (is_fixed || (from != NULL && value_of(setting, i) == value_of(from, i)))
            continue;
        struct config_change *const change = &changes_out[count++];
        *change = (struct config_change){ keys[i].section, keys[i].key, "" };
        snprintf(change->value, sizeof(change->value), "%" PRIu32, value_of(setting, i));
    }
    return count;
}

/* ---- proposals ---- */

struct search {
    const struct tune_space *space;
    const struct tune_setting *from;
    const struct trial_result *measured;
    double wait;                        /* share of the towers' time */
    double fed_gain;                    /* gain in speed if towers never waited: 0.5 = 50 % */
    double idle_cores;
    struct tune_proposal *proposals;    /* sorted, the largest gain first */
    uint32_t count;
};

static void propose(struct search *search, struct tune_setting setting, double gain)
{
    uint32_t at = search->count;
    if (!(gain >= TUNE_MEASURABLE) || tune_same_setting(&setting, search->from))
        return;
    for (; at > 0 && search->proposals[at - 1].gain < gain; at--)
        search->proposals[at] = search->proposals[at - 1];
    search->proposals[at] = (struct tune_proposal){ setting, gain };
    search->count++;
}

/* The gain that the verdict predicts if it names this limit; else `share` of the gain if towers never waited. */
static double expected(const struct search *search, const char *limit, double share)
{
    const double promised = search->measured->limit_gain;
    if (strcmp(search->measured->limit, limit) != 0)
        return share * search->fed_gain;
    return isfinite(promised) ? fmax(promised, NAMED * search->fed_gain) : search->fed_gain;
}

/* The number of threads that would keep the towers busy: at least one more than now. */
static uint32_t threads_wanted(const struct search *search, uint32_t threads, double busy, uint32_t most)
{
    const double wanted = ceil(threads * (isfinite(busy) ? busy : 1) / fmax(1 - search->wait, 0.01));
    return (uint32_t)fmax(fmin(fmax(wanted, threads + 1), most), threads);
}

/* Threads that wait for files need no core, so their number is rounded up to a power of two as a reserve. */
static void propose_readers(struct search *search)
{
    struct tune_setting setting = *search->from;
    const uint32_t most = setting.readers > READERS_MAX ? setting.readers : READERS_MAX;
    const uint32_t wanted = threads_wanted(search, setting.readers, search->measured->values.feed.busy.readers, most);
    uint32_t readers = 1;
    while (readers < wanted)
        readers *= 2;
    setting.readers = readers < most ? readers : most;
    propose(search, setting, expected(search, "reading", MINOR * search->measured->values.feed.busy.readers));
}

static bool waits_for_files(const struct trial_result *measured)
{
    return measured->values.feed.busy.readers > WAITING && measured->values.run.reading_computed < WAITING;
}

static void propose_cached(struct search *search)
{
    struct tune_setting setting = *search->from;
    setting.is_cached = true;
    if (waits_for_files(search->measured))
        propose(search, setting, 0.9 * expected(search, "reading", MINOR));
}

/* Decoders compute, so more decoders than cores are useless; if all cores are busy, more decoders take time from the
 * towers, and fewer may be faster. */
static void propose_decoders(struct search *search)
{
    struct tune_setting setting = *search->from;
    const uint32_t cores = (uint32_t)fmax(search->space->cores, 1);
    const bool are_all_busy = search->idle_cores < (1 - ALL_BUSY) * search->space->cores;
    const double gain = expected(search, "decoding", MINOR * search->measured->values.feed.busy.decoders);
    if (setting.decoders < cores) {
        setting.decoders = threads_wanted(search, setting.decoders, search->measured->values.feed.busy.decoders, cores);
        propose(search, setting, are_all_busy ? fmin(gain, MAIN * search->fed_gain) : gain);
    }
    if (search->from->decoders > 1 && search->space->has_cpu_towers && are_all_busy) {
        setting.decoders = search->from->decoders / 2;
        propose(search, setting, TUNE_MEASURABLE);
    }
}

static uint32_t deeper(uint32_t depth, uint32_t factor, uint32_t usual, uint32_t most)
{
    const uint32_t wanted = depth * factor > usual ? depth * factor : usual;
    return depth >= most ? depth : wanted < most ? wanted : most;
}

static void propose_depth(struct search *search)
{
    const struct tune_space *const space = search->space;
    struct tune_setting setting = *search->from;
    setting.prefetch_depth = deeper(setting.prefetch_depth, 4, space->default_prefetch_depth, PREFETCH_MAX);
    setting.staging_depth = deeper(setting.staging_depth, 1, space->default_staging_depth, STAGING_MAX);
    propose(search, setting, expected(search, "bursts", MINOR));
    setting = *search->from;
    setting.staging_depth = deeper(setting.staging_depth, 2, space->default_staging_depth, STAGING_MAX);
    propose(search, setting, expected(search, "copying", MINOR / 2));
}

/* Fewer threads, so that the input pipeline gets cores of its own; or more threads, on idle cores. */
static void propose_tower_threads(struct search *search)
{
    const struct tune_space *const space = search->space;
    const struct fractions *const share = &search->measured->values.share;
    struct tune_setting setting = *search->from;
    const uint32_t now = setting.tower_threads;
    const uint32_t most = (uint32_t)fmax(space->cores / space->towers, 1);
    if (!space->has_cpu_towers)
        return;
    setting.tower_threads = now / 2;
    if (now > 1)
        propose(search, setting, fmax(MAIN * search->fed_gain, 2 * TUNE_MEASURABLE));
    setting.tower_threads = 2 * now < most ? 2 * now : most;
    const double computing = share->forward + share->backward;
    const double extra = fmin(search->idle_cores / (now * space->towers), 1);
    if (now < most)
        propose(search, setting, fmax(computing * extra, 2 * TUNE_MEASURABLE));
}

uint32_t tune_propose(const struct tune_space *space, const struct tune_setting *from,
                      const struct trial_result *measured, struct tune_proposal proposals_out[TUNE_PROPOSALS_MAX])
{
    const struct cores_use *const cores = &measured->values.run.cores;
    const double wait = trial_input_wait(measured), used = cores->own + cores->others + cores->stolen;
    struct search search = { .space = space, .from = from, .measured = measured, .wait = wait,
                             .fed_gain = wait < 0.99 ? 1 / (1 - wait) - 1 : 99,
                             .idle_cores = isfinite(used) ? fmax(1 - used, 0) * space->cores : 0,
                             .proposals = proposals_out };
    propose_tower_threads(&search);
    if (wait < FED)
        return search.count;
    propose_readers(&search);
    propose_cached(&search);
    propose_decoders(&search);
    propose_depth(&search);
    return search.count;
}

/* ---- the choice ---- */

double tune_candidate_speed(const struct tune_candidate *candidate)
{
    return candidate->rounds > 0 ? spread_of(candidate->speeds, candidate->rounds).median : candidate->tried_speed;
}

double tune_candidate_wait(const struct tune_candidate *candidate)
{
    return candidate->rounds > 0 ? spread_of(candidate->waits, candidate->rounds).median : candidate->tried_wait;
}

double tune_candidate_range(const struct tune_candidate *candidate)
{
    const struct spread spread = spread_of(candidate->speeds, candidate->rounds);
    return candidate->rounds > 1 ? (spread.most - spread.least) / 2 / spread.median : NAN;
}

uint32_t tune_finalists(const struct tune_result *result, uint32_t most, uint32_t *finalists_out)
{
    const struct tune_candidate *const all = result->candidates;
    uint32_t count = 1;
    finalists_out[0] = 0;
    for (uint32_t i = 1; i < result->count; i++) {
        const double speed = tune_candidate_speed(&all[i]);
        const bool is_full = count == most;
        if (all[i].is_refused || all[i].rounds < result->rounds || speed < HOPELESS * tune_candidate_speed(&all[0]) ||
            (is_full && tune_candidate_speed(&all[finalists_out[most - 1]]) >= speed))
            continue;
        uint32_t at = is_full ? most - 1 : count++;
        for (; at > 1 && tune_candidate_speed(&all[finalists_out[at - 1]]) < speed; at--)
            finalists_out[at] = finalists_out[at - 1];
        finalists_out[at] = i;
    }
    return count;
}

/* Speeds are compared within each round, so a machine that becomes slower between rounds does not change the gain. */
static double gain_over(const struct tune_candidate *candidate, const struct tune_candidate *now)
{
    double gains[TUNE_ROUNDS_MAX];
    const uint32_t rounds = candidate->rounds < now->rounds ? candidate->rounds : now->rounds;
    for (uint32_t i = 0; i < rounds; i++)
        gains[i] = candidate->speeds[i] / now->speeds[i] - 1;
    return rounds > 0 ? spread_of(gains, rounds).median : -1;
}

static uint32_t thread_count(const struct tune_setting *setting)
{
    return setting->readers + setting->decoders;
}

/* Faster in every round, or much faster in all but one, or much faster in the only one: noise rarely does that. */
static bool is_sure(const struct tune_candidate *candidate, const struct tune_candidate *now)
{
    const bool is_much = gain_over(candidate, now) > TUNE_MEASURABLE_ONCE;
    uint32_t won = 0;
    for (uint32_t i = 0; i < candidate->rounds && i < now->rounds; i++)
        won += candidate->speeds[i] > now->speeds[i];
    return candidate->rounds > 1 ? won + (is_much && candidate->rounds > 2) >= candidate->rounds : is_much;
}

/* Chooses the fastest setting; of equally fast ones, that with the fewest threads. */
void tune_choose(struct tune_result *result)
{
    const struct tune_candidate *const now = &result->candidates[0];
    result->best = 0;
    result->gain = 0;
    for (uint32_t i = 1; i < result->count; i++) {
        const struct tune_candidate *const candidate = &result->candidates[i];
        const struct tune_setting *const best = &result->candidates[result->best].setting;
        const double gain = gain_over(candidate, now);
        const bool is_alike = fabs(gain - result->gain) < TUNE_MEASURABLE / 2 && result->best > 0;
        if (gain < TUNE_MEASURABLE || !is_sure(candidate, now) ||
            (is_alike ? thread_count(&candidate->setting) >= thread_count(best) : gain < result->gain))
            continue;
        result->best = i;
        result->gain = gain;
    }
}

bool tune_lacks_input(const struct tune_result *result)
{
    return result->input_alone < ENOUGH * result->towers_alone;
}

bool tune_lacks_cores(const struct tune_result *result)
{
    const double speed = tune_candidate_speed(&result->candidates[result->best]);
    return result->space.has_cpu_towers && speed < ENOUGH * result->towers_alone;
}

enum tune_kind tune_kind_of(const struct tune_result *result)
{
    const struct tune_candidate *const now = &result->candidates[0];
    if (result->enough_seconds > 0)
        return TUNE_UNTRIED;
    if (result->best > 0)
        return TUNE_CHANGED;
    if (tune_lacks_input(result))
        return TUNE_DEFICIT;
    if (tune_lacks_cores(result))
        return TUNE_SHARED;
    if (tune_candidate_wait(now) < FED)
        return TUNE_FED;
    return isnan(result->towers_alone) ? TUNE_UNKNOWN : TUNE_UNEVEN;
}
