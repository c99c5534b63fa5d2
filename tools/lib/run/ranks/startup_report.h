/* Rank 0 compares and prints the messages and facts of all ranks (startup_check.h). */
#ifndef PIPETRAIN_STARTUP_REPORT_H
#define PIPETRAIN_STARTUP_REPORT_H

#include <stdint.h>

/* The messages and facts of a rank. All texts are lent. */
struct rank_status {
    const char *name;           /* "rank 2 (node7)" */
    int code;                   /* the exit code of its error; 0: none */
    const char *messages;       /* log messages, in the format of log_take_held */
    uint32_t dropped;           /* messages for which there was no memory */
    const char *facts;          /* lines "key<TAB>value"; NULL: none */
};

/* Print the messages of ranks 0, ..., count - 1: a message of several ranks once, and a message that rank 0 does not
 * have with the names of its ranks. Then compare the facts of ranks without an error with those of rank 0. For each key
 * that differs, print rank 0's value and that of the first rank with another value. Keys that begin with "data " are
 * about input; among them, those that begin with "data hash " are printed only if no other one differs. Differences in
 * keys that begin with "note " are printed, but are no errors. Returns the code of the lowest rank with an error; else
 * EXIT_CODE_USAGE for a difference, or EXIT_CODE_DATA if only input differs; 0: all can start. Must not be called while
 * messages are held. */
int startup_report(const struct rank_status *statuses, uint32_t count);

#endif
