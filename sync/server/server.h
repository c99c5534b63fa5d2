/* One copy of what is trained, in host memory: weights and the optimizer's buffers, and what is summed for them. The
 * towers' communication streams work on it, each on ranges of its own while one update is made for all, or one after
 * the other where every tower's gradients are an update by themselves.
 *
 * A tower works through its hand, of which only one thread at a time makes use. */
#ifndef PIPETRAIN_SERVER_H
#define PIPETRAIN_SERVER_H

#include "compute/learning_rate.h"
#include "compute/net.h"
#include "compute/optimizer.h"
#include "stage/schedule.h"
#include "sync/bucket.h"

struct server;

/* What updates are made of; all lent until server_close, and the same in all towers. */
struct server_rules {
    const struct net *net;
    const struct arena *arena;                  /* of weights, gradients and states */
    const struct optimizer *optimizer;
    const struct schedule *schedule;
    const struct learning_rate *learning_rate;
    bool defers;                                /* updates for all towers are made a step behind their sums */
};

/* Bytes of host memory that server_open takes. */
size_t server_bytes(const struct server_rules *rules);
/* Do updates need norms, of whole parameters or of all gradients? */
bool server_needs_norms(const struct optimizer *optimizer);
/* Is an update for all towers made by itself, behind all sums? They then come before server_square, and that before
 * server_update. Where they need norms, and where they are deferred. */
bool server_updates_apart(const struct server_rules *rules);
/* For the buckets of gradients, which updates by one tower are made of. 0 or -ENOMEM. */
int server_open(struct server **server_out, const struct server_rules *rules, const struct buckets *buckets);
/* Accepts NULL. */
void server_close(struct server *server);
/* The server's own arenas: weights, states, and of gradients, deferred or not, their sums; updated floats of each.
 * NULL: it has none. */
float *server_floats(struct server *server, enum region region);

/* An update of all towers' gradients, batch by batch. Ranges are floats of the arenas, [begin, end); tower `tower` of
 * the run works on its own. */

/* The sums of a range are there, of the gradients of batch `batch`: values over the rule's limit become that. */
void server_clip_value(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);
/* The tower's part of the norms. */
void server_square(struct server *server, uint32_t tower);
void server_update(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch);

/* An update of one tower's gradients alone: sums over its slice of batch `batch`, which has samples, an arena of host
 * memory that may be written. The rate is the schedule's times the slice's share of the batch, so that all towers'
 * updates of a batch have the effect of one, divided by `delay` >= 1. Of bucket `bucket` of gradients; where norms of
 * all gradients are needed, of all of them, with the first one. No two updates, and no fetch, work on one bucket at
 * the same time. */
void server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                 uint32_t delay);
/* Copy the weights, updated floats, bucket by bucket. */
void server_fetch(struct server *server, float *weights_out);

#endif
