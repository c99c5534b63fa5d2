/* Reading many ranges at once, or one after another. Called by readers. */
#include "loader/shards/read_batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct read_batch {
    struct read_ring *ring;     /* NULL: there is no ring, and every request is a separate read */
    uint32_t count, room;
    struct read_request requests[];
};

size_t read_batch_bytes(uint32_t requests_max)
{
    return sizeof(struct read_batch) + requests_max * sizeof(struct read_request);
}

int read_batch_open(struct read_batch **batch_out, uint32_t requests_max)
{
    struct read_batch *const batch = malloc(read_batch_bytes(requests_max));
    if (batch == NULL)
        return -ENOMEM;
    *batch = (struct read_batch){ .room = requests_max };
    if (read_ring_open(&batch->ring, requests_max) < 0)
        batch->ring = NULL;
    *batch_out = batch;
    return 0;
}

void read_batch_close(struct read_batch *batch)
{
    if (batch == NULL)
        return;
    read_ring_close(batch->ring);
    free(batch);
}

struct read_request *read_batch_add(struct read_batch *batch, const struct read_request *request)
{
    assert(batch->count < batch->room);
    struct read_request *const added = &batch->requests[batch->count++];
    *added = *request;
    added->got = READ_RING_UNTRIED;
    return added;
}

/* Repeat a read that was not tried, failed, or returned too few bytes; the second read returns the error. */
static void finish(struct read_request *request)
{
    if (request->got == (ssize_t)request->bytes)
        return;
    const size_t done = request->got > 0 ? (size_t)request->got : 0;
    const ssize_t got = shard_source_read(request->source, (char *)request->buffer + done, request->bytes - done,
                                          request->offset + done);
    request->got = got < 0 ? got : (ssize_t)done + got;
}

void read_batch_run(struct read_batch *batch)
{
    if (batch->ring != NULL && batch->count > 1)
        read_ring_run(batch->ring, batch->requests, batch->count);
    for (uint32_t i = 0; i < batch->count; i++)
        finish(&batch->requests[i]);
    batch->count = 0;
}
