/* Reads summary.json of an earlier run, which identifies a run without a checkpoint. */
#ifndef PIPETRAIN_EARLIER_RUN_H
#define PIPETRAIN_EARLIER_RUN_H

#include <stdint.h>

struct earlier_run {
    char *identity;             /* as in the metadata of checkpoints; owned */
    char ended[24];             /* "finished", "stop_at", ... */
    uint64_t steps, epochs;     /* epochs: also one that was not completed */
    uint64_t best_step;         /* of the best evaluation; 0: there was none */
};

/* 0; -ENOENT: no run has ended there, it did not train on data, or its version stored no identity; or -ENOMEM. */
int earlier_run_read(struct earlier_run *run_out, const char *directory);
void earlier_run_release(struct earlier_run *run);

#endif
