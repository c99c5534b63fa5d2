/* The memory and processor time that the control groups of this process leave to it: containers and services are
 * limited by these, and what the kernel calls available knows nothing of that. */
#ifndef PIPETRAIN_CGROUP_H
#define PIPETRAIN_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* Bytes the process may still take before a group it is in, or one above, is over its limit; file
 * pages that can be dropped count as free. SIZE_MAX where there is no limit, or none that can be
 * read. Version 2 (memory.max) and version 1 (memory.limit_in_bytes), mounted where they usually
 * are. `root` is the folder /proc and /sys are in: "" but for tests. Any thread. */
size_t cgroup_memory_left(const char *root);

/* The tightest limit of processor time among the group the process is in and those above. */
struct cgroup_cpu {
    double cpus;                /* CPUs' worth of time in every period; INFINITY where there is no limit */
    uint64_t periods, throttled;        /* of that group since it was made: all, and those that ended it early */
};
/* Version 2 (cpu.max) and version 1 (cpu.cfs_quota_us); root as above. Any thread. */
struct cgroup_cpu cgroup_cpu(const char *root);

#endif
