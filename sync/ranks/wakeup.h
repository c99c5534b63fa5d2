/* Ranks on the same host wake each other's communication threads. Every rank has a flag in shared memory
 * (rank_memory.h), and its communication thread sleeps on it by a futex. A rank that has written to shared memory or
 * sent a message wakes the reader, which therefore need not poll. */
#ifndef PIPETRAIN_WAKEUP_H
#define PIPETRAIN_WAKEUP_H

#include "sync/ranks/rank_memory.h"

struct wakeup;

/* 0 or -ENOMEM. */
int wakeup_open(struct wakeup **wakeup_out, struct ranks *ranks);
/* No thread of this process uses it any more. Accepts NULL. */
void wakeup_close(struct wakeup *wakeup);
/* Connect with the other ranks, as rank_memory_connect. In the communication thread. */
int wakeup_connect(struct wakeup *wakeup, int tag, struct rank_wait *wait_out);

/* Can this rank wake that one? Always true for itself; for others once both are connected, and then in both directions.
 * In the communication thread. */
bool wakeup_reaches(const struct wakeup *wakeup, uint32_t rank);
/* Wake the communication thread of a rank that is reached: from any thread for this rank itself, for others from the
 * communication thread. Writes before it are visible to the woken thread. */
void wakeup_send(struct wakeup *wakeup, uint32_t rank);

/* How often this rank was woken. */
uint32_t wakeup_count(const struct wakeup *wakeup);
/* Sleep until the count differs from `seen`, or until due_ns (stage/clock.h). In the communication thread. */
void wakeup_sleep(struct wakeup *wakeup, uint32_t seen, uint64_t due_ns);

/* Before a message is sent to a rank that is reached: increment the receiver's count of announced messages, so that
 * it polls until they have arrived. Wake it afterwards. */
void wakeup_announce(struct wakeup *wakeup, uint32_t rank);
/* How many messages were announced to this rank. */
uint32_t wakeup_announced(const struct wakeup *wakeup);

#endif
