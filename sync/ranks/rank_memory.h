/* Memory of a rank that the other ranks on its host can map: an anonymous file (memfd), which needs no name, is removed
 * with its last user and does not depend on the size of /dev/shm. Ranks exchange messages that describe their memory
 * and report whether it could be mapped. Ranks on different hosts or in different containers cannot map it, and have to
 * exchange data by messages. */
#ifndef PIPETRAIN_RANK_MEMORY_H
#define PIPETRAIN_RANK_MEMORY_H

#include "sync/ranks/ranks.h"

struct rank_memory;

/* Ranks exchange two messages: a description of the sender's memory and, when the sender has the descriptions of all
 * ranks, an answer. A rank_wait names a rank whose description, or with for_answer its answer, has not arrived. */
struct rank_wait { uint32_t rank; bool for_answer; };

/* Allocate this rank's memory, filled with zeros. 0, or -ENOMEM. */
int rank_memory_open(struct rank_memory **memory_out, struct ranks *ranks, size_t bytes);
/* is_kept: messages may still be read from or written to the memory, so it stays mapped until the process ends. Accepts
 * NULL. */
void rank_memory_close(struct rank_memory *memory, bool is_kept);
/* Exchange descriptions and answers, with the tags `tag` and `tag` + 1. The communication thread calls this until it
 * returns 1. 0: call again; *wait_out (may be NULL) then names a rank whose message is missing. Negative: an error of
 * the MPI library. */
int rank_memory_connect(struct rank_memory *memory, int tag, struct rank_wait *wait_out);
/* Returns the memory of this rank or another one. NULL before rank_memory_connect has returned 1, and where one of the
 * two ranks could not map the memory of the other. */
void *rank_memory_of(const struct rank_memory *memory, uint32_t rank);
/* The name of the host of this rank or another one, when rank_memory_connect has returned 1. */
#define RANK_MEMORY_HOST_BYTES 64u
const char *rank_memory_host(const struct rank_memory *memory, uint32_t rank);
/* The size of the memory of this rank or another one; of another rank's, if rank_memory_of returns it. */
size_t rank_memory_bytes(const struct rank_memory *memory, uint32_t rank);

#endif
