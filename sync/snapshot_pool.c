/* Passes snapshots between the tower's thread and main. */
#include "sync/snapshot_pool.h"

#include <assert.h>

bool snapshot_due(const struct snapshot_rule *rule, const struct local_batch *local)
{
    if (rule->count == 0)
        return false;
    if (local->phase != PHASE_TRAIN)
        return rule->each_evaluation && local->last_of_phase;
    return (rule->every > 0 && (local->step + 1) % rule->every == 0) || (rule->each_epoch && local->last_of_phase);
}

bool snapshot_wanted(const struct snapshot_rule *rule, struct gate *gate, const struct local_batch *local)
{
    return (rule->count > 0 && gate_is_marked(gate, local->number)) || snapshot_due(rule, local);
}

int snapshot_pool_init(struct snapshot_pool *pool, const struct snapshot_rule *rule)
{
    assert(rule->count <= SNAPSHOTS_MAX);
    *pool = (struct snapshot_pool){ .rule = *rule };
    atomic_init(&pool->lent, 0);
    return rule->count > 0 ? queue_open(&pool->idle, rule->count) : 0;
}

int snapshot_pool_open(struct snapshot_pool *pool, struct tower *tower)
{
    int rc = 0;
    for (uint32_t i = 0; i < pool->rule.count && rc == 0; i++) {
        rc = snapshot_open(&pool->snapshots[i], tower, pool->rule.kind);
        if (rc == 0)
            rc = queue_put(pool->idle, pool->snapshots[i]);
    }
    return rc;
}

void snapshot_pool_close(struct snapshot_pool *pool)
{
    assert(atomic_load(&pool->lent) == 0);
    for (uint32_t i = 0; i < pool->rule.count; i++)
        snapshot_close(pool->snapshots[i]);
}

void snapshot_pool_release(struct snapshot_pool *pool)
{
    queue_close(pool->idle);
}

static int take(int (*get)(struct queue *queue, void **item_out), struct snapshot_pool *pool,
                struct snapshot **snapshot_out)
{
    void *idle;
    int rc = get(pool->idle, &idle);
    if (rc == 0)
        rc = snapshot_queue(idle);
    if (rc == 0)
        *snapshot_out = idle;
    return rc;
}

int snapshot_pool_take(struct snapshot_pool *pool, struct snapshot **snapshot_out)
{
    return take(queue_get, pool, snapshot_out);
}

int snapshot_pool_try_take(struct snapshot_pool *pool, struct snapshot **snapshot_out)
{
    return take(queue_try_get, pool, snapshot_out);
}

void snapshot_pool_keep_last(struct snapshot_pool *pool, struct snapshot *last)
{
    pool->last = last;
}

struct snapshot *snapshot_pool_last(struct snapshot_pool *pool)
{
    if (pool->last != NULL)
        snapshot_pool_lend(pool);
    return pool->last;
}

void snapshot_pool_lend(struct snapshot_pool *pool)
{
    atomic_fetch_add(&pool->lent, 1);
}

void snapshot_pool_give_back(struct snapshot_pool *pool, struct snapshot *snapshot)
{
    atomic_fetch_sub(&pool->lent, 1);
    /* The queue has space for all snapshots, so this does not block; it fails only after a cancel, when the failure
     * does not matter. */
    (void)queue_put(pool->idle, snapshot);
}

void snapshot_pool_cancel(struct snapshot_pool *pool)
{
    if (pool->idle != NULL)
        queue_cancel(pool->idle);
}
