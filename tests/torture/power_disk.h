/* A simulated disk with a folder: what is durable, and what a power cut would lose, by the model of power_log.h. */
#ifndef PIPETRAIN_TEST_POWER_DISK_H
#define PIPETRAIN_TEST_POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/torture/op_log.h"
#include "tests/torture/power_log.h"
#include "tests/torture/tree.h"

/* An operation. Its strings and bytes belong to the log. */
struct op_record { struct op_head head; const char *path, *other, *bytes; };

/* A file. The system may reuse the inode number of a removed one. */
struct disk_file {
    uint64_t inode;
    struct content now, synced;
    uint64_t hash[UNSYNCED_COUNT];
    bool has_hash;
};

/* A change of a name. */
struct disk_change {
    enum op op;
    const char *path, *other;   /* borrowed */
    uint32_t file;              /* of OP_CREATE: its index in `files` */
    bool is_synced;
};

/* A name and its file. */
struct disk_name { const char *path; uint32_t file; bool is_folder; };

struct power_disk {
    struct disk_file *files;
    struct disk_change *changes;
    uint32_t file_count, change_count;
};

void power_disk_init(struct power_disk *disk);
void power_disk_release(struct power_disk *disk);
/* Add a durable file, or a folder where content == NULL. 0 or -ENOMEM. */
int power_disk_add(struct power_disk *disk, const char *path, uint64_t inode, const struct content *content);
/* Carry out an operation. 0 or -ENOMEM. */
int power_disk_do(struct power_disk *disk, const struct op_record *record);
/* The number of unsynced changes of names, at most 64. */
uint32_t power_disk_pending(const struct power_disk *disk);
/* The names after a cut that keeps only the unsynced changes in `chosen`; the caller frees them. NULL without
 * memory. */
struct disk_name *power_disk_names(const struct power_disk *disk, uint64_t chosen, uint32_t *count_out);
/* The content of a file after a cut: bytes, followed by a number of zeros. */
const char *disk_file_left(const struct disk_file *file, enum unsynced unsynced, size_t *bytes_out, size_t *zeros_out);

#endif
