/* The reduction of towers that have a server in host memory: gradients are summed there, updates made there, and
 * weights fetched from there. What else the towers sum, they sum as by reduce_host_ops. */
#ifndef PIPETRAIN_REDUCE_SERVER_H
#define PIPETRAIN_REDUCE_SERVER_H

#include "sync/reduce.h"

/* Opened as any other; not one of those that reduce_find knows. Every member brings its rules. Uses of buckets beside
 * BUCKET_ALL_REDUCE: BUCKET_SERVE, BUCKET_SQUARE, BUCKET_UPDATE and BUCKET_FETCH. */
extern const struct reduce_ops reduce_server_ops;

/* Queue: the server takes over weights and states of the tower, as they are behind what is queued on its compute
 * stream; behind that is what is queued there next. By tower 0, before the first bucket is started or pushed by it.
 * 0 or a negative errno, as of all. */
int reduce_server_fill(struct reduce *reduce, uint32_t tower);

/* Queue: the weights of a bucket of gradients that was served, and waited for, come back; behind them, and behind
 * backward, is what is queued on the compute stream next. */
int reduce_server_take(struct reduce *reduce, uint32_t tower, uint32_t bucket);

/* Where towers update by themselves (server_push); `steps` are training steps of the run. */

/* Wait until the server is filled and has every tower's updates of all steps before `step` - `bound`, and the tower's
 * own of all before `step`; then queue the
 * fetch of all weights: behind it is what is queued on the compute stream next. *staleness_out, 0 ... bound, is the
 * number of steps before `step` of which not all towers' updates are in. 0, -ECANCELED or another negative errno. */
int reduce_server_fetch(struct reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound, uint32_t *staleness_out);
/* Queue: the bucket's gradients, queued on the compute stream, of batch `batch`, update what the server has. */
int reduce_server_push(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay);
/* Queue: all of the tower's updates of steps before `next` are in. */
int reduce_server_pushed(struct reduce *reduce, uint32_t tower, uint64_t next);

#endif
