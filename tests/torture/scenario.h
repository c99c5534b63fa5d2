/* What is tried: commands with a folder of files to begin from, and what may be found in the folder
 * afterwards. A new program of the tree is a row here. */
#ifndef PIPETRAIN_TEST_SCENARIO_H
#define PIPETRAIN_TEST_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/torture/child.h"

struct scenario {
    const char *name;
    const char *program;            /* in the build folder */
    const char *arguments[12];
    const char *begun;              /* its folder is where the same command with this option was; NULL: it was not */
    bool is_endless;                /* it lasts until it is told to end; what it leaves depends on when */
    bool has_earlier;               /* it begins where a run was, as one with `kept` does */
    bool changes_nothing;           /* it leaves its folder as it was */
    bool waits_for_reader;          /* of its output, as a filter does */
    bool has_teams;                 /* its towers have several threads each */
    bool catches;                   /* it ends by itself when a signal asks it to */
    bool outlasts_power;            /* what it leaves is whole, and it goes on, wherever the power was cut */
    const char *results;            /* the folder it writes to; NULL: none */
    /* Files of which the folder holds one as it was before, where there was one, whatever happens; NULL: none. */
    const char *kept, *kept_later;
};

extern const struct scenario scenarios[];
extern const uint32_t scenario_count;

/* The folders tries are copied from and compared with. */
struct stand {
    const char *build, *work;       /* absolute */
    const char *faults;             /* what is loaded into tried processes */
    const char *only;               /* the one scenario that is tried; NULL: all */
    bool refuses_teams;             /* the thread sanitizer does not see how OpenMP's threads wait for each other */
};

/* Whether a scenario can be tried. */
bool stand_allows(const struct stand *stand, const struct scenario *scenario);
/* Run every scenario that is tried once as it should be: WORK/begin/NAME is the folder before, WORK/done/NAME
 * after; *took_us gets how long each took. 0, or a negative errno with a message on stderr. */
int stand_prepare(const struct stand *stand, uint64_t *took_us);
void stand_folder(const struct stand *stand, const char *kind, const char *name, char *path_out, size_t path_size);
/* The command with its program's path; valid until the next call. */
char *const *stand_command(const struct stand *stand, const struct scenario *scenario);

#endif
