/* The folder that a set of shards is in or comes into: its lock, its entries, the names of shards in it. Called by
 * main. */
#ifndef PIPETRAIN_SET_FOLDER_H
#define PIPETRAIN_SET_FOLDER_H

#include <stdbool.h>

#include "stage/stop.h"

struct set_folder {
    const char *path;           /* lent */
    int fd;                     /* -1: not open */
    const char *advice;         /* what messages of failures end with; "" for nothing */
    struct stop *stop;
};

/* Open the folder and lock it against another pipetrain-convert; where the file system has no locks that is said, and
 * goes on. 0, or a negative errno after stop_fail, -EWOULDBLOCK where another one has it. set_folder_close in
 * both cases. */
int set_folder_open(struct set_folder *folder, const char *path, struct stop *stop);
/* Accepts one that could not be opened. */
void set_folder_close(struct set_folder *folder);

/* Say that `name` in it could not be treated so ("rename to"), and return -error. */
int set_folder_fail(const struct set_folder *folder, const char *what, const char *name, int error);
/* Call `look` for every entry until one is not 0, and return that; or a negative errno after stop_fail. */
int set_folder_visit(const struct set_folder *folder,
                     int (*look)(const struct set_folder *folder, const char *name, void *arg), void *arg);
/* Remove a file, if it is there. 0, or a negative errno after stop_fail. */
int set_folder_remove(const struct set_folder *folder, const char *name);
/* Give a file another name, in the place of what has that. 0, or a negative errno after stop_fail. */
int set_folder_rename(const struct set_folder *folder, const char *name, const char *new_name);
/* Wait until all names are on the disk. 0, or a negative errno after stop_fail. */
int set_folder_sync(const struct set_folder *folder);

/* Whether a shard of some set that pipetrain-convert writes has this name, or this one while it is written. */
bool set_folder_is_shard(const char *name);
bool set_folder_is_temporary_shard(const char *name);

#endif
