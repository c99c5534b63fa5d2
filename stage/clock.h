/* The clock of all durations, CLOCK_MONOTONIC in nanoseconds; the processor time of a thread; and waits that are
 * timed. */
#ifndef PIPETRAIN_CLOCK_H
#define PIPETRAIN_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Processor time of the calling thread since its start. */
static inline uint64_t clock_thread_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Wait for a signal of `changed` and add the time it took to *waited_ns, which the lock protects. Called with the
 * lock held, in a while loop on the condition. */
static inline void wait_timed(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t *waited_ns)
{
    const uint64_t begun_ns = clock_now_ns();
    pthread_cond_wait(changed, lock);
    *waited_ns += clock_now_ns() - begun_ns;
}

#endif
