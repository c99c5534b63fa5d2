/* The identity of a run: a text with the settings and data that determine its results. A run recognizes its checkpoints
 * by this text, which they and summary.json contain. Main thread only. */
#ifndef PIPETRAIN_RUN_IDENTITY_H
#define PIPETRAIN_RUN_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "tools/lib/run/run_plan.h"

/* Lines "section.key = value", each with a line end. */
struct run_identity {
    char *text;
    /* The bytes of the text that must be equal; lines after them may differ in the same run. */
    size_t decisive_bytes;
};

/* The number of differences between two identities, and a text with the first ones: "train.momentum is 0.8, there 0.9;
 * ...". */
struct run_differences { uint32_t count; char words[700]; };

/* Write the identity of a run as it was planned. 0 or -ENOMEM. */
int run_identity_make(struct run_identity *identity_out, const struct settings *settings, const struct run_plan *plan,
                      const struct dataset *const *datasets);
/* Accepts a struct of zeros. */
void run_identity_release(struct run_identity *identity);
/* The value of a key in the text, which ends at the line end; NULL: there is no such line. */
const char *run_identity_value(const char *text, const char *key);
/* Is `theirs`, the text of a checkpoint or a summary, of another run? If it lacks a line, because an earlier version
 * wrote it, the default of the option is assumed, unless the option's row says otherwise. */
bool run_identity_differs(const struct run_identity *identity, const char *theirs, struct run_differences *differences);
/* Does `theirs` differ in lines that may differ in the same run? */
bool run_identity_has_changes(const struct run_identity *identity, const char *theirs,
                              struct run_differences *differences);
/* Did the run of `theirs` begin with other weights than those in the file model.weights now? */
bool run_identity_has_other_weights(const struct run_identity *identity, const char *theirs);
/* Copy the hash of the initial weights from `theirs`. */
void run_identity_keep_weights(struct run_identity *identity, const char *theirs);

#endif
