/* Loops of ours on the threads oneDNN uses too: an OpenMP team of the calling tower's
 * thread, or the calling thread alone in a build without OpenMP. */
#ifndef PIPETRAIN_TEAM_H
#define PIPETRAIN_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "stage/device.h"

/* The range [first, end) of what is to be done; `member` < threads names the thread. */
typedef void (*team_work)(void *arg, uint32_t member, size_t first, size_t end);

/* Teams begun from the calling thread, ours and oneDNN's, have `threads` members. */
void team_size(uint32_t threads);
/* The same, and the members are there when it returns. 0, or -EAGAIN or -ENOMEM when the system has no room for
 * so many threads: OpenMP would end the process. */
int team_start(uint32_t threads);
/* The thread that is to compute on the device, and those it begins, are bound to the CPUs, or, without any (NULL), to
 * where the device wants them; then, unless threads is 0, team_start. */
int team_start_bound(struct device *device, const uint32_t *cpus, uint32_t cpu_count, uint32_t threads);
/* Split [0, count) into at most `threads` ranges that begin at multiples of `grain` and
 * differ by at most one grain, and do them; returns when all are done. The split
 * depends on the arguments only. */
void team_run(uint32_t threads, size_t count, size_t grain, team_work work, void *arg);

#endif
