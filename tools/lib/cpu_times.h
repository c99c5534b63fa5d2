/* What the CPUs that a process may run on spent their time on, from /proc/stat. */
#ifndef PIPETRAIN_CPU_TIMES_H
#define PIPETRAIN_CPU_TIMES_H

#include <sched.h>
#include <stdint.h>

/* In ticks, summed over the CPUs. stolen: a virtual machine's host gave the time to others. */
struct cpu_times { uint64_t busy, stolen, all; };

/* Since the machine was booted: take the difference of two. All 0 where it is unknown. `root`: the folder that contains
 * /proc, "" but for tests. */
struct cpu_times cpu_times_read(const char *root, const cpu_set_t *cpus);

/* The time used until now by this process and by the CPUs that it may run on. */
struct cores_seen {
    struct cpu_times cpus;
    double own_seconds;
    uint64_t at_ns;
    uint32_t count;
    double quota;               /* CPUs whose time its control groups permit; INFINITY: no limit */
    uint64_t periods, throttled;        /* of the control group (limits.h) */
};
struct cores_seen cores_look(void);

/* Shares of the time of these CPUs, or of those that the control groups permit, between two calls of cores_look: used
 * by the process, by other programs, and stolen; the rest was idle. NAN where it is unknown, or the interval too
 * short. */
struct cores_use {
    double own, others, stolen;
    double throttled;           /* share of the periods in which the control group's quota was used up; 0: none */
};
struct cores_use cores_use(const struct cores_seen *before, const struct cores_seen *after);

#endif
