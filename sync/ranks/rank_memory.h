/* Memory of a rank that the other ranks on its host can use, too: an anonymous file (memfd) that they map. It has no
 * name that could be left behind, and does not depend on the size of /dev/shm. Ranks tell each other by messages where
 * it is, and which of them could map it; between all others, on other hosts or in other containers, data goes by
 * messages. */
#ifndef PIPETRAIN_RANK_MEMORY_H
#define PIPETRAIN_RANK_MEMORY_H

#include "sync/ranks/ranks.h"

struct rank_memory;

/* A rank from which a message is missing: its first one, or its answer, which it sends when it has the first ones of all. */
struct rank_wait { uint32_t rank; bool for_answer; };

/* Allocate this rank's memory, zeros. 0, or -ENOMEM. */
int rank_memory_open(struct rank_memory **memory_out, struct ranks *ranks, size_t bytes);
/* is_kept: messages may still be on their way to or from it, so it stays until the process ends. Accepts NULL. */
void rank_memory_close(struct rank_memory *memory, bool is_kept);
/* Exchange the messages by which ranks find out who shares. In the communication thread, until it returns 1: all is known.
 * 0: call it again; *wait_out, unless NULL, says which rank it waits for. Negative: an error of the library. Uses the tags
 * `tag` and `tag` + 1. */
int rank_memory_connect(struct rank_memory *memory, int tag, struct rank_wait *wait_out);
/* This rank's memory, or that of another rank: NULL before connecting, and where the two do not share. Then neither has the
 * other's. */
void *rank_memory_of(const struct rank_memory *memory, uint32_t rank);

#endif
