/* Reads handed to the kernel together, through io_uring. */
#ifndef PIPETRAIN_READ_RING_H
#define PIPETRAIN_READ_RING_H

#include <errno.h>

#include "loader/shards/read_batch.h"

/* Of a request that was not tried. */
#define READ_RING_LEFT ((ssize_t)-EAGAIN)

struct read_ring;

/* A ring for so many requests. 0, or a negative errno: -ENOSYS where the program was built without,
 * -EPERM and others where the kernel does not allow it. */
int read_ring_open(struct read_ring **ring_out, uint32_t requests_max);
/* Accepts NULL. */
void read_ring_close(struct read_ring *ring);
/* Try all requests of sources whose file is open, and wait for them: got is what the kernel says, also fewer
 * bytes than were asked for, or READ_RING_LEFT. */
void read_ring_run(struct read_ring *ring, struct read_request *requests, uint32_t count);

#endif
