/* What may be on the disk when the power fails: every state of a folder that the system may leave of what a process did
 * to it, by what was made to last (fsync) and what was not. The model:
 *
 * - What was written to a file lasts from its fsync on. Until then the file may be as it was at the last one, as it is
 *   now, cut in the middle of what is new, or as long as it is now with zeros in the place of what is new.
 * - A name that was made, changed or removed lasts from the fsync of its folder on. Until then the names are as behind
 *   any number of their changes in order, which is what file systems with a journal leave; or, which POSIX allows, but
 *   one of the changes is missing, or alone is there. */
#ifndef PIPETRAIN_TEST_POWER_LOG_H
#define PIPETRAIN_TEST_POWER_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* What was written and not synced. */
enum unsynced { UNSYNCED_LOST, UNSYNCED_WRITTEN, UNSYNCED_TORN, UNSYNCED_ZEROS, UNSYNCED_COUNT };

struct power_cut {
    uint32_t ops;               /* that were done */
    uint64_t names;             /* bit i: the i-th of the changes of names that are not synced then is there */
    bool in_order;              /* as a journal leaves them */
    enum unsynced unsynced;
};

struct power_log;

/* Look at the folder before the process is started, which then notes what it does in a file (recorder.c). NULL for want
 * of memory. */
struct power_log *power_log_open(const char *folder);
void power_log_close(struct power_log *log);
/* Read the file behind the process' end. 0 or a negative errno. */
int power_log_read(struct power_log *log, const char *path);
uint32_t power_log_ops(const struct power_log *log);
/* Every state of the folder once, those in order first, until visit does not return 0, which is what this returns; or
 * -ENOMEM. */
int power_log_visit(const struct power_log *log, int (*visit)(void *arg, const struct power_cut *cut), void *arg);
/* Make a folder that is as the cut leaves it. 0 or a negative errno. */
int power_log_write(const struct power_log *log, const struct power_cut *cut, const char *folder);

#endif
