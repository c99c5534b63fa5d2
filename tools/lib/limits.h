/* Limits of memory and CPU time that are independent of the machine's free memory: those of the process (ulimit) and of
 * its control groups, which limit containers and services. */
#ifndef PIPETRAIN_LIMITS_H
#define PIPETRAIN_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- of the process: ulimit -s, -v, -d, -n ---- */

/* Called first in main, before any thread: give stacks the size that the program needs, if the limit permits it, and
 * touch main's stack; permit as many open files as the system allows. If the address space is limited, let all threads
 * allocate from one arena of malloc, as each further arena reserves address space. From now on, when a library in C++ runs
 * out of memory, the process ends with a message. 0, or -ENOMEM after a message. */
int limits_prepare(void);

/* Bytes that can still be mapped; SIZE_MAX: there is no limit, or it cannot be read. */
struct limits_left {
    size_t address_space;       /* RLIMIT_AS: all mappings */
    size_t data;                /* RLIMIT_DATA: private writable mappings, with the stacks of threads */
};

/* The current values. Any thread. */
struct limits_left limits_left(void);
/* Check that this process may open `more` more files. 0, or -EMFILE after a message with the limit that it needs. Main,
 * at the start. */
int limits_check_files(size_t more);
/* The bytes of each of the two limits (struct limits_left) that a new thread uses. */
size_t limits_thread_bytes(void);

/* ---- of control groups, version 1 and 2, mounted at the usual place ---- */

/* `root`: the folder that contains /proc and /sys, "" except in tests. Any thread. */

/* Bytes that the process can still allocate before one of its groups exceeds its limit; file pages that can be dropped
 * count as free. SIZE_MAX: there is no limit, or it cannot be read. */
size_t cgroup_memory_left(const char *root);

/* The tightest limit of CPU time among the groups of the process. */
#define GROUP_NAME_BYTES 96
struct cgroup_cpu {
    double cpus;                /* CPU time per wall time; INFINITY: no limit */
    /* Periods of that group since it was created: all, and those in which it hit the limit. */
    uint64_t periods, throttled;
    uint64_t id;                /* identifies the group in all processes of the machine; 0: none */
    char name[GROUP_NAME_BYTES];        /* its folder; a long path is cut at the front */
};
struct cgroup_cpu cgroup_cpu(const char *root);
/* The number of `cpus` CPUs that can be busy in the time that a group permits. A fraction of a CPU counts as one,
 * because one thread more still computes faster than one fewer, although the group stops all of them together. At least
 * 1. */
uint32_t cgroup_cores(double quota, uint32_t cpus);
/* The number of CPUs in the process' affinity, or fewer if a group limits their time. */
uint32_t limits_cores(void);

#endif
