/* Data of all ranks for all ranks. */
#ifndef PIPETRAIN_RANK_GATHER_H
#define PIPETRAIN_RANK_GATHER_H

#include "sync/ranks/ranks.h"

/* Every rank gives `bytes` bytes, the same number in all, and gets those of all ranks in their order. Called by main of
 * all ranks in the start, where MESSAGE_COLLECTIVE is used; waits for them. 0; -ECANCELED when a rank has failed or
 * gave another number; -ENOMEM, after which the run fails. */
int rank_gather(struct ranks *ranks, const void *own, size_t bytes, void *all_out);

#endif
