/* Settings of the input pipeline, which to try next, and which of the measured ones is the best. Pure functions. */
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
/* Settings whose images/s differ by less are the same. */
#define TUNE_MEASURABLE 0.02
#define TUNE_MEASURABLE_ONCE 0.1        /* the same after one round */

struct tune_setting {
    uint32_t tower_threads, readers, decoders;  /* threads: devices.threads_per_tower, input.read_threads, ... */
    uint32_t prefetch_depth, staging_depth;
    bool is_cached;                     /* input.source = cached */
};

/* The limits of the search. */
struct tune_space {
    double cores;                       /* that the process may use */
    bool has_cpu_towers;                /* towers compute on these cores; otherwise tower_threads stays */
    uint32_t towers;
    uint32_t default_prefetch_depth, default_staging_depth;
};

struct tune_proposal {
    struct tune_setting setting;
    double gain;                        /* of images/s, expected at most: 0.5 = 50 % */
};

struct tune_candidate {
    struct tune_setting setting;
    bool is_refused;                    /* by the program: it needs more memory than it may use */
    double tried_speed, tried_wait;     /* of its first trial: images/s, share of the towers' time */
    uint64_t planned_bytes;
    uint32_t rounds;                    /* in which it ran in turns with others; 0: none */
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
    uint32_t compared, rounds;          /* candidates that ran in rounds with the first, and the rounds */
    double trial_seconds, round_seconds;        /* of a trial in the search and in the last rounds */
    double gain;                        /* of images/s by the best, measured */
    double towers_alone, input_alone;   /* images/s with the best setting; NAN: not measured */
    bool decoding_is_slower;            /* than reading, with the best setting */
    char verdict[320];                  /* of the run as configured */
    uint32_t stored_side, taken_side;   /* pixels of the short side of images that are stored as files, and after
                                         * resizing or cropping; 0: images are not stored as files */
    double other_load;                  /* share of the cores' time that other programs used; 0: unknown */
    double enough_seconds;              /* a time that would be enough to try others, if there was none */
    double seconds;                     /* that all took */
};

bool tune_same_setting(const struct tune_setting *a, const struct tune_setting *b);
/* The settings to try next, each of which differs from `from` in one respect, those with the largest expected gain
 * first. `measured`: the trial of `from`, whose verdict names what limits it. Returns their number, 0: none promises a
 * measurable gain. */
uint32_t tune_propose(const struct tune_space *space, const struct tune_setting *from,
                      const struct trial_result *measured, struct tune_proposal proposals_out[TUNE_PROPOSALS_MAX]);
/* The keys of a setting with their values, grouped by section: those that differ from `from`, or all if it is NULL.
 * Without CPU towers, devices.threads_per_tower is left out. Returns their number. */
uint32_t tune_changes(const struct tune_setting *setting, const struct tune_setting *from, bool has_cpu_towers,
                      struct config_change changes_out[TUNE_CHANGES_MAX]);

/* Medians of the rounds; without rounds, the values of the first trial. */
double tune_candidate_speed(const struct tune_candidate *candidate);
double tune_candidate_wait(const struct tune_candidate *candidate);
/* Half the range of the rounds, as a share of the median; NAN with less than two rounds. */
double tune_candidate_range(const struct tune_candidate *candidate);

/* The candidates for the next rounds: the configuration as it is, then the fastest others, `most` in all. After a
 * round, only those that took part in it. Returns their number. */
uint32_t tune_finalists(const struct tune_result *result, uint32_t most, uint32_t *finalists_out);
/* Sets best and gain, after all rounds. */
void tune_choose(struct tune_result *result);
/* After tune_choose, and after measuring towers and input alone if there was time. */
enum tune_kind tune_kind_of(const struct tune_result *result);
/* Is the input pipeline alone slower than the towers alone? */
bool tune_lacks_input(const struct tune_result *result);
/* Is the best setting slower than CPU towers alone, because the input pipeline needs cores as well? */
bool tune_lacks_cores(const struct tune_result *result);

#endif
