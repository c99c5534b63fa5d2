/* The gate in front of every global batch. Passed by every tower's thread once per
 * batch, closed by whichever thread learns that the run should end. */
#include "sync/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct gate {
    pthread_mutex_t lock;
    uint64_t begun;             /* batches some tower has begun: all numbers below */
    bool requested, has_mark;
    uint64_t mark;
};

int gate_open(struct gate **gate_out)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    if (gate == NULL)
        return -ENOMEM;
    pthread_mutex_init(&gate->lock, NULL);
    *gate_out = gate;
    return 0;
}

void gate_close(struct gate *gate)
{
    if (gate == NULL)
        return;
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
