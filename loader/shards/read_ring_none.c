/* Replaces read_ring.c in a build without liburing. */
#include "loader/shards/read_batch.h"

#include <assert.h>
#include <errno.h>

int read_ring_open(struct read_ring **ring_out, uint32_t requests_max)
{
    (void)ring_out;
    (void)requests_max;
    return -ENOSYS;
}

void read_ring_close(struct read_ring *ring)
{
    assert(ring == NULL);
    (void)ring;
}

void read_ring_run(struct read_ring *ring, struct read_request *requests, uint32_t count)
{
    assert(ring == NULL && requests == NULL && count == 0);
    (void)ring;
    (void)requests;
    (void)count;
}
