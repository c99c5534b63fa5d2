/* Snapshots: copies of a tower's state on the host. The state is everything that later steps depend on apart from step
 * number, seed and samples: weights, statistics, their averages, the optimizer's buffers, deferred gradients, and the
 * state that the backend carries from step to step. Used by sync/ and by checkpoints.
 *
 * To save, the tower's compute stream copies the arenas, in the backend's layout, to one block of pinned memory after a
 * step; the tower's thread does not wait. Other threads convert parameters from the block to plain form while the tower
 * continues. To restore, parameters are written one by one before the first step. */
#ifndef PIPETRAIN_SNAPSHOT_H
#define PIPETRAIN_SNAPSHOT_H

#include "compute/tower.h"

struct snapshot;

/* With model.parts a tower has some parts of the parameters of the head (tower.h). Snapshots of the first tower, that
 * with parts.first 0, contain everything that it has, those of other towers only what that tower has not: their own
 * parts, and the other frozen weights. A `parameter` is one of tower_net(tower) in all functions below. */

enum snapshot_kind {
    SNAPSHOT_STATE,     /* the whole state, copied */
    SNAPSHOT_LAST,      /* the whole state of a tower that makes no more steps: only small parts are copied; weights and
                         * buffers stay in the tower, which also has room for their plain form (snapshot_value_room).
                         * For towers in host memory that keep no averages and defer no gradients */
    SNAPSHOT_SHOWN,     /* not a state: copies of weights and reduced gradients, for display */
    SNAPSHOT_EVALUATED, /* not a state: copies of the weights and statistics with which evaluations compute, which are
                         * the averages if the tower keeps any */
};

/* The bytes of pinned memory that a snapshot of the tower needs. */
size_t snapshot_bytes(struct tower *tower, enum snapshot_kind kind);
/* The bytes of snapshot_carried of the first tower; this one need not have allocated its memory. */
size_t snapshot_carried_bytes(struct tower *tower);
/* Allocate that memory, from the tower's thread. The tower is lent until snapshot_close. 0 or a negative errno. */
int snapshot_open(struct snapshot **snapshot_out, struct tower *tower, enum snapshot_kind kind);
/* No copy may be in flight. Accepts NULL. */
void snapshot_close(struct snapshot *snapshot);

/* Queue the copies on the compute stream, from the tower's thread. The tower then computes with the trained weights
 * again (tower_show_average), or with SNAPSHOT_EVALUATED with the averages. Allocates nothing and does not wait, except
 * on devices whose compute stream is inline, where the copy is made now. 0 or a negative errno; after an error the
 * contents of the snapshot are undefined. */
int snapshot_queue(struct snapshot *snapshot);
/* The event after which the copies are complete; from then until the next snapshot_queue any thread may read them. */
struct event *snapshot_end(struct snapshot *snapshot);
enum snapshot_kind snapshot_kind(const struct snapshot *snapshot);

/* The parameter that is part `part` of a parameter of the whole net, or all of it if it is not divided; in the snapshot of
 * a tower that has it (tower_part). */
uint32_t snapshot_parameter(const struct snapshot *snapshot, uint32_t whole, uint32_t part);
/* Get the plain form of a parameter (parameter->count floats): its value, or, if it is updated, its part of buffer
 * `state` < tower_state_count. Any thread; allocates nothing. 0 or a negative errno. */
int snapshot_value(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
int snapshot_state(const struct snapshot *snapshot, uint32_t state, uint32_t parameter, float *plain_out);
/* With SNAPSHOT_LAST: memory of the tower that is free for the plain form. The value is converted into the memory of
 * the gradients, the first buffer into the memory of the value, and so on. So convert value and buffers of a parameter
 * in this order, each once; afterwards the snapshot does not contain the parameter any more. NULL for statistics, which
 * are copied, and for other kinds. */
float *snapshot_value_room(const struct snapshot *snapshot, uint32_t parameter);
float *snapshot_state_room(const struct snapshot *snapshot, uint32_t state, uint32_t parameter);
/* With SNAPSHOT_EVALUATED: convert a parameter to its plain form in the memory of the snapshot. Call it once for a
 * parameter; *plain_out is valid until the next snapshot_queue. `between` is memory for one copy of the parameter. */
int snapshot_value_in_place(struct snapshot *snapshot, uint32_t parameter, float *between, const float **plain_out);
/* With SNAPSHOT_SHOWN: the gradient of a parameter that is updated, a sum over samples. */
int snapshot_gradient(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
/* The average of a parameter, if the tower keeps averages. */
int snapshot_average(const struct snapshot *snapshot, uint32_t parameter, float *plain_out);
/* The state that the backend carries, for snapshot_write_carried; *bytes_out is 0 when there is none, or when it is in the
 * snapshot of the first tower. Valid as long as the snapshot; any thread. */
const void *snapshot_carried(const struct snapshot *snapshot, size_t *bytes_out);

/* Restore a tower, together with tower_write for values. Block until done. -EINVAL: the tower carries another number of
 * bytes. */
int snapshot_write_state(struct tower *tower, uint32_t state, uint32_t parameter, const float *plain);
/* Does nothing for a frozen weight, whose average is the weight itself. */
int snapshot_write_average(struct tower *tower, uint32_t parameter, const float *plain);
int snapshot_write_carried(struct tower *tower, const void *carried, size_t bytes);

#endif
