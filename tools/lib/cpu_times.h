/* How the CPUs that a process may run on spent their time, from /proc/stat. */
#ifndef PIPETRAIN_CPU_TIMES_H
#define PIPETRAIN_CPU_TIMES_H

#include <sched.h>
#include <stdint.h>

/* In ticks, summed over the CPUs. stolen: the host of this virtual machine ran other guests instead. */
struct cpu_times { uint64_t busy, stolen, all; };

/* The times since the machine was booted: the use in an interval is the difference of two. All 0 if they are unknown.
 * `root`: the folder that contains /proc, "" except in tests. */
struct cpu_times cpu_times_read(const char *root, const cpu_set_t *cpus);

/* The CPU time used so far by this process, and by everything on the CPUs that it may run on. */
struct cores_seen {
    struct cpu_times cpus;
    double own_seconds;
    uint64_t at_ns;
    uint32_t count;
    double quota;               /* CPU time per wall time that its control groups permit; INFINITY: no limit */
    uint64_t periods, throttled;        /* of the control group (limits.h) */
};
struct cores_seen cores_look(void);

/* How the time of these CPUs, or the time that the control groups permit, was used between two calls of cores_look:
 * shares of this process, of other programs, and stolen; the rest was idle. NAN if it is unknown, or the interval is
 * too short. */
struct cores_use {
    double own, others, stolen;
    double throttled;           /* share of the periods in which the control group's quota was used up; 0: none */
};
struct cores_use cores_use(const struct cores_seen *before, const struct cores_seen *after);

#endif
