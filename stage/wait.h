/* The one way of waiting for a condition: timed, so that every wait can be accounted for.
 * Called in a while loop on the condition, with the lock held. */
#ifndef PIPETRAIN_WAIT_H
#define PIPETRAIN_WAIT_H

#include <pthread.h>

#include "stage/clock.h"

/* Wait for a signal and add the time it took to *waited_ns, which the lock protects. */
static inline void wait_timed(pthread_cond_t *changed, pthread_mutex_t *lock, uint64_t *waited_ns)
{
    const uint64_t begun_ns = clock_now_ns();
    pthread_cond_wait(changed, lock);
    *waited_ns += clock_now_ns() - begun_ns;
}

#endif
