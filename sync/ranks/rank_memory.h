/* Memory of a rank that the other ranks on its host can map: an anonymous file (memfd), which needs no name, is removed
 * with its last user and does not depend on the size of /dev/shm. Ranks of a host exchange messages that describe their
 * memory and report whether it could be mapped. Ranks on different hosts or in different containers cannot map it, and
 * have to exchange data by messages. */
#ifndef PIPETRAIN_RANK_MEMORY_H
#define PIPETRAIN_RANK_MEMORY_H

#include "sync/ranks/rank_hosts.h"

struct rank_memory;

/* Allocate this rank's memory, filled with zeros. 0, or -ENOMEM. Before it is known which ranks are on this host
 * (rank_hosts.h), rank_memory_know_hosts has to be called later. */
int rank_memory_open(struct rank_memory **memory_out, struct ranks *ranks, size_t bytes);
/* is_kept: messages may still be read from or written to the memory, so it stays mapped until the process ends. Accepts
 * NULL. */
void rank_memory_close(struct rank_memory *memory, bool is_kept);
/* Called when it is known which ranks are on this host. 0, or -ENOMEM. */
int rank_memory_know_hosts(struct rank_memory *memory);
/* Exchange two messages with every other rank of this host: a description of the sender's memory and, when the sender
 * has the descriptions of all of them, an answer, with the tags `tag` and `tag` + 1. The communication thread calls this until it
 * returns 1. 0: call again; *wait_out (may be NULL) then names a rank whose description, or with for_answer its answer,
 * is missing. Negative: an error of the MPI library. */
int rank_memory_connect(struct rank_memory *memory, int tag, struct rank_wait *wait_out);
/* Returns the memory of this rank or another one. NULL before rank_memory_connect has returned 1, and where one of the
 * two ranks could not map the memory of the other. */
void *rank_memory_of(const struct rank_memory *memory, uint32_t rank);
/* The size of the memory of this rank or another one; of another rank's, if rank_memory_of returns it. */
size_t rank_memory_bytes(const struct rank_memory *memory, uint32_t rank);

#endif
