/* One replica of the network on one device: arenas, backend, plans. Opened, used and
 * closed from the tower's own thread; only tower_gradients and the arena layout are
 * read by others (the reduction), ordered by events. */
#ifndef PIPETRAIN_TOWER_H
#define PIPETRAIN_TOWER_H

#include "compute/backend.h"
#include "stage/slots.h"

/* The optimizer's, and gradients that are applied a step later. */
#define TOWER_STATES_MAX (OPTIMIZER_STATES_MAX + 1)
#define TOWER_COUNTS 3u         /* sizes of pieces: full ones, what is left of full slices, and of the last one */

struct tower_spec {
    uint32_t index;
    const struct net *net;
    struct device *device;
    struct stream *compute;
    const struct backend_ops *backend;
    struct backend_spec backend_spec;   /* net, device and compute are filled in by tower_open */
    struct optimizer optimizer;
    double average_decay;               /* of the moving average of weights and statistics, 0 = none is kept */
    bool defers;                        /* updates are made of deferred gradients, those of the step before */
    bool has_bf16_grads;                /* there are gradients as bf16, too (update/halves.h) */
    uint64_t seed;                      /* of the initial weights */
    /* A slice of more samples than this is computed in pieces, full ones and what is left, whose gradients are added
     * up; 0 = slices of any size are computed as wholes. */
    uint32_t piece_max;
    /* Sizes of the pieces this tower will see; 0 entries are allowed and need no plan. */
    uint32_t train_counts[TOWER_COUNTS], evaluate_counts[TOWER_COUNTS];
    bool evaluates_only;                /* no train_counts: no gradients and no optimizer buffers, and the weights
                                         * are 0 until tower_write says what they are */
};

/* Bytes of device memory by purpose. */
struct tower_needs {
    size_t arenas;              /* weights, gradients (of pieces, their sums, as bf16), optimizer states, statistics,
                                 * averages, and sums over them */
    size_t initial;             /* of the host's memory: the initial values of one parameter at a time, where they
                                 * have no room in the gradients */
    struct backend_needs backend;
};

struct tower;
struct average;
struct param_groups;

/* Plan everything, and take none of the memory it needs yet. 0 or a negative errno. */
int tower_open(struct tower **tower_out, const struct tower_spec *spec);
void tower_close(struct tower *tower);
/* What tower_allocate takes. */
struct tower_needs tower_needs(const struct tower *tower);
/* Take it, and set the initial weights (a function of the seed only: the same for any backend,
 * layout and tower) and what the optimizer's buffers begin with, unless the tower only evaluates. Once,
 * before anything below. 0 or a negative errno. */
int tower_allocate(struct tower *tower);

/* Pieces that a slice of so many samples is computed in, at least 1; of 0 samples one that is empty. */
uint32_t tower_pieces(const struct tower *tower, uint32_t count);
/* Queue input and forward for a piece of the slot's samples, which the caller has made the compute
 * stream wait for (slot->ready), one piece after the other from 0 on; the last one records slot->free as
 * soon as the slot is not read any more. A slice of 0 samples does nothing but that. training says
 * which plan. */
int tower_forward(struct tower *tower, struct slot *slot, uint32_t piece, bool training);
/* Queue backward of the last forward, of a piece behind which another one of the slice comes: tower_backward of the
 * last one adds what all of them gave. */
int tower_accumulate(struct tower *tower);
/* Queue backward of the last forward. ready(arg, floats) is called each time a longer
 * prefix of the gradient arena is queued to become final; the last call names all of it that is
 * updated. A slice of 0 samples sets these gradients to zero. */
int tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg);
/* Queue the update of arena range [offset, offset + count): whole parameters; of tower_applied's gradients. */
int tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step);
/* Must every bucket be checked by tower_check, and then all that is updated by one
 * tower_update? (fp16, steps that may be left out: backend.h says why; and where the norm of all gradients is
 * limited.) Else buckets are updated as they come. */
bool tower_updates_at_once(const struct tower *tower);
int tower_check(struct tower *tower, size_t offset, size_t count);
/* With spec.defers: the updates of the next step are made of the gradients that are there now. Queues their copying. */
int tower_defer(struct tower *tower);
/* Queue floats[i] *= factor over a range of any of the tower's arenas. */
int tower_scale(struct tower *tower, float *floats, size_t count, float factor);
/* Range [offset, offset + count) of the weights was written on the compute stream by a reduction. */
int tower_weights_changed(struct tower *tower, size_t offset, size_t count);
/* tower_backward's caller only acts on the prefixes that end buckets: `ends` floats, in
 * ascending order, the last all that is updated. Once, before the first step. */
int tower_set_segments(struct tower *tower, const size_t *ends, uint32_t count);
/* Queue loss and counts of the last forward (of a piece) into *result_out (pinned host memory): there
 * once the compute stream has come that far. */
int tower_result(struct tower *tower, struct backend_result *result_out);
/* The logits of the last forward, which was not training: the slice's count x classes floats sample by sample, to
 * memory of the host. Blocks until the compute stream has come that far: a result queued before is there, too. */
int tower_logits(struct tower *tower, float *logits_out);

/* Of weights, gradients and states. */
const struct arena *tower_arena(const struct tower *tower);
/* The one a parameter lies in: that, or the statistics'. */
const struct arena *tower_arena_of(const struct tower *tower, uint32_t parameter);
float *tower_weights(struct tower *tower);
/* What backward leaves; NULL where the tower only evaluates. */
float *tower_gradients(struct tower *tower);
/* What updates are made of: those, or with spec.defers the deferred ones, which are 0 at first. */
float *tower_applied(struct tower *tower);
/* As bf16, as many as are updated; NULL without spec.has_bf16_grads. */
uint16_t *tower_bf16_grads(struct tower *tower);
/* The running statistics of the tower's layers, one after the other: device memory, changed by
 * every forward pass in training. */
float *tower_statistics(struct tower *tower);
size_t tower_statistics_count(const struct tower *tower);
/* Buffers of the arena's updated part that are carried from step to step: the optimizer's and, behind these, what is
 * deferred. */
uint32_t tower_state_count(const struct tower_spec *spec);
/* NULL from tower_state_count on. */
float *tower_state(struct tower *tower, uint32_t state);
/* Of its weights and statistics (average.h), valid as long as the tower. */
struct average *tower_average(struct tower *tower);
/* How its updates are cut. */
const struct param_groups *tower_param_groups(const struct tower *tower);
/* What the tower was opened with, and its backend. */
const struct tower_spec *tower_spec(const struct tower *tower);
struct backend *tower_backend(struct tower *tower);
/* Plain copy of a parameter's weights or statistics (parameter->count floats). Blocks. */
int tower_read(struct tower *tower, uint32_t parameter, float *plain_out);
int tower_write(struct tower *tower, uint32_t parameter, const float *plain);
/* Lines about the training plan: layers, implementations. */
void tower_describe(const struct tower *tower, void (*write)(void *arg, const char *line), void *arg);

#endif
