/* The memory that the control groups of this process leave to it: containers and services are
 * limited by these, and what the kernel calls available knows nothing of that. */
#ifndef PIPETRAIN_CGROUP_H
#define PIPETRAIN_CGROUP_H

#include <stddef.h>

/* Bytes the process may still take before a group it is in, or one above, is over its limit; file
 * pages that can be dropped count as free. SIZE_MAX where there is no limit, or none that can be
 * read. Version 2 (memory.max) and version 1 (memory.limit_in_bytes), mounted where they usually
 * are. `root` is the folder /proc and /sys are in: "" but for tests. Any thread. */
size_t cgroup_memory_left(const char *root);

#endif
