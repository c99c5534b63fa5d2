/* What tuning measured and found; what the table, the picture and the advice are made of. */
#ifndef PIPETRAIN_TUNE_OUTCOME_H
#define PIPETRAIN_TUNE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/tune/feed_model.h"
#include "tools/tune/search.h"

#define TUNE_ROUNDS_MAX 9u
#define TUNE_CANDIDATES_MAX (SEARCH_FOUND_MAX + 2)
/* Below this share of images/s two settings are the same. */
#define TUNE_MEASURABLE 0.02
#define TUNE_MEASURABLE_ONCE 0.1        /* the same where there was but one round */

struct candidate {
    struct feed_setting setting;
    bool is_cached;                     /* and input.source = cached, which the configuration has not */
    struct feed_prediction predicted;
    uint32_t rounds;                    /* that were measured; 0: none */
    double speeds[TUNE_ROUNDS_MAX];     /* images/s */
    double waits[TUNE_ROUNDS_MAX];      /* shares of the towers' time, for input and its copies */
    uint64_t planned_bytes;
    bool is_refused;                    /* --check refuses it: it needs more memory than there may be */
};

enum tune_kind {
    TUNE_UNTRIED,               /* nothing was run */
    TUNE_FED,                   /* towers do not wait for input */
    TUNE_SPREAD,                /* the feed is fast enough on average; depth takes up the rest */
    TUNE_DEPTH,                 /* it is not, and yet another depth helps */
    TUNE_CACHED,                /* shards that are kept in memory */
    TUNE_THREADS,               /* other numbers of threads are enough */
    TUNE_BOTH,                  /* other numbers of threads, and another depth */
    TUNE_DEFICIT,               /* no setting is: the feed is slower than the towers */
    TUNE_SHARED,                /* towers compute on the cores that decode: both together need more of them */
    TUNE_UNEVEN                 /* the feed is fast enough on average, and no depth was measurably better */
};

struct tune_outcome {
    struct feed_model model;
    struct search_space space;
    struct search_result search;
    struct candidate candidates[TUNE_CANDIDATES_MAX];   /* the first is the configuration as it is */
    uint32_t count, best;               /* best: an index */
    uint32_t rounds;                    /* that all of them ran; 0: there was no time for one */
    double enough_seconds;              /* that would have been enough for some rounds */
    double trial_seconds;               /* of each */
    enum tune_kind kind;
    double wanted;                      /* images/s of the towers alone, with the best's threads */
    double given;                       /* images/s of the feed alone with the configuration's threads */
    uint32_t stored_side, taken_side;   /* pixels of the short side of images that are files, and of what the network
                                         * takes of them; 0: images are no files */
    double drain_steps;                 /* until the best's full queues are empty; INFINITY where they stay filled */
    double gain;                        /* of images/s by the best, measured: 0.1 = 10 % */
    double others;                      /* share of the cores' time that other programs took; 0: unknown */
    double seconds;                     /* that all took */
};

double candidate_speed(const struct candidate *candidate);     /* median of its rounds; NAN without */
double candidate_wait(const struct candidate *candidate);
/* Half of what its rounds differ by, as a share of the median. */
double candidate_range(const struct candidate *candidate);
/* Is the feed alone, with the best's threads, slower than the towers alone? */
bool outcome_lacks_input(const struct tune_outcome *outcome);
/* Or are they, together on the same cores, slower than the towers alone, as far as it was measured? */
bool outcome_lacks_cores(const struct tune_outcome *outcome);
/* Choose the best of what was measured, and say what kind of limit there was. After all rounds. 0 or -ENOMEM. */
int outcome_judge(struct tune_outcome *outcome);

#endif
