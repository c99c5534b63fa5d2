/* pipetrain --tune: measure what towers need and what the feed's stages give, search settings by a model of the feed,
 * run the best ones, say what to set (doc/tuning.md). Main only. */
#ifndef PIPETRAIN_TUNE_H
#define PIPETRAIN_TUNE_H

#include <stdbool.h>
#include <stddef.h>

#define TUNE_SECONDS_LEAST 10.0

struct tune_request {
    const char *config_path;            /* can be read again and again (trial_can_read_again) */
    char **assignments;                 /* of --set */
    size_t assignment_count;
    double seconds;                     /* all of it, at most; TUNE_SECONDS_LEAST or more */
    size_t ram_budget;                  /* of the configuration; 0: none of its own */
    bool goes_back;                     /* the configuration goes back to saved states (train.on_nan = rollback) */
    bool is_cached;                     /* the configuration keeps its shards in memory (input.source = cached) */
    bool writes;                        /* what it recommends goes into the configuration */
};

/* Progress and messages go to stderr, what was found to stdout. While signals_hold holds requests to end, which end
 * it at once. The program's exit code. */
int tune(const struct tune_request *request);

#endif
