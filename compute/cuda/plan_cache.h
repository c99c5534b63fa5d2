/* What planning found out about a device, for later runs, and turns at measuring. Used from the towers' threads while
 * plans are made.
 *
 * The plan cache is a folder with a file per plan, named KIND-HASH.plan after the hash of the key, which says all that
 * the plan depends on. A file has three lines, the last without a newline: the key, the hash of the plan in
 * hexadecimal, the plan. It appears by a rename. A damaged or missing file is not an error: the plan is made again. */
#ifndef PIPETRAIN_PLAN_CACHE_H
#define PIPETRAIN_PLAN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* The undamaged plan for the key, freed by the caller; false: there is none. */
bool plan_cache_load(const char *folder, const char *kind, const char *key, char **plan_out, size_t *bytes_out);
/* A failure is logged once per process, and is no error. */
void plan_cache_store(const char *folder, const char *kind, const char *key, const char *plan, size_t bytes);
void plan_cache_drop(const char *folder, const char *kind, const char *key);

/* Writes the driver, the architecture and the name of the current device, on which plans depend. 0 or a negative errno
 * (logged). */
int plan_cache_device(const char *name, char *text, size_t text_size);

/* Towers are opened in parallel, but only one measures at a time, so that nothing else runs on a shared device and the
 * other towers find the chosen plan in the cache. Processes that share the cache, such as ranks, take turns by locking
 * its folder; the lock is released when its process ends. A process that holds the lock for 30 s is waited for only
 * once. If `cache` is NULL, only the towers of this process take turns. plan_turn_begin returns the
 * value that plan_turn_end needs. */
int plan_turn_begin(const char *cache);
void plan_turn_end(int turn);

#endif
