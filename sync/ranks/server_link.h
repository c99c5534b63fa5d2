/* The asynchronous parameter server of rank 0 (sync/server.h), for the towers of other ranks: they fetch weights from
 * it, and push gradients to it, by messages. In rank 0 the link has a thread for each other rank, which makes the
 * updates in the order in which that rank's gradients arrive, and one that sends weights to the towers that may fetch
 * them (sync/server_progress.h). In another rank it has one that receives weights.
 *
 * A tower fetches before every step, then pushes, then announces that the step is complete. It has the answer to a
 * fetch before it sends anything else, so at the end of a run no message is left. */
#ifndef PIPETRAIN_SERVER_LINK_H
#define PIPETRAIN_SERVER_LINK_H

#include "sync/ranks/ranks.h"
#include "sync/reduce.h"
#include "sync/server.h"
#include "sync/server_progress.h"

struct server_link;

struct server_link_spec {       /* pointers are lent until server_link_close */
    struct ranks *ranks;
    uint32_t towers;            /* of the run */
    struct tower_range here;
    size_t floats;              /* of the arenas of gradients and of weights */
    bool has_bf16_grads;        /* gradients are sent as bf16 */
    struct server *server;      /* in rank 0, otherwise NULL */
    struct server_progress *progress;   /* likewise */
};

/* Bytes of host memory, with those of messages in flight, for `floats` in the arena of every tower: in rank 0 for the
 * towers of all other ranks, otherwise for the towers of this one. */
size_t server_link_bytes(const struct ranks *ranks, uint32_t towers, struct tower_range here, size_t floats);

/* Start the threads. 0 or a negative errno. */
int server_link_open(struct server_link **link_out, const struct server_link_spec *spec);
/* End the threads: when all fetches and updates of the run are made, or after server_link_cancel. Called by a tower's
 * thread, while the arenas of all towers are still allocated; may be called again. Accepts NULL. */
void server_link_end(struct server_link *link);
/* Also ends the threads. Accepts NULL. */
void server_link_close(struct server_link *link);
/* End every wait for weights. Any thread, never blocks. */
void server_link_cancel(struct server_link *link);

/* ---- in ranks other than 0; for a tower, by its number in the run ---- */

/* Ask for weights for step `step`, wait for them, and return them; they are valid until the next fetch of the tower.
 * The server has the updates of all towers for the steps before `step` - `bound`, and those of this tower for the steps
 * before `step`; *staleness_out is as in reduce_server_fetch. 0 or -ECANCELED. The tower's thread. */
int server_link_fetch(struct server_link *link, uint32_t tower, uint64_t step, uint32_t bound,
                      const float **weights_out, uint32_t *staleness_out);

/* The gradients of `count` floats from `offset` of the arena on; bf16 with spec.has_bf16_grads. */
struct server_gradients { const void *numbers; size_t offset, count; };
/* Send the gradients of bucket `bucket`, and let server_push follow. They are copied. 0 or a negative errno, after
 * which the run fails. Any thread. */
int server_link_push(struct server_link *link, uint32_t tower, const struct server_gradients *gradients, uint32_t bucket,
                     uint64_t batch, uint32_t delay);
/* Announce that all of the tower's updates of steps before `next` are sent. As server_link_push. */
int server_link_pushed(struct server_link *link, uint32_t tower, uint64_t next);

#endif
