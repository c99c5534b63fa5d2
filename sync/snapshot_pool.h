/* The snapshots of one tower in circulation: made ready behind the batches that a rule names, lent
 * to main with their reports, and given back. Their number is fixed and their memory taken when
 * the tower is opened. */
#ifndef PIPETRAIN_SNAPSHOT_POOL_H
#define PIPETRAIN_SNAPSHOT_POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "compute/snapshot.h"
#include "stage/queue.h"
#include "stage/schedule.h"
#include "sync/gate.h"

#define SNAPSHOTS_MAX 2u

/* Behind which batches there is a snapshot: a function of the batch, so that all towers
 * agree and a run that goes on in another process does too. */
struct snapshot_rule {
    enum snapshot_kind kind;
    uint32_t count;             /* snapshots of each tower in circulation, <= SNAPSHOTS_MAX; 0 = none are made */
    uint64_t every;             /* steps of the run, 0 = never for that */
    bool each_epoch;            /* behind its last step, in front of its evaluation */
    bool each_evaluation;       /* behind its last batch */
    bool last;                  /* behind the last batch, wherever the run ends, before the mode ends it */
};

/* Is there one behind this batch, whichever the last one is? */
bool snapshot_due(const struct snapshot_rule *rule, const struct span *span);
/* That, or was one asked for behind it (gate_mark)? */
bool snapshot_wanted(const struct snapshot_rule *rule, struct gate *gate, const struct span *span);

struct snapshot_pool {
    struct snapshot_rule rule;
    struct snapshot *snapshots[SNAPSHOTS_MAX];
    struct snapshot *last;      /* behind the last batch, once it is taken */
    struct queue *idle;         /* NULL without snapshots */
    atomic_uint lent;           /* to main */
};

/* Room for what circulates, from main: the pool may be cancelled from here on. 0 or -ENOMEM. */
int snapshot_pool_init(struct snapshot_pool *pool, const struct snapshot_rule *rule);
/* The snapshots themselves, from the tower's thread. 0 or a negative errno; close after either. */
int snapshot_pool_open(struct snapshot_pool *pool, struct tower *tower);
/* From the tower's thread, before its tower is closed. All that was lent is back (asserted). */
void snapshot_pool_close(struct snapshot_pool *pool);
/* What init gave. */
void snapshot_pool_release(struct snapshot_pool *pool);

/* Queue a snapshot behind what is on the tower's compute stream, waiting while none is idle. 0,
 * -ECANCELED, or a negative errno of the device. */
int snapshot_pool_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* The same without waiting: -EAGAIN when none is idle. */
int snapshot_pool_try_take(struct snapshot_pool *pool, struct snapshot **snapshot_out);
/* Does the rule want one behind the last batch? */
bool snapshot_pool_has_last(const struct snapshot_pool *pool);
/* The one behind the last batch was taken and is complete. */
void snapshot_pool_keep_last(struct snapshot_pool *pool, struct snapshot *last);
/* That snapshot, lent; NULL when there is none. */
struct snapshot *snapshot_pool_last(struct snapshot_pool *pool);
/* A snapshot that was taken goes to main, and comes back from any thread. */
void snapshot_pool_lend(struct snapshot_pool *pool);
void snapshot_pool_give_back(struct snapshot_pool *pool, struct snapshot *snapshot);
/* The wait of snapshot_pool_take ends now. Any thread. */
void snapshot_pool_cancel(struct snapshot_pool *pool);

#endif
