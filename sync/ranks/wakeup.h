/* Doorbells wake the communication threads of ranks on the same host. Every rank has one, in memory that they share
 * (rank_memory.h). A rank rings another one's after it has written to shared memory or sent message, so that the other need
 * not poll for it. The thread sleeps on its own wakeup_flag by a futex. */
#ifndef PIPETRAIN_WAKEUP_H
#define PIPETRAIN_WAKEUP_H

#include "sync/ranks/rank_memory.h"

struct wakeup;

/* 0 or -ENOMEM. */
int wakeup_open(struct wakeup **wakeup_out, struct ranks *ranks);
/* No thread of this process uses them any more. Accepts NULL. */
void wakeup_close(struct wakeup *wakeup);
/* As rank_memory_connect. In the communication thread. */
int wakeup_connect(struct wakeup *wakeup, int tag, struct rank_wait *wait_out);

/* Can this rank ring that one's? Then that one can ring this one's, once it has linked, too. Its own, always; others' after
 * connecting. In the communication thread. */
bool wakeup_reaches(const struct wakeup *wakeup, uint32_t rank);
/* Wake the communication thread of a rank that is reached. Any thread for this rank's own, else the communication thread.
 * Writes before the ring are visible to the woken thread. */
void wakeup_send(struct wakeup *wakeup, uint32_t rank);

/* How often this rank's own was rung. */
uint32_t wakeup_count(const struct wakeup *wakeup);
/* Sleep until the count is not `seen` any more, or until due_ns (stage/clock.h). The communication thread only. */
void wakeup_sleep(struct wakeup *wakeup, uint32_t seen, uint64_t due_ns);

/* Mail is about to be sent to a rank that is reached: count it there. Ring when it is sent. */
void wakeup_announce(struct wakeup *wakeup, uint32_t rank);
/* How many messages were announced to this rank. */
uint32_t wakeup_announced(const struct wakeup *wakeup);

#endif
