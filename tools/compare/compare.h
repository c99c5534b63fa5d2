/* Variants of a configuration, run one after the other in rounds, and what they came to (doc/compare.md). Main only. */
#ifndef PIPETRAIN_COMPARE_H
#define PIPETRAIN_COMPARE_H

#include "tools/compare/axes.h"

enum compare_format { COMPARE_TABLE, COMPARE_CSV, COMPARE_JSON };

struct compare_request {
    const char *config_path;            /* can be read again and again (trial_can_read_again) */
    char **assignments;                 /* of --set, the same for all variants */
    size_t assignment_count;
    bool goes_back;                     /* the configuration goes back to saved states (train.on_nan = rollback) */
    struct axes axes;                   /* two variants at least, AXES_VARIANTS_MAX at most */
    uint32_t threads_per_tower;         /* the same in all variants; 0: as each says */
    uint32_t rounds;                    /* COMPARISON_ROUNDS_MAX at most */
    double seconds;                     /* of training, each time; 0 = the steps decide */
    uint64_t steps;                     /* 0 = the time decides */
    enum compare_format format;
};

/* Check all variants, run each once in every round, print. Progress and messages go to stderr. While signals_hold
 * holds requests to end, which end it at once. The program's exit code. */
int compare(const struct compare_request *request);

#endif
