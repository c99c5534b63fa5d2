/* Progress of an asynchronous parameter server. Set where updates are made, awaited by the threads of towers. */
#include "sync/server_progress.h"

#include <errno.h>
#include <stdlib.h>

#include "stage/heartbeat.h"

int server_progress_open(struct server_progress *progress, uint32_t towers, uint64_t step)
{
    *progress = (struct server_progress){ .towers = towers, .next = calloc(towers, sizeof(*progress->next)) };
    if (progress->next == NULL)
        return -ENOMEM;
    for (uint32_t d = 0; d < towers; d++)
        progress->next[d] = step;
    pthread_mutex_init(&progress->lock, NULL);
    pthread_cond_init(&progress->changed, NULL);
    return 0;
}

void server_progress_close(struct server_progress *progress)
{
    if (progress->next == NULL)
        return;
    pthread_cond_destroy(&progress->changed);
    pthread_mutex_destroy(&progress->lock);
    free(progress->next);
    progress->next = NULL;
}

void server_progress_fill(struct server_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    progress->is_filled = true;
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

void server_progress_set(struct server_progress *progress, uint32_t tower, uint64_t next)
{
    pthread_mutex_lock(&progress->lock);
    progress->next[tower] = next;
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

void server_progress_cancel(struct server_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    progress->is_cancelled = true;
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

uint64_t server_progress_complete(const struct server_progress *progress)
{
    uint64_t least = progress->next[0];
    for (uint32_t d = 1; d < progress->towers; d++)
        least = progress->next[d] < least ? progress->next[d] : least;
    return least;
}

bool server_progress_permits(const struct server_progress *progress, uint32_t tower, uint64_t step, uint32_t bound,
                             uint32_t *staleness_out)
{
    const uint64_t complete = server_progress_complete(progress);
    if (!progress->is_filled || progress->next[tower] < step || complete + bound < step)
        return false;
    *staleness_out = complete < step ? (uint32_t)(step - complete) : 0;
    return true;
}

int server_progress_await(struct server_progress *progress, uint32_t tower, uint64_t step, uint32_t bound,
                          uint32_t *staleness_out)
{
    pthread_mutex_lock(&progress->lock);
    heartbeat_begin_wait("waiting for its updates");
    while (progress->next[tower] < step && !progress->is_cancelled)
        pthread_cond_wait(&progress->changed, &progress->lock);
    heartbeat_end_wait();
    while (!progress->is_cancelled && !server_progress_permits(progress, tower, step, bound, staleness_out))
        pthread_cond_wait(&progress->changed, &progress->lock);
    const int rc = progress->is_cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&progress->lock);
    return rc;
}

int server_progress_await_all(struct server_progress *progress, uint64_t step)
{
    pthread_mutex_lock(&progress->lock);
    while (!progress->is_cancelled && server_progress_complete(progress) < step)
        pthread_cond_wait(&progress->changed, &progress->lock);
    const int rc = progress->is_cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&progress->lock);
    return rc;
}
