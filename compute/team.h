/* Parallel loops on the OpenMP team of the calling tower's thread, which oneDNN uses, too; in a build without OpenMP
 * on the calling thread alone. Used by the host backends and the host reductions. */
#ifndef PIPETRAIN_TEAM_H
#define PIPETRAIN_TEAM_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/device.h"

/* Processes the range [first, end); `member` < threads is the number of the thread. */
typedef void (*team_work)(void *arg, uint32_t member, size_t first, size_t end);

/* Set the size of the teams of the calling thread, pipetrain's and oneDNN's. */
void team_size(uint32_t threads);
/* The same, and start the threads. 0; -EAGAIN or -ENOMEM when the system cannot start so many, in which case OpenMP
 * would abort the process; or -EAGAIN when OpenMP starts fewer, with which oneDNN would compute wrongly. */
int team_start(uint32_t threads);
/* The number of threads in each of `teams` teams that compute at the same time, when `threads` are requested: fewer if
 * environment variables limit OpenMP; 0 if the system cannot start so many. Starts the teams and ends them. */
uint32_t team_try(uint32_t teams, uint32_t threads);
/* Bind the calling thread, and the threads that it starts, to the CPUs `cpus` or, if these are NULL, to those that the
 * device prefers. Then call team_start, unless threads is 0. */
int team_start_bound(struct device *device, const uint32_t *cpus, uint32_t cpu_count, uint32_t threads);
/* Does OpenMP bind its threads to places, as environment variables can request? Then *cpus_out is set to the CPUs of
 * all places. */
bool team_is_bound(cpu_set_t *cpus_out);
/* Split [0, count) into at most `threads` ranges, which start at multiples of `grain` and differ by at most one
 * grain, and process them in parallel; returns when all are done. The split depends only on the arguments. */
void team_run(uint32_t threads, size_t count, size_t grain, team_work work, void *arg);

#endif
