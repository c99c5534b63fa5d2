/* How a run of several ranks ends: together, after rank 0 has written all results, with one exit code unless a rank
 * failed. */
#ifndef PIPETRAIN_SHUTDOWN_H
#define PIPETRAIN_SHUTDOWN_H

#include "sync/ranks/ranks.h"
#include "tools/lib/run/run_state.h"

/* Every rank brings its exit code, and whether its run failed there (stop_failed); rank 0 also *back, the checkpoint to
 * go back to, which all others get; there is none after a rank has failed. Waits until rank 0 is here, too, and all
 * output of this process is written. The exit code of this rank: its own if its run failed; else that of rank 0, or
 * ranks_failure_code where that is a failure of that process alone, which this rank does not have. `ranks` NULL: the
 * code. Main only. */
int shutdown_agree(struct ranks *ranks, int code, bool has_failed, struct run_back *back);

#endif
