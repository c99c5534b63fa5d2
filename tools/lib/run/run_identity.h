/* The identity of a run: the settings and data that decide what it computes, by which it recognizes its checkpoints, as
 * a text that these and summary.json contain. Main thread only. */
#ifndef PIPETRAIN_RUN_IDENTITY_H
#define PIPETRAIN_RUN_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "tools/lib/run/run_plan.h"

/* Lines "section.key = value", each with its end. */
struct run_identity {
    char *text;
    size_t decisive_bytes;      /* of the text; with other lines after that, it is still the same run */
};

/* The first differences between two identities: "train.momentum is 0.8, there 0.9; ...". */
struct run_differences { uint32_t count; char words[700]; };

/* Write the identity of a run as it was planned. 0 or -ENOMEM. */
int run_identity_make(struct run_identity *identity_out, const struct settings *settings, const struct run_plan *plan,
                      const struct dataset *const *datasets);
/* Accepts one that is all 0. */
void run_identity_release(struct run_identity *identity);
/* The value of a key in the text, up to the end of its line; NULL: it has no such line. */
const char *run_identity_value(const char *text, const char *key);
/* Is `theirs`, the text of a checkpoint or a summary, of another run? A line that it lacks, because an earlier version
 * wrote it, has the default of its option, unless the option's row says otherwise. */
bool run_identity_differs(const struct run_identity *identity, const char *theirs, struct run_differences *differences);
/* Does it differ in what may change? */
bool run_identity_has_changes(const struct run_identity *identity, const char *theirs,
                              struct run_differences *differences);
/* Did the run of the text begin with other weights than those that model.weights names now? */
bool run_identity_has_other_weights(const struct run_identity *identity, const char *theirs);
/* Take over the hash of the weights that the run of the text began with. */
void run_identity_keep_weights(struct run_identity *identity, const char *theirs);

#endif
