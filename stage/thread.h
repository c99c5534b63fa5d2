/* A named thread with all signals blocked (only main gets signals). */
#ifndef PIPETRAIN_THREAD_H
#define PIPETRAIN_THREAD_H

#include <stdint.h>

#define THREAD_WAY 5            /* steps of niceness by which a thread gives way */
#define THREAD_WAY_WEIGHT (0.8 * 0.8 * 0.8 * 0.8 * 0.8)    /* of each, 1.25 times less of a core (sched(7)) */

struct thread;

/* Start `loop(arg)` in a thread shown as `name` (at most 15 characters).
 * Returns 0 or a negative errno. */
int thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg);
/* Wait for the loop to return and release the thread. Accepts NULL. */
void thread_join(struct thread *thread);
/* The calling thread runs on these CPUs from now on, where the system lets it. */
void thread_bind(const uint32_t *cpus, uint32_t count);
/* The calling thread gives way from now on to the process's others where cores are short: on a core that both want it
 * gets THREAD_WAY_WEIGHT times what they get. Only it, not the process (nice(2), on Linux). Where the system refuses,
 * nothing changes. */
void thread_give_way(void);

#endif
