/* The snapshots of one tower: copied after the batches that a rule names, lent to main with the report of the batch,
 * and given back. Their number is fixed, and their memory is allocated when the tower is. */
#ifndef PIPETRAIN_SNAPSHOT_POOL_H
#define PIPETRAIN_SNAPSHOT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "compute/snapshot.h"
#include "stage/queue.h"
#include "stage/schedule.h"
#include "sync/gate.h"

#define SNAPSHOTS_MAX 2u

/* After which batches a snapshot is made: a function of the batch, so that all towers and a resumed run agree. */
struct snapshot_rule {
    enum snapshot_kind kind;
    uint32_t count;             /* snapshots of each tower, <= SNAPSHOTS_MAX; 0: none are made */
    uint64_t every;             /* after every so many steps of the run; 0: not */
    bool each_epoch;            /* after its last step, before its evaluation */
    bool each_evaluation;       /* after its last batch */
    bool last;                  /* after the last batch of the run, before the mode's finish */
};

/* Does the rule name this batch, whether it is the last one or not? */
bool snapshot_due(const struct snapshot_rule *rule, const struct local_batch *local);
/* That, or was a snapshot requested after it (gate_mark)? */
bool snapshot_wanted(const struct snapshot_rule *rule, struct gate *gate, const struct local_batch *local);

struct snapshot_pool {
    struct snapshot_rule rule;
    struct snapshot *snapshots[SNAPSHOTS_MAX];
    struct snapshot *last;      /* after the last batch, once it is taken */
    struct queue *idle;         /* NULL without snapshots */
    atomic_uint lent;           /* snapshots lent to main */
};

/* From main: the pool may be cancelled from now on. 0 or -ENOMEM. */
int snapshot_pool_init(struct snapshot_pool *pool, const struct snapshot_rule *rule);
/* Allocate the snapshots, from the tower's thread. 0 or a negative errno; close after success or failure. */
int snapshot_pool_open(struct snapshot_pool *pool, struct tower *tower);
/* From the tower's thread, before its tower is closed. No snapshot is lent any more (asserted). */
void snapshot_pool_close(struct snapshot_pool *pool);
/* After close, from main. */
void snapshot_pool_release(struct snapshot_pool *pool);

/* Queue a snapshot on the tower's compute stream, waiting while none is idle. 0, -ECANCELED, or a negative errno of the
 * device. */
int snapshot_pool_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* The same without waiting: -EAGAIN when none is idle. */
int snapshot_pool_try_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* The snapshot after the last batch is complete: keep it for snapshot_pool_last. */
void snapshot_pool_keep_last(struct snapshot_pool *pool, struct snapshot *last);
/* The snapshot after the last batch, lent; NULL when there is none. */
struct snapshot *snapshot_pool_last(struct snapshot_pool *pool);
/* Lend a snapshot to main; give it back, from any thread. */
void snapshot_pool_lend(struct snapshot_pool *pool);
void snapshot_pool_give_back(struct snapshot_pool *pool, struct snapshot *snapshot);
/* The wait of snapshot_pool_take ends now. Any thread. */
void snapshot_pool_cancel(struct snapshot_pool *pool);

#endif
