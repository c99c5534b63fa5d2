/* Many reads at once: of records that lie anywhere in any number of shards, where a system call for
 * each costs more than what is done with it, or a disk wants to know of many at a time. By
 * io_uring where the kernel allows it and the program was built with liburing, and else one after the
 * other. A batch belongs to one thread. */
#ifndef PIPETRAIN_READ_BATCH_H
#define PIPETRAIN_READ_BATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loader/shards/shard_source.h"

struct read_request {
    struct shard_source *source;
    void *buffer;
    size_t bytes;               /* >= 1 */
    uint64_t offset;
    ssize_t got;                /* out: as shard_source_read returns it */
};

struct read_batch;

/* Room for so many requests. 0 or -ENOMEM. */
int read_batch_open(struct read_batch **batch_out, uint32_t requests_max);
/* Accepts NULL. */
void read_batch_close(struct read_batch *batch);
/* Host memory a batch takes. */
size_t read_batch_bytes(uint32_t requests_max);
/* One more request, which stays until the batch is run: where it is kept, for its result. No more than there
 * is room for. */
struct read_request *read_batch_add(struct read_batch *batch, const struct read_request *request);
/* Do all that were added, waiting for them. Their results are there until the next one is added. */
void read_batch_run(struct read_batch *batch);

#endif
