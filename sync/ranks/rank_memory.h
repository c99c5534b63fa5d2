/* Memory of a rank that the other ranks on its host can use, too: an anonymous file (memfd) that they map. It has no
 * name that could be left behind, and does not depend on the size of /dev/shm. Ranks tell each other by messages where
 * it is, and which of them could map it; between all others, on other hosts or in other containers, data goes by
 * messages. */
#ifndef PIPETRAIN_RANK_MEMORY_H
#define PIPETRAIN_RANK_MEMORY_H

#include "sync/ranks/ranks.h"

struct rank_memory;

/* A rank whose message is missing. for_answer: it has been heard of, but has not heard of all ranks itself. */
struct rank_wait { uint32_t rank; bool for_answer; };

/* Allocate this rank's memory, zeros. 0, or -ENOMEM. */
int rank_memory_open(struct rank_memory **memory_out, struct ranks *ranks, size_t bytes);
/* is_kept: messages may still be on their way to or from it, so it stays until the process ends. Accepts NULL. */
void rank_memory_close(struct rank_memory *memory, bool is_kept);
/* In the communication thread, again and again: 1 when it is known of all other ranks whether they share, 0 as long as it is
 * not (*wait_out says why), or an error of the library, negative. Uses the tags `tag` and `tag` + 1. */
int rank_memory_link(struct rank_memory *memory, int tag, struct rank_wait *wait_out);
/* This rank's memory, at once; that of another rank after linking, NULL where the two do not share: then neither has the
 * other's. */
void *rank_memory_of(const struct rank_memory *memory, uint32_t rank);

#endif
