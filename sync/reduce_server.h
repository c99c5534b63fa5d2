/* The reduction with a parameter server in host memory: the server sums gradients and updates the weights, and towers
 * fetch these. Other regions are summed as by reduce_host_ops. */
#ifndef PIPETRAIN_REDUCE_SERVER_H
#define PIPETRAIN_REDUCE_SERVER_H

#include "sync/reduce.h"

/* Opened like any other reduction, but reduce_find does not find it. Every member needs reduce_member.rules. Besides
 * BUCKET_ALL_REDUCE it supports BUCKET_SERVE, BUCKET_SQUARE, BUCKET_UPDATE and BUCKET_FETCH. */
extern const struct reduce_ops reduce_server_ops;
/* The same for towers in several processes, with a server in rank 0 that towers update independently (SERVES_EACH).
 * Besides BUCKET_ALL_REDUCE it supports BUCKET_BROADCAST. */
extern const struct reduce_ops reduce_server_ranks_ops;

/* The functions below queue work on the tower's streams, after the work that is already queued on its compute stream,
 * and return 0 or a negative errno. Work that is queued on the compute stream later waits for a fill or a fetch. */

/* Copy weights and states of the tower to the server. Called by tower 0 before it starts or pushes its first bucket. */
int reduce_server_fill(struct reduce *reduce, uint32_t tower);
/* Fetch the weights of a bucket of gradients whose sum the tower has waited for. Not called before backward has ended,
 * because it reads the weights. */
int reduce_server_fetch_bucket(struct reduce *reduce, uint32_t tower, uint32_t bucket);

/* For towers that update independently (SERVES_EACH); `step` counts training steps of the run. */

/* Wait until the server is filled, has the updates of all towers for the steps before `step` - `bound`, and those of
 * this tower for the steps before `step`. Then queue a fetch of all weights. *staleness_out, 0 ... bound, is the number
 * of steps before `step` for which updates are missing. 0, -ECANCELED or another negative errno. */
int reduce_server_fetch(struct reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound, uint32_t *staleness_out);
/* With several processes, where values of the server are broadcast by tower 0: wait until the server has all towers'
 * updates for the steps that this tower has announced, then queue a copy of the server's weights and states to the
 * tower. Called by tower 0 before it starts the broadcast. In one process it does nothing. 0, -ECANCELED or another
 * negative errno. */
int reduce_server_gather(struct reduce *reduce, uint32_t tower);
/* Update the server's weights with the bucket's gradients of batch `batch`, as server_push does. */
int reduce_server_push(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay);
/* Announce that all of the tower's updates of steps before `next` are complete. */
int reduce_server_pushed(struct reduce *reduce, uint32_t tower, uint64_t next);

#endif
