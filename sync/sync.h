/* Modes of synchronisation behind one table: what a tower does with its gradients and weights in a step. How a sum over
 * towers is computed is the reduction's business (reduce.h), what is summed is the tower's (compute/tower.h).
 *
 * A mode is a row of functions on `struct sync`, of which every tower has one. The trainer calls them in each step,
 * from the tower's thread. They queue work on the tower's streams and wait for nothing but other towers' threads. What
 * is due when is a function of the batch's number, so that a resumed run does the same; a mode has no state besides the
 * sums it still waits for. */
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

#define STALENESS_MAX 100u      /* of sync_spec.max_staleness */

struct sync_spec {                              /* pointers are lent until sync_leave */
    const struct sync_ops *ops;
    const struct schedule *schedule;
    struct reduce *reduce;
    struct stream *communication;
    struct trace_track *track;                  /* of that stream; NULL: not recorded */
    const struct learning_rate *learning_rate;
    size_t bucket_bytes;                        /* of the buckets of a reduction (buckets_add) */
    uint64_t every;                             /* averaging: training steps from mean to mean, >= 1 */
    bool keeps_buffers;                         /* averaging: the optimizer's buffers are not averaged */
    uint32_t max_staleness;                     /* async: training steps a tower may be ahead of others' updates */
    bool divides_rate;                          /* async: the rate of an update is divided by its staleness */
    struct tower *tower;                        /* this and what follows is filled in by the trainer */
    uint32_t index;                             /* of the tower in the run */
    struct device *device;
    struct stream *compute;
};

struct sync {
    struct sync_spec spec;
    struct step_clock *clock;
    struct buckets buckets;                     /* all that is reduced across towers */
    bool joined;                                /* sync_join was called */
    bool is_deferred;                           /* relaxed: sums of gradients were started and not yet waited for */
    uint32_t staleness;                         /* async: of the weights that the last training batch used */
};

/* Functions: 0, or a negative errno that ends the run. NULL: nothing to do. */
struct sync_ops {
    const char *name;           /* "replicated" */
    const char *sum;            /* what the towers sum, in words: "gradients"; NULL: nothing */
    const char *place;          /* where the parameters are, in words: "on the devices"; NULL: in every tower */
    bool has_period;            /* spec.every is used */
    bool has_slices;            /* its result need not depend on the number of towers (train.slices) */
    bool is_one_model;          /* all towers are the same model at the end of the run; else each is its own */
    bool ends_whole;            /* every tower has all of its state after a step, and finish changes statistics only */
    bool differs;               /* between steps the towers' models are not the same */
    bool has_owners;            /* each bucket of gradients, weights and optimizer states is owned by one tower; only
                                 * with two towers or more */
    bool defers;                /* its towers apply gradients a step later (tower_spec.defers) ... */
    const struct sync_ops *applied;     /* ... and otherwise do the same as this mode; NULL: it does not defer */
    enum serves serves;
    bool sums[REGION_COUNT];    /* the arenas that are summed over towers */
    /* The slot of a batch, training or evaluation, was taken; its forward is queued next. */
    int (*before_forward)(struct sync *sync, const struct local_batch *local);
    /* The gradients of a bucket of a training batch are queued on the compute stream. */
    int (*bucket_ready)(struct sync *sync, const struct local_batch *local, uint32_t bucket);
    /* All of backward is queued, so bucket_ready was called for every bucket: update the weights. */
    int (*apply)(struct sync *sync, const struct local_batch *local);
    /* The update of a training batch is queued. */
    int (*after_step)(struct sync *sync, const struct local_batch *local);
    /* All towers copy their states next, as they are after batch `batch`, or, at the end of the run, before it:
     * complete them in the towers' arenas. Called for all towers or none. */
    int (*before_snapshot)(struct sync *sync, uint64_t batch);
    /* All batches before `next` are done, and no more follow: bring weights and averages to the values to be saved. */
    int (*finish)(struct sync *sync, uint64_t next);
};

/* All modes (modes.c). */
extern const struct sync_ops *const sync_table[SYNC_MODE_COUNT];
/* The row for a run of so many towers. One tower needs no parameter server: it is replicated. async without any
 * staleness is a parameter server in host memory. */
const struct sync_ops *sync_choose(enum sync_mode mode, uint32_t towers, uint32_t max_staleness);

/* ---- for the trainer, besides the mode's own functions ---- */

/* For a tower that is planned: the buckets of all that is reduced. The same in every tower. */
void sync_find_buckets(const struct sync_spec *spec, struct buckets *buckets_out);
/* For a tower that is planned: bytes of host memory that sync_join allocates, pinned or for a server. */
size_t sync_pinned_bytes(const struct sync_spec *spec);
/* For a tower that is allocated. 0 or a negative errno. */
int sync_init(struct sync *sync, const struct sync_spec *spec);
/* Marks that one step makes on the clock, at most. */
uint32_t sync_marks(const struct sync *sync);
/* Join the reduction; returns when all its towers have joined. */
int sync_join(struct sync *sync, struct step_clock *clock);
/* Called once, whether sync_join was called or not. */
void sync_leave(struct sync *sync);
/* Over how many samples is the gradient at this offset of the arena summed, after training batch `local`? All of the
 * batch where this tower's gradients hold the sum over towers, else the tower's own. Any thread. */
uint32_t sync_gradient_samples(const struct sync *sync, const struct local_batch *local, size_t offset);
/* A batch has ended: write its reductions to the trace, if they are not there yet. */
void sync_record(struct sync *sync);
/* While the tower's thread waits for its device: must it call sync_poll, and has the reduction failed (a negative
 * errno)? */
bool sync_needs_polling(const struct sync *sync);
int sync_poll(struct sync *sync);

/* ---- for modes (modes.c) ---- */

/* The region's arena in the tower; count 0 where it has none. */
struct reduce_region sync_region(struct tower *tower, enum region region);

/* Update all weights with gradients that are sums over `samples` samples; does nothing with 0. */
int sync_update(struct sync *sync, const struct local_batch *local, uint32_t samples);
/* Start all buckets of a region for batch `batch`. Also for the trainer. */
int sync_start_region(struct sync *sync, enum region region, uint64_t batch);
/* Queue a wait for the buckets of a region; the tower's backend adopts new weights. Also for the trainer. */
int sync_await_region(struct sync *sync, enum region region);
/* Does the server update after all sums, not bucket by bucket (server_updates_apart)? */
bool sync_updates_apart(const struct sync *sync);

/* Are the towers one model after this batch? Means are taken before every evaluation, and with every > 0 after training
 * steps every, 2 * every, ... of the run. */
bool mean_is_due_after(const struct local_batch *local, uint64_t every);
/* Samples that one tower and all towers have trained on since they were one model, up to and with batch `last`. */
struct mean_share { uint64_t own, all; };
struct mean_share mean_share(const struct schedule *schedule, uint32_t tower, uint64_t last, uint64_t every);

#endif
