/* The updates that an asynchronous parameter server has of each tower, and the fetches that wait for more. */
#ifndef PIPETRAIN_SERVER_PROGRESS_H
#define PIPETRAIN_SERVER_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct server_progress {
    uint32_t towers;            /* of the run */
    pthread_mutex_t lock;       /* guards the members below, and those of others that wait for `changed` */
    pthread_cond_t changed;
    bool is_filled, is_cancelled;
    uint64_t *next;             /* [tower]: its updates of steps before this one are complete */
};

/* All updates of steps before `step` are complete. 0 or -ENOMEM. */
int server_progress_open(struct server_progress *progress, uint32_t towers, uint64_t step);
/* Accepts a struct of zeros, and one that could not be opened. */
void server_progress_close(struct server_progress *progress);

/* The server has weights and states. */
void server_progress_fill(struct server_progress *progress);
/* The updates of that tower are complete for the steps before `next`. */
void server_progress_set(struct server_progress *progress, uint32_t tower, uint64_t next);
/* End every wait. Any thread, never blocks. */
void server_progress_cancel(struct server_progress *progress);

/* The number of steps of which all towers' updates are complete. Lock held. */
uint64_t server_progress_complete(const struct server_progress *progress);
/* May a tower fetch weights for `step` now: is the server filled, and has it the updates of all towers for the steps
 * before `step` - `bound`, and those of this tower for the steps before `step`? If so, *staleness_out is the number of
 * steps before `step` for which updates are missing. Lock held. */
bool server_progress_permits(const struct server_progress *progress, uint32_t tower, uint64_t step, uint32_t bound,
                             uint32_t *staleness_out);
/* Wait until server_progress_permits. 0 or -ECANCELED. */
int server_progress_await(struct server_progress *progress, uint32_t tower, uint64_t step, uint32_t bound,
                          uint32_t *staleness_out);
/* Wait until all towers' updates of the steps before `step` are complete. 0 or -ECANCELED. */
int server_progress_await_all(struct server_progress *progress, uint64_t step);

#endif
