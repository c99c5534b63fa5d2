/* How the CPUs that a process may run on spent their time, by /proc/stat: in ticks, all of them together. */
#ifndef PIPETRAIN_CPU_TIMES_H
#define PIPETRAIN_CPU_TIMES_H

#include <sched.h>
#include <stdint.h>

struct cpu_times { uint64_t busy, stolen, all; };       /* stolen: the host of a virtual machine gave it to others */

/* Since the machine's start, so that the difference of two counts. All 0 where it is not known. `root`: the folder that
 * /proc is in, "" but for tests. */
struct cpu_times cpu_times_read(const char *root, const cpu_set_t *cpus);

/* What this process and the CPUs that it may run on did, until now. */
struct cores_seen { struct cpu_times cpus; double own_seconds; uint64_t at_ns; uint32_t count; };
struct cores_seen cores_look(void);

/* Shares of these CPUs' time between two looks: what the process used, what other programs used, and what was stolen;
 * the rest was idle. NAN where that is not known, or where it was too short. */
struct cores_use { double own, others, stolen; };
struct cores_use cores_use(const struct cores_seen *before, const struct cores_seen *after);

#endif
