/* Small file systems in memory, visible to this process and its children only. They need no privileges, but a system
 * that allows user namespaces. */
#ifndef PIPETRAIN_TEST_DISK_H
#define PIPETRAIN_TEST_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Does this system allow it? Tested in a child process. */
bool disk_is_possible(void);
/* Let this process, which has one thread, mount file systems. 0 or a negative errno. */
int disk_enter(void);
/* Mount an empty file system of `bytes` bytes on an existing folder. 0 or a negative errno. */
int disk_mount(const char *path, uint64_t bytes);
int disk_make_read_only(const char *path);
void disk_unmount(const char *path);

#endif
