/* What may be on the disk after a power cut: every state in which the system may leave a folder, depending on what a
 * process wrote there and what it synced. The model:
 *
 * - Written bytes are durable once their file is synced. Before that, the file may be as it was at the last fsync, as
 *   it is now, cut in the middle of the new bytes, or of its present length with zeros in place of the new bytes.
 * - A created, changed or removed name is durable once its folder is synced. Before that, the first changes may be
 *   there and the later ones not, as file systems with a journal leave them; or, as POSIX permits, all but one, or only
 *   one. */
#ifndef PIPETRAIN_TEST_POWER_LOG_H
#define PIPETRAIN_TEST_POWER_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* What becomes of bytes that were not synced. */
enum unsynced { UNSYNCED_LOST, UNSYNCED_WRITTEN, UNSYNCED_TORN, UNSYNCED_ZEROS, UNSYNCED_COUNT };

struct power_cut {
    uint32_t ops;               /* operations before the cut */
    uint64_t names;             /* bit i: the i-th unsynced change of a name is there */
    bool in_order;              /* as a journal leaves them */
    enum unsynced unsynced;
};

struct power_log;

/* Read the folder before the process starts, which then logs its operations in a file (recorder.c). NULL without
 * memory. */
struct power_log *power_log_open(const char *folder);
void power_log_close(struct power_log *log);
/* Read that file after the process has ended. 0 or a negative errno. */
int power_log_read(struct power_log *log, const char *path);
uint32_t power_log_ops(const struct power_log *log);
/* Call `visit` once for every distinct state of the folder, those in order first, until it returns something other than
 * 0, which is returned. -ENOMEM without memory. */
int power_log_visit(const struct power_log *log, int (*visit)(void *arg, const struct power_cut *cut), void *arg);
/* Create a folder in the state after the cut. 0 or a negative errno. */
int power_log_write(const struct power_log *log, const struct power_cut *cut, const char *folder);

#endif
