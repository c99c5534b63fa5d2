/* The startup check: before each part of the start all ranks synchronise, and continue only if none has an error and
 * all have the same configuration. Every rank sends its exit code, its log messages, which are held until then
 * (log_hold), and facts that must be equal. Rank 0 compares them and prints them once for all. Used by main only. In a
 * process without a launcher `ranks` is NULL, and its own code counts. */
#ifndef PIPETRAIN_STARTUP_CHECK_H
#define PIPETRAIN_STARTUP_CHECK_H

#include "compute/tower.h"
#include "loader/dataset.h"
#include "stage/schedule.h"
#include "sync/ranks/ranks.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run.h"
#include "tools/lib/run/run_devices.h"

/* Hold log messages until startup_end. In a rank other than 0, stdout becomes /dev/null. Called in a process that a
 * launcher started, before ranks are opened. 0, or an exit code after a message. */
int startup_begin(uint32_t rank);

/* Synchronise with all ranks. `code`: the exit code of this rank's error, or 0. `facts`: lines "key<TAB>value"
 * (startup_report.h), or NULL. Returns the same code in all ranks, 0 if all can continue, or ranks_failure_code if a
 * rank failed meanwhile. Log messages stay held. */
int startup_check(struct ranks *ranks, int code, const char *facts);

/* Called when the start has ended, with or without an error: print the held messages, and later ones directly. From now
 * on a rank other than 0 prints only errors, with its name. */
void startup_end(const struct ranks *ranks);

/* ---- facts ---- */

/* The facts that must be equal in all ranks: program, command and settings, except for paths of input files; the model
 * (`net`), the data (`datasets`), devices and instruction sets (`plan`). NULL: not known yet. */
struct startup_facts {
    enum run_kind kind;
    const struct settings *settings;
    const struct net *net;
    const struct dataset *const *datasets;      /* [PHASE_COUNT], each may be NULL */
    const struct run_devices *plan;
    uint64_t class_weights;     /* run_plan.class_weights_hash */
};
/* Write the facts as text, to which lines may be appended. 0 and a text that the caller frees, or -ENOMEM. */
int startup_facts_write(const struct startup_facts *facts, char **text_out);
/* Append two facts: a hash of the order in which a tower stores its weights, because gradients are summed in that
 * order, and a hash of the initial weights. 0, -ENOMEM, or a negative errno of the device. */
#define STARTUP_WEIGHTS_BYTES 128u
int startup_weights_facts(struct tower *tower, char text[STARTUP_WEIGHTS_BYTES]);
/* Call startup_check with these facts, which are written only if `code` is 0. */
int startup_check_facts(struct ranks *ranks, int code, const struct startup_facts *facts);

#endif
