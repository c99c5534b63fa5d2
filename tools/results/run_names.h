/* Names of run directories. Pure functions but for looking at what is there. */
#ifndef PIPETRAIN_RUN_NAMES_H
#define PIPETRAIN_RUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/config/settings.h"

#define RUN_NAMES_MAX 10000     /* runs/NAME-10000 ends the search for a free name */

/* BASE, BASE-2, ... 0 or -ENAMETOOLONG. */
int run_name_numbered(char *path_out, size_t path_size, const char *base, int number);
/* Was run.dir given, and not made of the run's name? */
bool run_name_was_given(const struct settings *settings);
/* Does the directory that was named by hand hold a run.conf that no run wrote? Results would take its place. 0, or a
 * negative errno where it cannot be read. */
int run_name_is_of_others(const struct settings *settings, bool *is_of_others_out);
/* Would a new run replace the results of another one without being told to? Only where run.dir was given (else it takes
 * the next free name), the run there has come to an end, and run.resume = never does not tell it to. With what may be
 * done instead in problem_out. */
bool run_name_is_taken(const struct settings *settings, char *problem_out, size_t problem_size);
/* How many of runs/NAME, runs/NAME-2, ... are there, one behind the other. */
int run_name_count(const struct settings *settings);

#endif
