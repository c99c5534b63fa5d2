/* The phases of a trainer's thread, under one lock. */
#include "sync/phases.h"

#include <errno.h>

void phases_init(struct phases *phases)
{
    *phases = (struct phases){ .now = PHASE_STARTING };
    pthread_mutex_init(&phases->lock, NULL);
    pthread_cond_init(&phases->changed, NULL);
}

void phases_release(struct phases *phases)
{
    pthread_cond_destroy(&phases->changed);
    pthread_mutex_destroy(&phases->lock);
}

void phases_set(struct phases *phases, enum phase phase, int result)
{
    pthread_mutex_lock(&phases->lock);
    phases->now = phase;
    phases->result = result;
    pthread_cond_broadcast(&phases->changed);
    pthread_mutex_unlock(&phases->lock);
}

void phases_advance(struct phases *phases, enum phase from, enum phase to)
{
    pthread_mutex_lock(&phases->lock);
    if (phases->now == from)
        phases->now = to;
    pthread_cond_broadcast(&phases->changed);
    pthread_mutex_unlock(&phases->lock);
}

/* Called with the lock held. */
static int await(struct phases *phases, enum phase phase)
{
    while (phases->now < phase && (!phases->is_cancelled || phase >= PHASE_DONE))
        pthread_cond_wait(&phases->changed, &phases->lock);
    return phases->now >= phase ? 0 : -ECANCELED;
}

int phases_await(struct phases *phases, enum phase phase)
{
    pthread_mutex_lock(&phases->lock);
    const int rc = await(phases, phase);
    pthread_mutex_unlock(&phases->lock);
    return rc;
}

int phases_meet(struct phases *phases, enum phase reached, enum phase next)
{
    phases_set(phases, reached, 0);
    return phases_await(phases, next);
}

int phases_result(struct phases *phases, enum phase phase)
{
    pthread_mutex_lock(&phases->lock);
    int rc = await(phases, phase);
    if (rc == 0)
        rc = phases->result;
    pthread_mutex_unlock(&phases->lock);
    return rc;
}

void phases_cancel(struct phases *phases)
{
    pthread_mutex_lock(&phases->lock);
    phases->is_cancelled = true;
    pthread_cond_broadcast(&phases->changed);
    pthread_mutex_unlock(&phases->lock);
}

bool phases_cancelled(struct phases *phases)
{
    pthread_mutex_lock(&phases->lock);
    const bool is_cancelled = phases->is_cancelled;
    pthread_mutex_unlock(&phases->lock);
    return is_cancelled;
}
