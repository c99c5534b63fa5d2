/* The messages and facts of the ranks of a run (startup_check.h), compared and printed by rank 0. */
#ifndef PIPETRAIN_STARTUP_REPORT_H
#define PIPETRAIN_STARTUP_REPORT_H

#include <stdint.h>

/* All lent. */
struct rank_status {
    const char *name;           /* "rank 2 (node7)" */
    int code;                   /* the exit code that the rank would end with; 0: it can start */
    const char *messages;       /* as log_take_held gives them */
    uint32_t dropped;
    const char *facts;          /* lines "key<TAB>value"; NULL: none */
};

/* Print the messages of ranks 0 ... count - 1, equal ones of several ranks once; those that rank 0 does not have with
 * the ranks that have them. Compare the facts of ranks without a code with those of rank 0, and print the differences.
 * Keys that begin with "data " are about input, of which those with "data hash " are printed only where no other one
 * differs; those that begin with "note " may differ, which is only mentioned. Returns the code of the lowest rank that
 * has one, else EXIT_CODE_USAGE or, where only input differs, EXIT_CODE_DATA; 0: all can start. Not while messages are
 * held. */
int startup_report(const struct rank_status *parts, uint32_t count);

#endif
