/* The io_uring of a batch. Called by readers for every chunk whose records are not consecutive. */
#include "loader/shards/read_batch.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

/* The largest size of one request. */
#define BYTES_MAX ((size_t)1 << 30)
/* Requests in the ring at the same time; more are not faster. */
#define ENTRIES_MAX 256u

struct read_ring {
    struct io_uring uring;
    uint32_t entries;
};

int read_ring_open(struct read_ring **ring_out, uint32_t requests_max)
{
    struct read_ring *const ring = malloc(sizeof(*ring));
    if (ring == NULL)
        return -ENOMEM;
    ring->entries = requests_max < ENTRIES_MAX ? requests_max : ENTRIES_MAX;
    const int rc = io_uring_queue_init(ring->entries, &ring->uring, 0);
    if (rc < 0) {
        free(ring);
        return rc;
    }
    *ring_out = ring;
    return 0;
}

void read_ring_close(struct read_ring *ring)
{
    if (ring == NULL)
        return;
    io_uring_queue_exit(&ring->uring);
    free(ring);
}

/* Prepare a request whose file is open. Files are not opened here, because that may wait for descriptors, and a thread
 * that holds descriptors must not wait for more. */
static bool prepare(struct read_ring *ring, struct read_request *request)
{
    request->got = READ_RING_UNTRIED;
    const struct shard_source_ops *const ops = request->source->ops;
    const bool is_possible = ops->try_descriptor != NULL && request->bytes <= BYTES_MAX;
    const int fd = is_possible ? ops->try_descriptor(request->source) : -ENOTSUP;
    if (fd < 0)
        return false;
    struct io_uring_sqe *const entry = io_uring_get_sqe(&ring->uring);
    assert(entry != NULL);
    io_uring_prep_read(entry, fd, request->buffer, (unsigned)request->bytes, request->offset);
    io_uring_sqe_set_data(entry, request);
    return true;
}

/* Store the results of completed requests. Returns their number. */
static uint32_t collect(struct read_ring *ring)
{
    struct io_uring_cqe *done[ENTRIES_MAX];
    const unsigned count = io_uring_peek_batch_cqe(&ring->uring, done, ENTRIES_MAX);
    for (unsigned i = 0; i < count; i++) {
        struct read_request *const request = io_uring_cqe_get_data(done[i]);
        request->got = done[i]->res;
        request->source->ops->give_back_descriptor(request->source);
    }
    io_uring_cq_advance(&ring->uring, count);
    return count;
}

/* Submit and complete some requests. Permanent errors occur when the ring is created. Others (a signal, or lack of
 * kernel memory) are temporary, and prepared requests stay prepared until they are submitted. */
static void run_some(struct read_ring *ring, struct read_request *requests, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++)
        left += prepare(ring, &requests[i]);
    while (left > 0) {
        (void)io_uring_submit_and_wait(&ring->uring, left);
        left -= collect(ring);
    }
}

void read_ring_run(struct read_ring *ring, struct read_request *requests, uint32_t count)
{
    for (uint32_t first = 0; first < count; first += ring->entries) {
        const uint32_t left = count - first;
        run_some(ring, requests + first, left < ring->entries ? left : ring->entries);
    }
}
