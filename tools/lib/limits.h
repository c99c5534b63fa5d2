/* Limits that the machine's free memory does not show: those of the process (ulimit) and of its control groups, which
 * limit containers and services. */
#ifndef PIPETRAIN_LIMITS_H
#define PIPETRAIN_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- of the process: ulimit -s, -v, -d, -n ---- */

/* First in main, before any thread: give stacks the size that the program needs, where the limit permits, and touch
 * main's. With a limited address space, let threads share one malloc arena. A C++ library that gets no memory ends the
 * process with a message. 0, or -ENOMEM after a message. */
int limits_prepare(void);

/* Bytes that may still be mapped; SIZE_MAX: there is no limit, or it cannot be read. */
struct limits_left {
    size_t address_space;       /* RLIMIT_AS: all mappings */
    size_t data;                /* RLIMIT_DATA: private writable ones, with the stacks of threads */
};

/* Now. Any thread. */
struct limits_left limits_left(void);
/* May this process open so many more files? 0, or -EMFILE after a message that names the limit it needs. Main, at the
 * start. */
int limits_check_files(size_t more);
/* What a thread that is started from now on takes of both limits. */
size_t limits_thread_bytes(void);

/* ---- of control groups, version 1 and 2, mounted at the usual place ---- */

/* `root` is the folder that contains /proc and /sys: "" but for tests. Any thread. */

/* Bytes the process may still allocate before one of its groups exceeds its limit; file pages that can be dropped count
 * as free. SIZE_MAX: there is no limit, or it cannot be read. */
size_t cgroup_memory_left(const char *root);

/* The tightest limit of CPU time among the groups of the process. */
#define GROUP_NAME_BYTES 96
struct cgroup_cpu {
    double cpus;                /* CPU time per wall time; INFINITY: no limit */
    uint64_t periods, throttled;        /* of that group since it was created: all, and those that hit the limit */
    uint64_t id;                /* of the group, the same for all processes of the machine; 0: none */
    char name[GROUP_NAME_BYTES];        /* its folder, cut in front */
};
struct cgroup_cpu cgroup_cpu(const char *root);
/* How many of `cpus` CPUs can be busy in the time that a group permits: a part of a CPU counts as one, because a thread
 * more still computes faster than one fewer, and the group stops all of them together. At least 1. */
uint32_t cgroup_cores(double quota, uint32_t cpus);
/* The CPUs of the process' affinity, or fewer where a group limits their time. */
uint32_t limits_cores(void);

#endif
