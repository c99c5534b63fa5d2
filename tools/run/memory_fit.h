/* The batch that would fit, where the one that was asked for does not. Used by main only. */
#ifndef PIPETRAIN_MEMORY_FIT_H
#define PIPETRAIN_MEMORY_FIT_H

#include "tools/run/run_plan.h"

/* A run whose towers compute on the host's memory; all lent. */
struct memory_fit {
    const struct settings *settings;
    const struct run_plan *plan;        /* of the batch that does not fit */
    const struct net *net;
    const struct dataset *const *datasets;
    const struct trainer_needs *needs;  /* of the tower with the largest slice, in that plan */
};

/* The largest batch, but for a hundredth, whose plan takes no more than `there` bytes of the host's memory; 0: there
 * is none. Plans a tower a few times, as the run would, and takes no large memory: tenths of a second. */
uint32_t memory_fit(const struct memory_fit *fit, size_t there);

#endif
