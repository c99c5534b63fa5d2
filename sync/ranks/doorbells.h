/* Doorbells: every rank has one, and ranks on its host ring it to wake its communication thread, so that it does not have
 * to poll for what they write to memory that they share, or for mail that they have sent. Doorbells are in such memory
 * themselves (rank_memory.h) and slept at by a futex. */
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
