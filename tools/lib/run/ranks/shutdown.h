/* The end of a run of several ranks: all exit after rank 0 has written all results, and with the same exit code unless
 * a rank has failed. */
#ifndef PIPETRAIN_SHUTDOWN_H
#define PIPETRAIN_SHUTDOWN_H

#include "sync/ranks/ranks.h"
#include "tools/lib/run/run_state.h"

/* Called by main of every rank with its exit code, and whether its run failed (stop_failed). Waits until all output of
 * this process is written and rank 0 has called this function, too. *back of rank 0, the checkpoint to roll back to, is
 * copied to all others; after a failure of a rank it is empty. Returns the exit code of this rank: its own if its run
 * failed; else that of rank 0, or ranks_failure_code if rank 0's code is about a failure of that process alone. If
 * `ranks` is NULL: `code`. */
int shutdown_agree(struct ranks *ranks, int code, bool has_failed, struct run_back *back);

#endif
