/* Small file systems in memory, which only this process and its children see: no rights are needed,
 * but the system has to allow user namespaces. */
#ifndef PIPETRAIN_TEST_DISK_H
#define PIPETRAIN_TEST_DISK_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this system allows it; tried in a process of its own. */
bool disk_is_possible(void);
/* From now on this process, which has one thread, may mount. 0 or a negative errno. */
int disk_enter(void);
/* An empty file system of so many bytes on an existing folder. 0 or a negative errno. */
int disk_mount(const char *path, uint64_t bytes);
int disk_make_read_only(const char *path);
/* With all that is in it. */
void disk_unmount(const char *path);

#endif
