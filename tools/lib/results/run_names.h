/* Names of run directories. The functions only look at what exists. */
#ifndef PIPETRAIN_RUN_NAMES_H
#define PIPETRAIN_RUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/config/settings.h"

#define RUN_NAMES_MAX 10000     /* runs/NAME-10000 ends the search for a free name */

/* BASE, BASE-2, ... 0 or -ENAMETOOLONG. */
int run_name_numbered(char *path_out, size_t path_size, const char *base, int number);
/* Did the user set run.dir? Otherwise it is made of the run's name. */
bool run_name_was_given(const struct settings *settings);
/* Does run.dir, set by the user, hold a run.conf that was not written by a run? Results would replace it. 0, or a
 * negative errno where it cannot be read. */
int run_name_is_of_others(const struct settings *settings, bool *is_of_others_out);
/* Would a new run replace the results of another one unasked? That is so where the user set run.dir (otherwise the next
 * free name is used), the run there has ended, and run.resume is not `never`. Then problem_out has a message that says
 * what to do. */
bool run_name_is_taken(const struct settings *settings, char *problem_out, size_t problem_size);
/* The largest number of an existing one of runs/NAME, runs/NAME-2, ..., of which some may have been removed. 0: there
 * is none. */
int run_name_count(const struct settings *settings);

/* If the configuration file is the run.conf of a run, and the run's directory was moved or copied, set run.dir to the
 * directory of the file and model.file to the copy of the network there, unless --set has set them. After the file and
 * --set, before settings_finish. 0 or -ENOMEM. */
int run_name_follow(struct settings *settings);
/* Print which keys that changed, if any. */
void run_name_report_followed(const struct settings *settings);

#endif
