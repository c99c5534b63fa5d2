/* Durations as people write them. Pure functions, any thread. */
#ifndef PIPETRAIN_DURATION_H
#define PIPETRAIN_DURATION_H

#include <stdint.h>

#define DURATION_MAX_NUMBER INT64_C(1000000000)

/* What stands behind a number: the seconds of one of it (" minutes", " min", "h"); 0: it is a number of steps ("",
 * " steps"); -1: nothing of these. */
int64_t duration_unit(const char *text);
/* "90 minutes", "1 hour", "30s" in seconds; 0: it is none of these. */
uint64_t duration_seconds(const char *text);

#endif
