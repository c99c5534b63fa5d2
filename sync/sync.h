/* Modes of synchronisation with a common interface: how a tower uses its gradients and weights in a step. How a sum
 * over towers is computed is defined by the reduction (reduce.h), and the arenas that are summed belong to the tower
 * (compute/tower.h).
 *
 * A mode is a row of functions on `struct sync`, of which every tower has one. The trainer calls them in each step,
 * from the tower's thread. They queue work on the tower's streams, and wait for nothing but other towers' threads.
 * Their actions depend only on the batch's number, so that a resumed run repeats them; a mode has no state besides the
 * sums that it still waits for. */
#ifndef PIPETRAIN_SYNC_H
#define PIPETRAIN_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/learning_rate.h"
#include "compute/tower.h"
#include "stage/schedule.h"
#include "sync/bucket.h"
#include "sync/reduce.h"
#include "sync/step_clock.h"

enum sync_mode { SYNC_REPLICATED, SYNC_RELAXED, SYNC_INDEPENDENT, SYNC_AVERAGING, SYNC_SERVER_DEVICE,
                 SYNC_SERVER_DEVICE_RELAXED, SYNC_SERVER_HOST, SYNC_SERVER_HOST_RELAXED, SYNC_ASYNC, SYNC_MODE_COUNT };

/* Is there a parameter server in host memory, and how does it update? */
enum serves {
    SERVES_NOBODY,              /* there is none */
    SERVES_ALL,                 /* one update a step, from all towers' gradients */
    SERVES_EACH                 /* one update for each tower's gradients, as they arrive */
};

#define SERVED_TOWERS_MAX 256u  /* the most towers with SERVES_EACH */
#define STALENESS_MAX 100u      /* the largest sync_spec.max_staleness */

struct sync_spec {                              /* pointers are lent until sync_leave */
    const struct sync_ops *ops;
    const struct schedule *schedule;
    struct reduce *reduce;
    struct stream *communication, *results;     /* as in struct reduce_member */
    struct trace_track *track;                  /* of the communication stream; NULL: not recorded */
    const struct learning_rate *learning_rate;
    size_t bucket_bytes;                        /* size of buckets (buckets_add) */
    uint64_t every;                             /* averaging: training steps between two means, >= 1 */
    bool keeps_buffers;                         /* averaging: the optimizer's buffers are not averaged */
    /* Async: training steps by which a tower may be ahead of others' updates. */
    uint32_t max_staleness;
    bool divides_rate;                          /* async: the rate of an update is divided by its staleness */
    struct tower *tower;                        /* this and the members below are set by the trainer */
    uint32_t index;                             /* number of the tower in the run */
    struct device *device;
    struct stream *compute;
};

struct sync {
    struct sync_spec spec;
    struct step_clock *clock;
    struct buckets buckets;                     /* of all regions that are reduced across towers */
    bool joined;                                /* sync_join was called */
    /* Relaxed: reductions of gradients are started and not yet waited for. */
    bool is_deferred;
    uint32_t staleness;                         /* async: staleness of the weights that the last training batch used */
};

/* A mode. Its functions return 0, or a negative errno that ends the run. NULL: nothing to do. */
struct sync_ops {
    const char *name;           /* "replicated" */
    const char *sum;            /* name of the summed data: "gradients"; NULL: nothing is summed */
    const char *place;          /* location of the parameters: "on the devices"; NULL: in every tower */
    bool has_period;            /* spec.every is used */
    bool has_slices;            /* supports train.slices: the result is independent of the number of towers */
    bool is_one_model;          /* all towers are one model at the end of the run; false: each is its own model */
    /* After a step every tower has its complete state, and finish changes statistics only. */
    bool ends_whole;
    bool differs;               /* between steps the towers' models differ */
    /* One tower owns each bucket of gradients, weights and states; only with two or more towers. */
    bool has_owners;
    bool defers;                /* towers apply gradients one step later (tower_spec.defers) ... */
    const struct sync_ops *applied;     /* ... and otherwise behave as in this mode; NULL: not deferred */
    enum serves serves;
    bool sums[REGION_COUNT];    /* the arenas that are summed over towers */
    /* Called when the slot of a batch, of training or evaluation, was taken; its forward is queued next. */
    int (*before_forward)(struct sync *sync, const struct local_batch *local);
    /* Called when the gradients of a bucket of a training batch are queued on the compute stream. */
    int (*bucket_ready)(struct sync *sync, const struct local_batch *local, uint32_t bucket);
    /* Update the weights. Called when all of backward is queued, and so after bucket_ready for every bucket. */
    int (*apply)(struct sync *sync, const struct local_batch *local);
    /* Called when the update of a training batch is queued. */
    int (*after_step)(struct sync *sync, const struct local_batch *local);
    /* Complete the states in the towers' arenas, because all towers copy them next, as they are after batch `batch` or,
     * at the end of the run, before it. Called in all towers or in none. */
    int (*before_snapshot)(struct sync *sync, uint64_t batch);
    /* Called when all batches before `next` are done and no more follow: set weights and averages to the values that
     * are to be saved. */
    int (*finish)(struct sync *sync, uint64_t next);
};

