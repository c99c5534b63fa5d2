/* The gate before every global batch. Every tower's thread passes it once for each batch; any thread may close it. */
#include "sync/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct gate {
    pthread_mutex_t lock;
    uint64_t begun;             /* all batches below this number were begun by at least one tower */
    bool requested, has_mark, cancelled;
    uint64_t mark;
    uint64_t limit;             /* batches below this one are allowed */
    uint64_t end;               /* batches from this one on do not begin */
    pthread_cond_t changed;     /* signalled when limit, end, requested or cancelled changes */
};

int gate_open(struct gate **gate_out)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    if (gate == NULL)
        return -ENOMEM;
    gate->end = UINT64_MAX;
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->changed, NULL);
    *gate_out = gate;
    return 0;
}

void gate_close(struct gate *gate)
{
    if (gate == NULL)
        return;
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}

bool gate_pass(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    if (!gate->requested && number >= gate->begun && number < gate->end)
        gate->begun = number + 1;
    const bool may_pass = number < gate->begun;
    pthread_mutex_unlock(&gate->lock);
    return may_pass;
}

void gate_request(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->requested = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void gate_mark(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->mark = gate->begun;
    gate->has_mark = true;
    pthread_mutex_unlock(&gate->lock);
}

void gate_mark_batch(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    gate->mark = number;
    gate->has_mark = true;
    pthread_mutex_unlock(&gate->lock);
}

void gate_end_before(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    gate->end = number;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

bool gate_is_marked(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    const bool is_marked = gate->has_mark && gate->mark == number;
    pthread_mutex_unlock(&gate->lock);
    return is_marked;
}

/* Is it decided whether batch `number` may begin? Lock held. */
static bool is_decided(const struct gate *gate, uint64_t number)
{
    return number < gate->limit || number >= gate->end || gate->requested || gate->cancelled;
}

bool gate_is_open(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    const bool is_open = is_decided(gate, number);
    pthread_mutex_unlock(&gate->lock);
    return is_open;
}

int gate_await(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    while (!is_decided(gate, number))
        pthread_cond_wait(&gate->changed, &gate->lock);
    const int rc = gate->cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&gate->lock);
    return rc;
}

void gate_allow(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    gate->limit = number + 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void gate_cancel(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->cancelled = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}
