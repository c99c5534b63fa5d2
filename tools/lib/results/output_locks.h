/* Locks of outputs outside the run's directory, which prevent two runs from writing one file at the same time. The lock
 * files are in the folders of the outputs and are removed at the end of the run. Used by main only. */
#ifndef PIPETRAIN_OUTPUT_LOCKS_H
#define PIPETRAIN_OUTPUT_LOCKS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/config/settings.h"
#include "tools/lib/results/lock_file.h"

#define OUTPUT_LOCKS_MAX 3u

struct output_lock {
    struct lock_file file;
    int folder_fd;
    char folder[PATH_MAX];
    char name[NAME_MAX + 1];    /* name of the lock file */
    size_t made;                /* as set by folders_make */
};

struct output_locks { struct output_lock locks[OUTPUT_LOCKS_MAX]; size_t count; };

/* Lock report.trace and, for a run with a directory (NULL: none), report.prometheus and the folder of
 * report.tensorboard, which is created. only_tries: nothing is created or written. Outputs that cannot be written are
 * reported by the observers, not here. 0, or a negative errno with a message in problem_out: another run is writing one
 * of the outputs, its lock file cannot be used as one, or (-ENOTUNIQ) two outputs, or an output and a result of the
 * run, have the same path. Call output_locks_close in any case. */
int output_locks_open(struct output_locks *locks, const struct settings *settings, const char *directory,
                      bool only_tries, char *problem_out, size_t problem_size);
/* Accepts a struct of zeros. */
void output_locks_close(struct output_locks *locks);

#endif