/* All modes (modes.c). */
extern const struct sync_ops *const sync_table[SYNC_MODE_COUNT];
/* The row for a run with this number of towers, in so many processes. One tower needs no parameter server: its mode is
 * replicated. async without any staleness is a parameter server in host memory. Several processes have no host memory
 * in common, so there every bucket of such a server is owned by a tower, as on the devices. */
const struct sync_ops *sync_choose(enum sync_mode mode, uint32_t towers, uint32_t ranks, uint32_t max_staleness);

/* ---- for the trainer, besides the mode's own functions ---- */

/* For a planned tower: the buckets of all regions that are reduced. The same in every tower. */
void sync_find_buckets(const struct sync_spec *spec, struct buckets *buckets_out);
/* For a planned tower: bytes of host memory that sync_join allocates, pinned or for a server. */
size_t sync_pinned_bytes(const struct sync_spec *spec);
/* For a planned tower: bytes of its device's memory that sync_join allocates. */
size_t sync_device_bytes(const struct sync_spec *spec);
/* For an allocated tower. 0 or a negative errno. */
int sync_init(struct sync *sync, const struct sync_spec *spec);
/* The most marks that a step makes on the clock. */
uint32_t sync_marks(const struct sync *sync);
/* Join the reduction; returns when all its towers have joined. */
int sync_join(struct sync *sync, struct step_clock *clock);
/* Called before the first step, when the start of the run has succeeded in all processes; may wait for their towers. 0
 * or a negative errno. */
int sync_begin(struct sync *sync);
/* Called once, whether sync_join was called or not. */
void sync_leave(struct sync *sync);
/* The number of samples over which the gradient at this offset of the arena is summed after training batch `local`: the
 * whole batch if this tower's gradients contain the sum over towers, or are those of its parts of the head; otherwise
 * the tower's own samples. Any thread. */
uint32_t sync_gradient_samples(const struct sync *sync, const struct local_batch *local, size_t offset);
/* With model.parts: queue `count` >= 1 exchanges of the head (tower_exchanges), side by side, for batch `batch`, of
 * training or evaluation, on the streams for communication, and let the compute stream wait for them. All towers make the
 * same exchanges of each batch in the same order, also for no samples, each at most once. The thread waits for the other
 * towers' threads. The caller has marked on the clock what was computed before. With one tower, and for exchanges without
 * numbers, does nothing. 0 or a negative errno. */
int sync_exchange(struct sync *sync, uint32_t first, uint32_t count, uint64_t batch);
/* Called when a batch has ended: writes its reductions to the trace, if they are not there yet. */
void sync_record(struct sync *sync);
/* While the tower's thread waits for its device: does it have to call sync_poll, and has the reduction failed (a
 * negative errno)? */
bool sync_needs_polling(const struct sync *sync);
int sync_poll(struct sync *sync);

/* ---- for modes (modes.c) ---- */

/* The region's arena in the tower; count 0 if it has none. */
struct reduce_region sync_region(struct tower *tower, enum region region);

/* Update all weights with gradients that are sums over `samples` samples; does nothing with 0. */
int sync_update(struct sync *sync, const struct local_batch *local, uint32_t samples);
/* Start all buckets of a region for batch `batch`. Also for the trainer. */
int sync_start_region(struct sync *sync, enum region region, uint64_t batch);
/* Queue a wait for the buckets of a region; the tower's backend is notified of changed weights. Also for the
 * trainer. */
int sync_await_region(struct sync *sync, enum region region);
/* Does the server update after all sums, not bucket by bucket (server_updates_apart)? */
bool sync_updates_apart(const struct sync *sync);

/* Are the towers one model after this batch? Means are taken before every evaluation and, if every > 0, after training
 * steps every, 2 * every, ... of the run. */
bool mean_is_due_after(const struct local_batch *local, uint64_t every);
/* The numbers of samples that this tower (own), and all towers together (all), have trained on since their weights were
 * last equal, up to and including batch `last`. */
struct mean_share { uint64_t own, all; };
struct mean_share mean_share(const struct schedule *schedule, uint32_t tower, uint64_t last, uint64_t every);

#endif
