/* Modes of synchronisation behind one table: what a step does with its gradients. How bytes are
 * summed over towers is the reduction's business (reduce.h), what is computed the tower's.
 *
 * A mode is a row of functions on `struct sync`, which every tower has one of. The trainer calls
 * them through sync_..., from the tower's thread; they queue on the tower's streams and wait for
 * nothing but other towers' threads. A mode keeps no state of its own but for what it still waits
 * for: what is due when is a function of the batch's number, so that a run that goes on from a snapshot
 * does the same. */
#ifndef PIPETRAIN_SYNC_H
#define PIPETRAIN_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/learning_rate.h"
#include "compute/tower.h"
#include "stage/schedule.h"
#include "sync/bucket.h"
#include "sync/phases.h"
#include "sync/reduce.h"
#include "sync/step_clock.h"

enum sync_mode { SYNC_REPLICATED, SYNC_RELAXED, SYNC_INDEPENDENT, SYNC_AVERAGING, SYNC_SERVER_DEVICE,
                 SYNC_SERVER_DEVICE_RELAXED, SYNC_SERVER_HOST, SYNC_SERVER_HOST_RELAXED, SYNC_ASYNC, SYNC_MODE_COUNT };

/* Whom a server in host memory serves. */
enum serves { SERVES_NOBODY, SERVES_ALL /* together, batch by batch */, SERVES_EACH /* by itself */ };

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
    bool keeps_buffers;                         /* averaging: a mean leaves the optimizer's buffers to the towers */
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
    struct buckets buckets;                     /* of what the towers sum */
    const struct span *span;                    /* during sync_step */
    uint32_t ready;                             /* buckets of this step's gradients that are */
    int ready_result;                           /* of the first bucket_ready that failed in this step */
    bool joined;                                /* the reduction, or tried to */
    bool is_deferred;                           /* relaxed: gradients' sums are started and not waited for */
    uint32_t staleness;                         /* async: of the weights that the last training batch was done with */
};

/* Functions: 0, or a negative errno that ends the run. NULL: nothing to do. */
struct sync_ops {
    const char *name;           /* "replicated" */
    const char *sum;            /* what the towers sum, for people: "gradients"; NULL: nothing, they never meet */
    const char *place;          /* of the parameters, for people: "on the devices"; NULL: every tower has them */
    bool has_period;            /* spec.every is of use to it */
    bool is_one_model;          /* all towers are the same model at the end of the run; else each is its own */
    bool ends_whole;            /* every tower has all of its state behind a step, and finish changes statistics only */
    bool differs;               /* between steps the towers' models are not the same */
    bool has_owners;            /* buckets of gradients have owners, and so have the weights and optimizer states;
                                 * of use to two towers or more */
    bool defers;                /* its towers apply gradients a step later (tower_spec.defers) ... */
    const struct sync_ops *applied;     /* ... and otherwise do what this one does; NULL: it does not defer */
    enum serves serves;         /* spec.reduce is one of a server */
    bool sums[REGION_COUNT];    /* the arenas that the towers sum: no buckets for the others */
    /* The slot of a batch, training or evaluation, is taken; its forward is queued next. */
    int (*before_forward)(struct sync *sync, const struct span *span);
    /* The gradients of a bucket of a training batch are queued on the compute stream. NULL where nothing is summed
     * then. */
    int (*bucket_ready)(struct sync *sync, const struct span *span, uint32_t bucket);
    /* Backward is queued, and so every bucket_ready called: update the weights. */
    int (*apply)(struct sync *sync, const struct span *span);
    /* The update of a training batch is queued. */
    int (*after_step)(struct sync *sync, const struct span *span);
    /* All towers' states are copied next, behind what is queued of batches before and with `batch`: let them be in
     * the towers' arenas. Of all towers or none. */
    int (*before_snapshot)(struct sync *sync, uint64_t batch);
    /* All batches before `next` are done, and there will be no more: leave weights and averages as they are
     * to be saved. */
    int (*finish)(struct sync *sync, uint64_t next);
};

/* Indexed by enum sync_mode. */
extern const struct sync_ops *const sync_table[SYNC_MODE_COUNT];
/* The row for a run of so many towers. One alone has nobody to serve, and is replicated; asynchronous updates of
 * which none may be missing wait for each other, and are those of a parameter server. */
