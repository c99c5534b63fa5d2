/* Doorbells wake the communication threads of ranks on the same host. Every rank has one, in memory that they share
 * (rank_memory.h). A rank rings another one's after it has written to shared memory or sent mail, so that the other need
 * not poll for it. The thread sleeps on its own doorbell by a futex. */
#ifndef PIPETRAIN_DOORBELLS_H
#define PIPETRAIN_DOORBELLS_H

#include "sync/ranks/rank_memory.h"

struct doorbells;

/* 0 or -ENOMEM. */
int doorbells_open(struct doorbells **doorbells_out, struct ranks *ranks);
/* No thread of this process uses them any more. Accepts NULL. */
void doorbells_close(struct doorbells *doorbells);
/* As rank_memory_link. In the communication thread. */
int doorbells_link(struct doorbells *doorbells, int tag, struct rank_wait *wait_out);

/* Can this rank ring that one's? Then that one can ring this one's, once it has linked, too. Its own, always; others' after
 * linking. In the communication thread. */
bool doorbells_reach(const struct doorbells *doorbells, uint32_t rank);
/* Wake the communication thread of a rank that is reached. Any thread for this rank's own, else the communication thread.
 * Writes before the ring are visible to the woken thread. */
void doorbells_ring(struct doorbells *doorbells, uint32_t rank);

/* How often this rank's own was rung. */
uint32_t doorbells_count(const struct doorbells *doorbells);
/* Sleep until the count is not `seen` any more, or until due_ns (stage/clock.h). The communication thread only. */
void doorbells_sleep(struct doorbells *doorbells, uint32_t seen, uint64_t due_ns);

/* Mail is about to be sent to a rank that is reached: count it there. Ring when it is sent. */
void doorbells_announce_mail(struct doorbells *doorbells, uint32_t rank);
/* How many mails were announced to this rank. */
uint32_t doorbells_mail(const struct doorbells *doorbells);

#endif
