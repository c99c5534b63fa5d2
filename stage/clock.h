/* The one clock of durations: CLOCK_MONOTONIC in nanoseconds. */
#ifndef PIPETRAIN_CLOCK_H
#define PIPETRAIN_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
