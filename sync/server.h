/* A parameter server: one copy of the weights and of the optimizer's buffers in host memory, and the sums of gradients.
 * It is called on the towers' communication streams. In a common update every tower works on its own range. Updates
 * with one tower's gradients lock each bucket, so towers update the same bucket one after the other.
 *
 * Only one thread at a time may call functions for the same tower. */
#ifndef PIPETRAIN_SERVER_H
#define PIPETRAIN_SERVER_H

#include "compute/learning_rate.h"
#include "compute/net.h"
#include "compute/optimizer.h"
#include "stage/schedule.h"
#include "sync/bucket.h"

struct server;

/* The parameters of updates, the same in all towers; pointers are lent until server_close. */
struct server_rules {
    const struct net *net;
    const struct arena *arena;                  /* of weights, gradients and states */
    const struct optimizer *optimizer;
    const struct schedule *schedule;
    const struct learning_rate *learning_rate;
    bool defers;                                /* an update is made one step after its gradients were summed */
};

/* Bytes of host memory that server_open allocates. */
size_t server_bytes(const struct server_rules *rules);
/* Do updates need norms, either of single parameters or of all gradients? */
bool server_needs_norms(const struct optimizer *optimizer);
/* Is the update of all towers made after all sums, not bucket by bucket? Then server_square follows the sums, and
 * server_update follows that. True if updates need norms or are deferred. */
bool server_updates_apart(const struct server_rules *rules);
/* Open the server; towers push and fetch the buckets of gradients in `buckets`. 0 or -ENOMEM. */
int server_open(struct server **server_out, const struct server_rules *rules, const struct buckets *buckets);
/* Accepts NULL. */
void server_close(struct server *server);
/* The server's own arena of a region, with its updated floats only: weights, states, or sums of gradients, deferred or
 * not. NULL: it has none. */
float *server_floats(struct server *server, enum region region);

/* A common update with all towers' gradients. Ranges are floats of the arenas, [begin, end); tower `tower` of the run
 * works on its own range. */

/* Clip the range's complete sums of the gradients of batch `batch` to the rules' clip_value. */
void server_clip_value(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);
/* Compute the tower's share of the norms. */
void server_square(struct server *server, uint32_t tower);
void server_update(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);

/* An update with one tower's gradients: sums over its share of batch `batch`, which has samples, in an arena of host
 * memory that is overwritten. The rate is that of the schedule times the tower's share of the batch, so that all
 * towers' updates of a batch together have the effect of one update; it is divided by `delay` >= 1. Updates bucket
 * `bucket` of gradients; if norms of all gradients are needed, all buckets, and is called with the first one. Pushes
 * and fetches lock each bucket. */
void server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                 uint32_t delay);
/* Copy the updated floats of the weights, bucket by bucket. */
void server_fetch(struct server *server, float *weights_out);

#endif
