/* Names of run directories. The functions change no files. */
#ifndef PIPETRAIN_RUN_NAMES_H
#define PIPETRAIN_RUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/config/settings.h"

#define RUN_NAMES_MAX 10000     /* the search for a free name ends with runs/NAME-10000 */

/* Write the name with a number: BASE, BASE-2, ... 0 or -ENAMETOOLONG. */
int run_name_numbered(char *path_out, size_t path_size, const char *base, int number);
/* Did the user set run.dir? Otherwise it is derived from the run's name. */
bool run_name_was_given(const struct settings *settings);
/* Find a file in run.dir, set by the user, that was not written by a run, and that results would replace: a run.conf;
 * or, without one, lines or a description of a network. *file_out is its name, or NULL. 0, or a negative errno if
 * run.conf cannot be read. */
int run_name_find_others(const struct settings *settings, const char **file_out);
/* Would a new run replace the results of another one without being asked to? That is so if the user set run.dir
 * (otherwise the next free name is used), the run there has ended, and run.resume is not `never`. problem_out then
 * contains a message with advice. */
bool run_name_is_taken(const struct settings *settings, char *problem_out, size_t problem_size);
/* The largest number of the existing directories runs/NAME, runs/NAME-2, ..., of which some may have been removed. 0:
 * there is none. */
int run_name_count(const struct settings *settings);

/* If the configuration file is the run.conf of a run, and the run's directory was moved or copied, set run.dir to the
 * directory of the file and model.file to the copy of the network there, unless --set has set them. Called after the
 * file and --set, before settings_finish. 0 or -ENOMEM. */
int run_name_follow(struct settings *settings);
/* Print the keys that run_name_follow has changed, if any. */
void run_name_report_followed(const struct settings *settings);

#endif
