/* The clock of all durations, CLOCK_MONOTONIC in nanoseconds; the CPU time of a thread; and waits whose duration is
 * measured. */
#ifndef PIPETRAIN_CLOCK_H
#define PIPETRAIN_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
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

/* A time or duration in nanoseconds as a struct timespec, for system calls. */
static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
}

/* Initialise a condition whose timed waits use CLOCK_MONOTONIC, which setting the system time does not change. */
static inline void clock_init_condition(pthread_cond_t *changed)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &clock);
    pthread_condattr_destroy(&clock);
}

/* CPU time of the calling thread since its start. */
static inline uint64_t clock_thread_ns(void)
{
    return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Wait for a signal of `changed` and add the duration to *waited_ns, which `lock` protects. Called with the lock held,
 * in a while loop on the condition. */
static inline void wait_timed(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t *waited_ns)
{
    const uint64_t begun_ns = clock_now_ns();
    pthread_cond_wait(changed, lock);
    *waited_ns += clock_now_ns() - begun_ns;
}

#define CLOCK_NEVER UINT64_MAX

/* The same, until the time until_ns of clock_now_ns at most. Returns whether that is still to come. `changed` was
 * initialised by clock_init_condition. */
static inline bool wait_timed_until(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t until_ns,
                                    uint64_t *waited_ns)
{
    const uint64_t begun_ns = clock_now_ns();
    if (begun_ns >= until_ns)
        return false;
    const struct timespec until = clock_timespec(until_ns);
    if (until_ns == CLOCK_NEVER)
        pthread_cond_wait(changed, lock);
    else
        pthread_cond_timedwait(changed, lock, &until);
    const uint64_t ended_ns = clock_now_ns();
    *waited_ns += ended_ns - begun_ns;
    return ended_ns < until_ns;
}

#endif
