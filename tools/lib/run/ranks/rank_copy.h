/* Copies of files and memory of rank 0 in all other ranks, which then need no file system in common with it. Used by main
 * only, at the start. */
#ifndef PIPETRAIN_RANK_COPY_H
#define PIPETRAIN_RANK_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "sync/ranks/ranks.h"

/* The size of a message at most. Rank 0 has one for every other rank in memory. */
#define RANK_COPY_PART_BYTES ((size_t)1 << 20)

/* Rank 0: send the first `bytes` bytes of a file, or of memory, to all other ranks, which call rank_copy_receive. 0;
 * -ECANCELED when a rank has failed; or a negative errno of reading, after which the other ranks get -EIO. */
int rank_copy_send_file(struct ranks *ranks, int fd, uint64_t bytes);
int rank_copy_send_memory(struct ranks *ranks, const void *data, uint64_t bytes);
/* Other ranks: receive the copy in a file in memory, open for reading; the caller closes it. 0; -ECANCELED; -EIO; or
 * another negative errno, after which the rest is received and dropped. */
int rank_copy_receive(struct ranks *ranks, int *fd_out, uint64_t *bytes_out);

#endif
