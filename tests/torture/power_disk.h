/* A disk with a folder on it, in memory: what lasts there, and what would be lost without power. power_log.h says what
 * that comes to. */
#ifndef PIPETRAIN_TEST_POWER_DISK_H
#define PIPETRAIN_TEST_POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/torture/op_log.h"
#include "tests/torture/power_log.h"
#include "tests/torture/tree.h"

/* An operation; what it points to is the log's. */
struct op_record { struct op_head head; const char *path, *other, *bytes; };

/* A file's content, whatever its names are. The system gives the number of one that is gone to another. */
struct disk_file {
    uint64_t inode;
    struct content now, synced;
    uint64_t hash[UNSYNCED_COUNT];
    bool has_hash;
};

/* A change of names, in order. */
struct disk_change {
    enum op op;
    const char *path, *other;   /* lent */
    uint32_t file;              /* of OP_CREATE: its place in files */
    bool is_synced;
};

/* A name and what it leads to. */
struct disk_name { const char *path; uint32_t file; bool is_folder; };

struct power_disk {
    struct disk_file *files;
    struct disk_change *changes;
    uint32_t file_count, change_count;
};

void power_disk_init(struct power_disk *disk);
void power_disk_release(struct power_disk *disk);
/* A file or, with content == NULL, a folder that is there and lasts. 0 or -ENOMEM. */
int power_disk_add(struct power_disk *disk, const char *path, uint64_t inode, const struct content *content);
/* Carry out an operation. 0 or -ENOMEM. */
int power_disk_do(struct power_disk *disk, const struct op_record *record);
/* How many changes of names are not synced, at most 64. */
uint32_t power_disk_pending(const struct power_disk *disk);
/* The names that are left where of those only the ones in `chosen` are there: to be freed. NULL for want of memory. */
struct disk_name *power_disk_names(const struct power_disk *disk, uint64_t chosen, uint32_t *count_out);
/* What is left of it: its first bytes, and how many zeros behind them. */
const char *disk_file_left(const struct disk_file *file, enum unsynced unsynced, size_t *bytes_out, size_t *zeros_out);

#endif
