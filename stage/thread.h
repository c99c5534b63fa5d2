/* A named thread with all signals blocked (only main receives signals). */
#ifndef PIPETRAIN_THREAD_H
#define PIPETRAIN_THREAD_H

#include <stdint.h>

#define THREAD_NICENESS 5       /* thread_lower_priority increases the thread's niceness by this */
#define THREAD_LOW_SHARE (0.8 * 0.8 * 0.8 * 0.8 * 0.8)      /* each step of niceness divides the CPU share by 1.25
                                                             * (sched(7)) */

struct thread;

/* Start `loop(arg)` in a thread with this name (at most 15 characters) and the caller's sink of messages (log.h).
 * Returns 0 or a negative errno. */
int thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg);
/* Wait for the loop to return and release the thread. Accepts NULL. */
void thread_join(struct thread *thread);
/* Bind the calling thread to these CPUs. Does nothing if the system refuses. */
void thread_bind(const uint32_t *cpus, uint32_t count);
/* Lower the priority of the calling thread: on a core that it shares with another thread of the process it gets
 * THREAD_LOW_SHARE times that thread's CPU time. Linux's nice(2) applies to one thread. Does nothing if the system
 * refuses. */
void thread_lower_priority(void);

#endif
