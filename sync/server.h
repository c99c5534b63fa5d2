/* A parameter server: one copy of the weights and of the optimizer's buffers in host memory, and the sums of gradients.
 * The towers' communication streams work on it: for one update of all towers, each on ranges of its own; for updates of
 * single towers, one after the other.
 *
 * Only one thread at a time may call for the same tower. */
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
    bool defers;                                /* an update is made a step after its gradients were summed */
};

/* Bytes of host memory that server_open allocates. */
size_t server_bytes(const struct server_rules *rules);
/* Do updates need norms, of whole parameters or of all gradients? */
bool server_needs_norms(const struct optimizer *optimizer);
/* Is the update of all towers made after all sums, not bucket by bucket? Then server_square follows the sums, and
 * server_update follows that. So it is where updates need norms, and where they are deferred. */
bool server_updates_apart(const struct server_rules *rules);
/* With the buckets of gradients, by which towers push and fetch. 0 or -ENOMEM. */
int server_open(struct server **server_out, const struct server_rules *rules, const struct buckets *buckets);
/* Accepts NULL. */
void server_close(struct server *server);
/* The server's own arena of a region: weights, states, or sums of gradients, deferred or not; the updated floats of it.
 * NULL: it has none. */
float *server_floats(struct server *server, enum region region);

/* One update of all towers' gradients. Ranges are floats of the arenas, [begin, end); tower `tower` of the run works on
 * its own. */

/* The sums of the range are complete, of the gradients of batch `batch`: clip them to the rules' clip_value. */
void server_clip_value(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);
/* Compute the tower's share of the norms. */
void server_square(struct server *server, uint32_t tower);
void server_update(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);

/* An update of one tower's gradients: sums over its share of batch `batch`, which has samples, in an arena of host
 * memory that is overwritten. The rate is the schedule's, times its share of the batch, so that all towers'
 * updates of a batch together have the effect of one, divided by `delay` >= 1. For bucket `bucket` of gradients; where
 * norms of all gradients are needed, for all buckets, called with the first one. Pushes and fetches lock each
 * bucket. */
void server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                 uint32_t delay);
/* Copy the weights, updated floats, bucket by bucket. */
void server_fetch(struct server *server, float *weights_out);

#endif
