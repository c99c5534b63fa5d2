/* Ranks on the same host wake each other's communication threads. Every rank has a flag in shared memory
 * (rank_memory.h) for each of its threads, on which the thread sleeps by a futex. A rank that has written to shared
 * memory or sent a message wakes the reader, so the reader need not poll. */
#ifndef PIPETRAIN_WAKEUP_H
#define PIPETRAIN_WAKEUP_H

#include "sync/ranks/rank_memory.h"

struct wakeup;

/* Allocate this rank's flags; it has one thread. 0 or -ENOMEM. */
int wakeup_open(struct wakeup **wakeup_out, struct ranks *ranks);
/* Set the number of threads of this rank, at most RANKS_THREADS_MAX; before wakeup_connect. */
void wakeup_set_threads(struct wakeup *wakeup, uint32_t threads);
/* Called when no thread of this process uses the flags any more. Accepts NULL. */
void wakeup_close(struct wakeup *wakeup);
/* Called when rank_hosts_exchange has returned 1: 0 or -ENOMEM. */
int wakeup_know_hosts(struct wakeup *wakeup);
/* Connect with the other ranks of this host; the same interface as rank_memory_connect. In the communication thread. */
int wakeup_connect(struct wakeup *wakeup, int tag, struct rank_wait *wait_out);

/* Can this rank wake `rank`? Always true for itself; for another rank once both are connected, and then in both
 * directions. */
bool wakeup_reaches(const struct wakeup *wakeup, uint32_t rank);
/* Wake the thread that executes jobs of this lane (ranks_job) in a rank for which wakeup_reaches is true. For the own
 * rank from any thread, for others only from threads that execute jobs. Earlier writes are visible to the woken
 * thread. */
void wakeup_send(struct wakeup *wakeup, uint32_t rank, uint32_t lane);

/* The number of times that a thread of this rank was woken. */
uint32_t wakeup_count(const struct wakeup *wakeup, uint32_t thread);
/* Sleep until wakeup_count differs from `seen`, or until due_ns (stage/clock.h). Called by that thread. */
void wakeup_sleep(struct wakeup *wakeup, uint32_t thread, uint32_t seen, uint64_t due_ns);

/* Called before a message is sent to a rank for which wakeup_reaches is true: increments that rank's count of announced
 * messages, so that it polls until they have arrived. Wake it afterwards. */
void wakeup_announce(struct wakeup *wakeup, uint32_t rank);
/* The number of messages that were announced to this rank. */
uint32_t wakeup_announced(const struct wakeup *wakeup);

#endif
