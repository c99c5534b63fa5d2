/* The gate before every global batch. Passed by every tower's thread once a batch, closed by any thread. */
#include "sync/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct gate {
    pthread_mutex_t lock;
    uint64_t begun;             /* some tower has begun all batches below this number */
    bool requested, has_mark, cancelled;
    uint64_t mark, allowed;
    pthread_cond_t changed;     /* allowed, requested or cancelled */
};

int gate_open(struct gate **gate_out)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    if (gate == NULL)
        return -ENOMEM;
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
    if (!gate->requested && number >= gate->begun)
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

bool gate_is_marked(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    const bool is_marked = gate->has_mark && gate->mark == number;
    pthread_mutex_unlock(&gate->lock);
    return is_marked;
}

int gate_await(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->allowed < number && !gate->requested && !gate->cancelled)
        pthread_cond_wait(&gate->changed, &gate->lock);
    const int rc = gate->cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&gate->lock);
    return rc;
}

void gate_allow(struct gate *gate, uint64_t number)
{
    pthread_mutex_lock(&gate->lock);
    gate->allowed = number;
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
