/* Settings of the input pipeline: which to try next, and which of the measured ones is the best. Pure functions. */
#ifndef PIPETRAIN_TUNE_RESULT_H
#define PIPETRAIN_TUNE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/trial/trial_round.h"
#include "tools/tune/config_edit.h"

#define TUNE_ROUNDS_MAX 4u
#define TUNE_CANDIDATES_MAX 32u
#define TUNE_PROPOSALS_MAX 8u
#define TUNE_CHANGES_MAX 6u
/* A smaller difference in images/s is noise: such settings are equally fast. */
#define TUNE_MEASURABLE 0.02
#define TUNE_MEASURABLE_ONCE 0.1        /* as TUNE_MEASURABLE, after only one round */

struct tune_setting {
    /* threads_per_tower, read_threads and decode_threads in the configuration */
    uint32_t tower_threads, readers, decoders;
    uint32_t prefetch_depth, staging_depth;
    bool is_cached;                     /* input.source = cached */
};

/* The limits of the search. */
struct tune_space {
    double cores;                       /* number of cores that the process may use; a quota can make it a fraction */
    bool has_cpu_towers;                /* towers compute on these cores; if false, tower_threads is not changed */
    uint32_t towers;
    uint32_t default_prefetch_depth, default_staging_depth;
};

struct tune_proposal {
    struct tune_setting setting;
    double gain;                        /* expected gain in images/s, at most: 0.5 = 50 % */
};

struct tune_candidate {
    struct tune_setting setting;
    bool is_refused;                    /* the program rejected the setting: it needs more memory than it may use */
    /* in its first trial: images/s, and the share of the towers' time spent waiting for input */
    double tried_speed, tried_wait;
    uint64_t planned_bytes;
    uint32_t rounds;                    /* rounds in which the setting ran, in turns with others; 0: none */
    double speeds[TUNE_ROUNDS_MAX], waits[TUNE_ROUNDS_MAX];
};

enum tune_kind {
    TUNE_UNTRIED,               /* there was no time to try another setting */
    TUNE_FED,                   /* towers do not wait for input, and nothing was faster */
    TUNE_CHANGED,               /* another setting is faster */
    TUNE_DEFICIT,               /* nothing was faster: the input pipeline alone is slower than the towers alone */
    TUNE_SHARED,                /* nothing was faster: towers and input pipeline need more cores than there are */
    TUNE_UNEVEN,                /* nothing was faster, although the input pipeline is fast enough on average */
    TUNE_UNKNOWN                /* nothing was faster, and there was no time to measure why */
};

struct tune_result {
    struct tune_space space;
    struct tune_candidate candidates[TUNE_CANDIDATES_MAX];      /* 0: as configured */
    uint32_t count, best;
    /* number of candidates that were compared in rounds with candidate 0, and the number of rounds */
    uint32_t compared, rounds;
    double trial_seconds, round_seconds;        /* training time of a trial in the search, and in the last rounds */
    double gain;                        /* measured gain of the best setting in images/s: 0.5 = 50 % */
    double towers_alone, input_alone;   /* images/s with the best setting; NAN: not measured */
    bool decoding_is_slower;            /* with the best setting, decoding is slower than reading */
    char verdict[320];                  /* verdict of the run as configured */
    /* Short side, in pixels, of the images that are stored as files, and after resizing or cropping. 0: images are
     * not stored as files. */
    uint32_t stored_side, taken_side;
    double other_load;                  /* share of the cores' time that other programs used; 0: unknown */
    /* if there was no time for other settings: a value of --tune that is long enough */
    double enough_seconds;
    double seconds;                     /* that the whole command took */
};

bool tune_same_setting(const struct tune_setting *a, const struct tune_setting *b);
/* Find the settings to try next, each of which differs from `from` in one respect, the largest expected gain first.
 * `measured`: the trial of `from`, whose verdict names what limits it. Returns their number; 0: no measurable gain
 * is expected. */
uint32_t tune_propose(const struct tune_space *space, const struct tune_setting *from,
                      const struct trial_result *measured, struct tune_proposal proposals_out[TUNE_PROPOSALS_MAX]);
/* Lists the keys of a setting with their values, grouped by section: those that differ from `from`, or all if it is
 * NULL. Without CPU towers, devices.threads_per_tower is left out. Returns their number. */
uint32_t tune_changes(const struct tune_setting *setting, const struct tune_setting *from, bool has_cpu_towers,
                      struct config_change changes_out[TUNE_CHANGES_MAX]);

/* The median of the rounds; without rounds, the value of the first trial. */
double tune_candidate_speed(const struct tune_candidate *candidate);
double tune_candidate_wait(const struct tune_candidate *candidate);
/* Half the range of the rounds, as a share of the median; NAN with less than two rounds. */
double tune_candidate_range(const struct tune_candidate *candidate);

/* Chooses the candidates for the next round: the configuration as it is and the fastest others, `most` in all. After
 * a first round, only candidates that ran in every round are chosen. Returns their number. */
uint32_t tune_finalists(const struct tune_result *result, uint32_t most, uint32_t *finalists_out);
/* Set `best` and `gain`; to be called after all rounds. */
void tune_choose(struct tune_result *result);
/* The kind of the result. To be called after tune_choose and, if there was time, after measuring towers and input
 * alone. */
enum tune_kind tune_kind_of(const struct tune_result *result);
/* Is the input pipeline alone slower than the towers alone? */
bool tune_lacks_input(const struct tune_result *result);
/* Is the best setting slower than CPU towers alone, because the input pipeline needs cores as well? */
bool tune_lacks_cores(const struct tune_result *result);

#endif
