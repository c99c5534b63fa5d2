/* The keys of a setting that runs, as --set takes them. */
#ifndef PIPETRAIN_ASSIGNMENTS_H
#define PIPETRAIN_ASSIGNMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/tune/outcome.h"

#define ASSIGNMENTS_KEYS 5u
#define ASSIGNMENT_BYTES 48u

struct assignments {
    char texts[ASSIGNMENTS_KEYS][ASSIGNMENT_BYTES];
    const char *own[ASSIGNMENTS_KEYS + 1];      /* into texts */
    size_t count;
};

/* All of the candidate's, threads of towers only where `sets_threads`. The struct must not be moved meanwhile. */
void assignments_make(struct assignments *assignments, const struct candidate *candidate, bool sets_threads);

#endif
