/* The ranks of a run agree, before it begins and at its end: each brings its exit code, the messages that it held
 * (log_hold), and facts that have to be the same everywhere, and rank 0 prints what is to be said, once. Used by main
 * only. `ranks` is NULL in a process without a launcher, which agrees with itself. */
#ifndef PIPETRAIN_STARTUP_CHECK_H
#define PIPETRAIN_STARTUP_CHECK_H

#include "compute/tower.h"
#include "loader/dataset.h"
#include "stage/schedule.h"
#include "sync/ranks/ranks.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run.h"
#include "tools/lib/run/run_devices.h"

/* Hold messages until startup_end; a rank other than 0 prints nothing on stdout from now on. In a process that a
 * launcher started, before ranks are opened. 0, or an exit code after a message. */
int startup_begin(uint32_t rank);

/* Wait for all ranks, and return what all of them return. code: the exit code that this rank would end with; 0: it
 * can go on. facts: lines "key<TAB>value" (startup_report.h); NULL: none. Rank 0 prints; those who held messages
 * continue to. ranks_failure_code when a rank failed meanwhile. */
int startup_check(struct ranks *ranks, int code, const char *facts);

/* The start is over, well or not: print what is still held, and later messages directly. A rank other than 0 prints
 * only errors from now on, with its name. */
void startup_end(const struct ranks *ranks);

/* ---- facts ---- */

/* Facts that have to be the same: program, command and settings, but for the places of input files; with `net`, the
 * model; with `datasets`, the data; with `plan`, devices, instruction sets and, as notes, the versions of libraries.
 * NULL: not yet known. More lines may be appended. 0 and a text to free, or -ENOMEM. */
struct startup_facts {
    enum run_kind kind;
    const struct settings *settings;
    const struct net *net;
    const struct dataset *const *datasets;      /* [PHASE_COUNT], each may be NULL */
    const struct run_devices *plan;
};
int startup_facts_write(const struct startup_facts *facts, char **text_out);
/* Two more, in `text`: hashes of how a tower stores its weights, which are summed as they are stored, and of the
 * weights as the run begins. 0, -ENOMEM, or a negative errno of the device. */
#define STARTUP_WEIGHTS_BYTES 128u
int startup_weights_facts(struct tower *tower, char text[STARTUP_WEIGHTS_BYTES]);
/* Agree on these facts. A rank with a code has none. */
int startup_check_facts(struct ranks *ranks, int code, const struct startup_facts *facts);

#endif
