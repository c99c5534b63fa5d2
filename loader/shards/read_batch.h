/* Batches of reads of scattered records in any number of shards. A system call for each record would cost more than the
 * rest of the work, and a disk is faster if it has all requests at once. Uses io_uring if the program was built with
 * liburing and the kernel allows it (read_ring.c); otherwise reads one after another. A batch belongs to one thread. */
#ifndef PIPETRAIN_READ_BATCH_H
#define PIPETRAIN_READ_BATCH_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loader/shards/shard_source.h"

struct read_request {
    struct shard_source *source;
    void *buffer;
    size_t bytes;               /* >= 1 */
    uint64_t offset;
    ssize_t got;                /* the result, as of shard_source_read */
};

struct read_batch;

/* Open a batch with room for this many requests. 0 or -ENOMEM. */
int read_batch_open(struct read_batch **batch_out, uint32_t requests_max);
/* Accepts NULL. */
void read_batch_close(struct read_batch *batch);
/* The host memory of a batch. */
size_t read_batch_bytes(uint32_t requests_max);
/* Add a request; there must be room (asserted). Returns the batch's copy, which will have the result. */
struct read_request *read_batch_add(struct read_batch *batch, const struct read_request *request);
/* Execute all requests and wait for them. Results are valid until the next request is added. */
void read_batch_run(struct read_batch *batch);

/* ---- private: the io_uring of a batch ---- */

/* The result of a request that was not tried. */
#define READ_RING_UNTRIED ((ssize_t)-EAGAIN)

struct read_ring;

/* 0, or a negative errno: -ENOSYS if the program was built without liburing, -EPERM and others if the kernel does not
 * allow io_uring. */
int read_ring_open(struct read_ring **ring_out, uint32_t requests_max);
/* Accepts NULL. */
void read_ring_close(struct read_ring *ring);
/* Try all requests whose files are open, and wait for them. `got` is then the kernel's result, which may be fewer bytes
 * than requested, or READ_RING_UNTRIED. */
void read_ring_run(struct read_ring *ring, struct read_request *requests, uint32_t count);

#endif
