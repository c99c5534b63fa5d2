/* The snapshots of one tower: they are made after the batches that a rule selects, lent to main with the report of the
 * batch, and returned. Their number is fixed, and their memory is allocated with the tower's. */
#ifndef PIPETRAIN_SNAPSHOT_POOL_H
#define PIPETRAIN_SNAPSHOT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "compute/snapshot.h"
#include "stage/queue.h"
#include "stage/schedule.h"
#include "sync/gate.h"

#define SNAPSHOTS_MAX 2u

/* The rule after which batches a snapshot is made: it depends only on the batch, so that all towers and a resumed run
 * agree. */
struct snapshot_rule {
    enum snapshot_kind kind;
    uint32_t count;             /* snapshots of each tower, <= SNAPSHOTS_MAX; 0: none are made */
    uint64_t every;             /* after each multiple of this number of steps of the run; 0: never */
    bool each_epoch;            /* after the last step of an epoch, before the evaluation */
    bool each_evaluation;       /* after the last batch of an evaluation */
    bool last;                  /* after the last batch of the run, before the mode's finish */
};

/* Does the rule select this batch, apart from `last`? */
bool snapshot_due(const struct snapshot_rule *rule, const struct local_batch *local);
/* Is snapshot_due true, or was a snapshot requested after this batch (gate_mark)? */
bool snapshot_wanted(const struct snapshot_rule *rule, struct gate *gate, const struct local_batch *local);

struct snapshot_pool {
    struct snapshot_rule rule;
    struct snapshot *snapshots[SNAPSHOTS_MAX];
    struct snapshot *last;      /* after the last batch; NULL before it is made */
    struct queue *idle;         /* NULL without snapshots */
    atomic_uint lent;           /* snapshots lent to main */
};

/* Called by main: the pool may be cancelled from now on. 0 or -ENOMEM. */
int snapshot_pool_init(struct snapshot_pool *pool, const struct snapshot_rule *rule);
/* Allocate the snapshots, from the tower's thread. 0 or a negative errno; close after success or failure. */
int snapshot_pool_open(struct snapshot_pool *pool, struct tower *tower);
/* Called by the tower's thread before its tower is closed. No snapshot may still be lent (asserted). */
void snapshot_pool_close(struct snapshot_pool *pool);
/* Called by main after close. */
void snapshot_pool_release(struct snapshot_pool *pool);

/* Queue a snapshot on the tower's compute stream, waiting while none is idle. 0, -ECANCELED, or a negative errno of the
 * device. */
int snapshot_pool_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* Queue a snapshot without waiting; -EAGAIN if none is idle. */
int snapshot_pool_try_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* Keep the complete snapshot after the last batch for snapshot_pool_last. */
void snapshot_pool_keep_last(struct snapshot_pool *pool, struct snapshot *last);
/* The snapshot after the last batch, lent; NULL if there is none. */
struct snapshot *snapshot_pool_last(struct snapshot_pool *pool);
/* Lend a snapshot to main; return it, from any thread. */
void snapshot_pool_lend(struct snapshot_pool *pool);
void snapshot_pool_give_back(struct snapshot_pool *pool, struct snapshot *snapshot);
/* End the wait of snapshot_pool_take. Any thread. */
void snapshot_pool_cancel(struct snapshot_pool *pool);

#endif