const struct sync_ops *sync_choose(enum sync_mode mode, uint32_t towers, uint32_t max_staleness);

/* For a tower that is planned: cut what is summed into buckets. */
void sync_cut(const struct sync_spec *spec, struct buckets *buckets_out);
/* Bytes of host memory, pinned or a server's, that joining takes, for the plan. For a tower that is planned. */
size_t sync_pinned_bytes(const struct sync_spec *spec);
/* For a tower that is open. 0 or a negative errno. */
int sync_init(struct sync *sync, const struct sync_spec *spec);
/* Marks that one step makes on the clock, at most. */
uint32_t sync_marks(const struct sync *sync);
/* Join the reduction; returns when all towers of it have. */
int sync_join(struct sync *sync, struct step_clock *clock);
/* Called once, whatever became of sync_join. */
void sync_leave(struct sync *sync);
/* A batch's forward is queued next: of an evaluation with the averages of weights where the tower keeps some. */
int sync_before_forward(struct sync *sync, const struct span *span);
/* Queue backward and update of a training batch whose forward is queued. */
int sync_step(struct sync *sync, const struct span *span);
/* All towers' states are to be copied behind batch `batch`, or, of the run's end, behind the one before it. */
int sync_before_snapshot(struct sync *sync, uint64_t batch);
/* Queue what is left to do behind the last batch of the run, the one before `next`. The tower's weights then are those
 * that evaluation uses. */
int sync_finish(struct sync *sync, uint64_t next);
/* The gradient at that place of the arena, behind training batch `span`, is a sum over so many samples: all of the
 * batch where the towers' sum lies in this tower's gradients, else the tower's own. Any thread. */
uint32_t sync_gradient_samples(const struct sync *sync, const struct span *span, size_t offset);
/* A batch has ended: its sums go into the trace, if they are not there yet. */
void sync_record(struct sync *sync);
/* Wait for the tower's device, looking after a reduction that can fail by itself: 0, what went wrong, or
 * -ECANCELED. */
int sync_await_end(struct sync *sync, struct event *end, struct phases *phases);

/* What rows are made of. */

/* Update all weights with gradients that are sums over `samples` samples. Nothing happens without
 * samples. */
int sync_update(struct sync *sync, const struct span *span, uint32_t samples);
/* The same for the range of a bucket of gradients, samples > 0; called for every one of them, from
 * the first to the last. */
int sync_update_bucket(struct sync *sync, const struct span *span, uint32_t bucket, uint32_t samples);
/* A bucket of gradients is queued: start it, or the halves of it where these travel (halves.h). */
int sync_start_gradients(struct sync *sync, uint32_t bucket, uint64_t batch);
/* Its sum, of batch `batch`, comes behind what is queued next: in the gradients themselves, or a server has it. Of one
 * that has an owner by that one. Nothing to wait for where the sum is deferred and was waited for before. */
int sync_await_gradients(struct sync *sync, uint32_t bucket, uint64_t batch);
/* The same of all buckets but those of other owners. */
int sync_await_sums(struct sync *sync);
/* Start all buckets of a region for batch `batch`; wait for them, and take over weights that came so. */
int sync_start_region(struct sync *sync, enum region region, uint64_t batch);
int sync_await_region(struct sync *sync, enum region region);
/* Fetch the optimizer's buffers from their owners or the server, for batch `batch`. */
int sync_fetch_states(struct sync *sync, uint64_t batch);
/* Where there is a server: fill it in front of the first batch of the process; does it need norms to update; does it
 * update apart from summing (server_updates_apart)? */
int sync_fill_server(struct sync *sync, const struct span *span);
bool sync_needs_norms(const struct sync *sync);
bool sync_updates_apart(const struct sync *sync);
/* Replace all that the mode sums but gradients by its mean over the towers, weighted by the samples
 * each has trained on since the mean before, up to and with batch `last` (mean.h). Said to the
 * reduction to be of batch `batch`. Nothing happens where the run has one tower. */
int sync_mean(struct sync *sync, uint64_t batch, uint64_t last, uint64_t every);
/* The same in front of batch `number`, unless the towers are one model there anyhow. */
int sync_mean_before(struct sync *sync, uint64_t number, uint64_t every);
/* The same where `span` is the first batch of an evaluation. */
int sync_mean_before_evaluation(struct sync *sync, const struct span *span, uint64_t every);

#endif
