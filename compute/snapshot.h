/* A tower's state on the host: all that its steps to come depend on besides their place in the
 * run, the seed and the samples. That is the weights, the statistics, their averages, the
 * optimizer's buffers, gradients that are deferred and what the backend carries from step to step.
 *
 * The way out is one block of pinned memory that the tower's compute stream copies the arenas
 * to, as they lie in them, in its turn behind a step; the thread that queues does not wait. The
 * plain form of parameters is made from the block, by whoever wants it, while the tower goes on.
 * The way in is parameter by parameter, before the first step. */
#ifndef PIPETRAIN_SNAPSHOT_H
#define PIPETRAIN_SNAPSHOT_H

#include "compute/tower.h"

struct snapshot;

enum snapshot_kind {
    SNAPSHOT_STATE,     /* all of it, copied */
    SNAPSHOT_LAST,      /* all of it, of a tower that does no more steps: what is small is copied, weights and buffers
                         * stay in the tower, where their plain form has room, too (snapshot_value_room). Of towers
                         * in the host's memory that keep no averages and defer nothing */
    SNAPSHOT_SHOWN,     /* no state: weights and gradients, copied as backward and the sum over towers left them, for
                         * people to look at */
};

/* Pinned bytes a snapshot of the tower takes, for the plan. */
size_t snapshot_bytes(struct tower *tower, enum snapshot_kind kind);
/* Those of what the backend carries (snapshot_carried), of a tower that is planned. */
size_t snapshot_carried_bytes(struct tower *tower);
/* Take them, from the tower's thread. The tower is lent until snapshot_close. 0 or a negative errno. */
int snapshot_open(struct snapshot **snapshot_out, struct tower *tower, enum snapshot_kind kind);
/* Nothing that was queued is under way. Accepts NULL. */
void snapshot_close(struct snapshot *snapshot);

/* Queue the copies behind what is on the compute stream, from the tower's thread, which computes
 * with what it trains from there on (tower_show_average). Allocates
 * nothing and does not wait, but on a device whose compute stream is inline the copy is made now.
 * 0 or a negative errno: then what the snapshot holds is not defined. */
int snapshot_queue(struct snapshot *snapshot);
/* What was queued is there once this event has passed: from then until the next snapshot_queue any thread may
 * read. */
struct event *snapshot_end(struct snapshot *snapshot);

/* The plain form of a parameter (parameter->count floats): its value, or, of one that is updated,
 * its part of buffer `state` < tower_state_count. Any thread; allocates nothing. 0 or a
 * negative errno. */
int snapshot_value(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
int snapshot_state(const struct snapshot *snapshot, uint32_t state, uint32_t parameter, float *plain_out);
/* Where they may be put, of a SNAPSHOT_LAST: in the memory of what the tower does not need any more. That is the
 * gradients' for a value, the value's for the first buffer of the parameter, and so on: all of a parameter in that
 * order, each once, and then the snapshot holds nothing of it any more. NULL: statistics, which are copied, and
 * snapshots of other kinds have no such room. */
float *snapshot_value_room(const struct snapshot *snapshot, uint32_t parameter);
float *snapshot_state_room(const struct snapshot *snapshot, uint32_t state, uint32_t parameter);
/* The gradient of one that is updated: a sum over samples. Of a SNAPSHOT_SHOWN. */
int snapshot_gradient(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
/* The average of its value, of a tower that keeps averages. */
int snapshot_average(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
/* What the backend carries besides, for snapshot_write_carried of the same kind of tower; *bytes_out
 * is 0 when it is nothing. Valid as long as the snapshot, any thread. */
const void *snapshot_carried(const struct snapshot *snapshot, size_t *bytes_out);

/* The way in, with tower_write for values: wait until it is done. -EINVAL: the tower carries
 * another number of bytes. */
int snapshot_write_state(struct tower *tower, uint32_t state, uint32_t parameter, const float *plain);
/* Of a weight that is frozen: nothing, it is its average. */
int snapshot_write_average(struct tower *tower, uint32_t parameter, const float *plain);
int snapshot_write_carried(struct tower *tower, const void *carried, size_t bytes);

#endif
