/* Scenarios: a command, the folder in which it starts, and the files that it may leave there. Every program of the tree
 * has a row. */
#ifndef PIPETRAIN_TEST_SCENARIO_H
#define PIPETRAIN_TEST_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/torture/child.h"

struct scenario {
    const char *name;
    const char *program;            /* in the build folder */
    const char *arguments[12];
    const char *begun;              /* the same command ran in its folder before, with this option; NULL: it did not */
    bool is_endless;                /* it runs until a signal ends it; its results depend on the time */
    bool has_earlier;               /* its folder has data and an earlier run, as with `kept` */
    bool changes_nothing;           /* it writes no files */
    bool waits_for_reader;          /* it blocks until its output is read, like a filter */
    bool has_teams;                 /* its towers have several threads each */
    bool catches;                   /* it handles signals that ask it to end */
    bool ends_with_reader;          /* SIGPIPE ends it once its results, if any, are complete: only lines are lost */
    bool outlasts_power;            /* after a power cut at any time its files are whole, and it continues */
    const char *results;            /* the folder it writes to; NULL: none */
    /* An earlier result, which stays under one of these names whatever happens; NULL: none. */
    const char *kept, *kept_later;
};

extern const struct scenario scenarios[];
extern const uint32_t scenario_count;

/* Where the programs are, and the folders that trials start from and are compared with. */
struct stand {
    const char *build, *work;       /* absolute */
    const char *faults;             /* the library that is preloaded into programs */
    const char *only;               /* the only scenario to run; NULL: all */
    bool refuses_teams;             /* scenarios with OpenMP, whose synchronisation the thread sanitizer does not see */
};

/* Can the scenario be run? */
bool stand_allows(const struct stand *stand, const struct scenario *scenario);
/* Run every scenario once, undisturbed: WORK/begin/NAME is its folder before, WORK/done/NAME after. took_us: the time
 * that each took. 0, or a negative errno with a message on stderr. */
int stand_prepare(const struct stand *stand, uint64_t *took_us);
void stand_folder(const struct stand *stand, const char *kind, const char *name, char *path_out, size_t path_size);
/* The command with its program's path; valid until the next call. */
char *const *stand_command(const struct stand *stand, const struct scenario *scenario);

#endif
