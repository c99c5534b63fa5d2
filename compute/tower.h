/* A tower: one replica of the network on one device, with its arenas, its backend and its plans. Opened, used and
 * closed from the tower's own thread. Other threads read only the arenas and their layout (reductions), ordered by
 * events. Used by sync/; main reads and writes weights while no step runs.
 *
 * A training step, as sync/trainer.c queues it: tower_forward, tower_backward, whose gradients are reduced over the
 * towers as they become ready, tower_update, tower_update_average, tower_result. */
#ifndef PIPETRAIN_TOWER_H
#define PIPETRAIN_TOWER_H

#include "compute/backend.h"
#include "compute/head.h"
#include "compute/param_groups.h"
#include "stage/slots.h"

/* The buffers of the optimizer, and one for gradients that are applied a step later. */
#define TOWER_STATES_MAX (OPTIMIZER_STATES_MAX + 1)
/* Different sizes of microbatches: three in a full batch (slices of pairs, and an odd last one), three in the last
 * batch of an epoch; or with in_pieces a full batch and the powers of 4 below 65536. */
#define TOWER_COUNTS 9u
#define TOWER_SLICES_MAX 256u

/* With train.slices: the slices of every batch that a tower computes, one microbatch each (stage/schedule.h). */
struct tower_slices {
    uint32_t all;               /* slices of a batch, <= TOWER_SLICES_MAX; 0: batches are not sliced */
    uint32_t first, count;      /* the slices that this tower computes */
    bool pairs;                 /* as in struct schedule */
};

/* With model.parts: the parts of the head of the net that a tower computes (compute/share.h). Needs slices, and a
 * backend that computes shares; on others it does nothing. Without fp16 and has_bf16_grads. */
struct tower_parts {
    uint32_t all;               /* parts of every dense layer; 0: every tower computes the whole net */
    uint32_t first, count;      /* head_own_parts */
    uint32_t batch;             /* samples of a full batch of the run */
    bool evaluates;             /* the run evaluates samples: the tower computes its parts even where it has none of
                                 * them (evaluate_counts) */
};

struct tower_spec {
    uint32_t index;
    const struct net *net;      /* the whole net */
    const struct net *train_net;        /* as in struct backend_spec; NULL: training uses `net` */
    struct device *device;
    struct stream *compute;
    const struct backend_ops *backend;
    struct backend_spec backend_spec;   /* nets, device and compute are filled in by tower_open */
    struct optimizer optimizer;
    double average_decay;               /* decay of the moving average of weights and statistics; 0: no average is
                                         * kept */
    bool defers;                        /* updates apply the gradients of the step before */
    /* Gradients travel between towers as bf16 (sync.wire = bf16). With slices the gradients of each slice and every sum
     * of them are rounded to bf16, also in a tower, so that the number of towers changes no bits. */
    bool has_bf16_grads;
    uint64_t seed;                      /* seed of the initial weights */
    /* A local batch of more samples than this is computed in microbatches, whose gradients are added up. 0: local
     * batches of any size are computed at once. */
    uint32_t microbatch_max;
    struct tower_slices slices; /* used instead of microbatch_max, which is then 0 */
    struct tower_parts parts;
    /* Sizes of the microbatches that this tower will see. Entries of 0 need no plan. */
    uint32_t train_counts[TOWER_COUNTS], evaluate_counts[TOWER_COUNTS];
    /* With evaluates_only: batches have any number of samples up to evaluate_counts[0], and the microbatches have the
     * sizes in evaluate_counts, which decrease to 1: each is the largest that the samples left fill. */
    bool in_pieces;
    bool evaluates_only;                /* train_counts are 0: there are no gradients and no optimizer buffers, and the
                                         * weights are 0 until tower_write sets them */
};

/* Bytes by purpose. */
struct tower_needs {
    size_t arenas;              /* device memory: weights, gradients (of microbatches, their sums, as bf16), optimizer
                                 * buffers, statistics (and their sums), averages, the sums that updates need, and
                                 * what towers exchange for the head */
    size_t initial;             /* host memory, while tower_allocate runs: the initial values of one parameter, where
                                 * the gradients have no room for them */
    struct backend_needs backend;
};

struct tower;

/* Make all plans; allocate none of the device memory that they need yet. 0 or a negative errno. */
int tower_open(struct tower **tower_out, const struct tower_spec *spec);
void tower_close(struct tower *tower);
/* The memory that tower_allocate will allocate. */
struct tower_needs tower_needs(const struct tower *tower);
/* Allocate that memory. Unless the tower only evaluates, set the initial weights (they depend on the seed alone, not on
 * backend, layout or tower) and the initial values of the optimizer's buffers. Once, before all functions below. 0 or a
 * negative errno. */
int tower_allocate(struct tower *tower);

/* ---- a step: each function queues work on the compute stream and returns 0 or a negative errno ---- */

/* The number of microbatches of `count` samples of this tower: 1 for an empty local batch; with slices always
 * slices.count, and some of them may be empty. */
uint32_t tower_microbatches(const struct tower *tower, uint32_t count);
/* The most microbatches of a batch of at most `most` samples. */
uint32_t tower_microbatches_most(const struct tower *tower, uint32_t most);
/* The samples of a microbatch, counted from the tower's first sample. */
struct batch_part tower_microbatch(const struct tower *tower, const struct local_batch *local, uint32_t microbatch);
/* Queue input and forward of the given microbatch of the slot's samples, which are queued in order from 0. The
 * caller has made the compute stream wait for slot->ready. The last microbatch records slot->free as soon as the
 * slot is no longer read; a microbatch of 0 samples computes nothing. `training` selects the plan. */
int tower_forward(struct tower *tower, struct slot *slot, uint32_t microbatch, bool training);
/* Queue backward of the last forward, of a microbatch that is not the tower's last, and add its gradients to the sums:
 * in order, or with slices in pairs (stage/pairwise.h). */
int tower_accumulate(struct tower *tower);
/* Queue backward of the last forward, of the last microbatch; the gradients include the sums of the microbatches
 * before. ready(arg, floats) is called each time the first `floats` of the gradient arena are queued to become final;
 * the last call covers all that is updated. A microbatch of 0 samples has gradients of zero. */
int tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg);
/* Statistics with slices; without them tower_divide_statistics does nothing. Every slice moves the running statistics
 * that the batch began with, and their mean over all slices, weighted by samples, replaces them. So after the last
 * forward of a training batch tower_statistics is the sum, over the slices of this tower, of statistics times samples.
 * Sum it over the towers, then divide it by the samples of the batch. */
bool tower_has_slices(const struct tower *tower);
int tower_divide_statistics(struct tower *tower, uint32_t batch_samples);
/* With class weights: queue the multiplication of a range of the gradients of tower_applied, which are sums over
 * `samples` samples times their class weights, by samples / the sum of these class weights (by 0 if it is 0), so that
 * an update that divides by `samples` applies the weighted mean. The sum of class weights is the first float of the
 * gradients: the range that contains it must have been reduced. Without class weights does nothing. */
int tower_weigh(struct tower *tower, size_t offset, size_t count, uint32_t samples);
/* Queue the update of arena range [offset, offset + count), which consists of whole parameters, from the gradients of
 * tower_applied. */
int tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step);
/* Must every bucket of gradients pass tower_check before one tower_update of all updated weights? Yes with fp16, when
 * steps are skipped if gradients are not finite, when the norm of all gradients is clipped, and with LARS and parts.
 * Otherwise buckets are updated as they arrive. */
bool tower_updates_at_once(const struct tower *tower);
int tower_check(struct tower *tower, size_t offset, size_t count);
/* With parts, after all checks and before tower_update at once: queue the sums of squares that the update needs, and put
 * those of the own parts, with whether their gradients are finite, where the towers exchange them
 * (compute/part_norms.h). tower_update with the same step then follows the exchange. Otherwise does nothing. */
int tower_put_norms(struct tower *tower, const struct optimizer_step *step);
/* With spec.defers: queue a copy of the gradients of this step, which the updates of the next step apply. */
int tower_defer(struct tower *tower);
/* Queue floats[i] *= factor over a range of any of the tower's arenas. */
int tower_scale(struct tower *tower, float *floats, size_t count, float factor);
/* A reduction wrote range [offset, offset + count) of the weights on the compute stream: refresh the backend's
 * copies. */
int tower_weights_changed(struct tower *tower, size_t offset, size_t count);
/* The caller acts only on those calls of ready() that complete a bucket, which lets a backend run everything in
 * between as one segment. `ends` are the ends of the buckets in floats, ascending; the last one is the end of all
 * that is updated. Once, before the first step. */
int tower_set_segments(struct tower *tower, const size_t *ends, uint32_t count);
/* ---- model.parts: the head of the net, for all samples of the batch ----
 *
 * In a step all microbatches are forwarded first. Then the head: exchanges (head_exchange, in order) and stages
 * alternate. Then backward of all microbatches, in the same order. */

bool tower_has_parts(const struct tower *tower);
/* The net that the tower computes: its share, or without parts the whole net. */
const struct net *tower_net(const struct tower *tower);
/* The head, with parts; else NULL. */
const struct head *tower_head(const struct tower *tower);
/* The exchanges of a step, and the memory that they exchange (for an allocated tower). Return 0 without parts. */
uint32_t tower_exchanges(const struct tower *tower, struct head_exchange exchanges_out[HEAD_EXCHANGES_MAX]);
size_t tower_outside(const struct tower *tower, float **floats_out);
/* Queue forward or backward of own parts of a stage of the head, for the batch to which the local batch belongs. */
int tower_head_forward(struct tower *tower, const struct local_batch *local, uint32_t stage, bool training);
int tower_head_backward(struct tower *tower, uint32_t stage);
/* tower_result and tower_answers of a microbatch, which may be empty, after the last stage's statistics are exchanged.
 * After an update that was skipped, the result of the last microbatch says so, on the host no other. */
int tower_head_result(struct tower *tower, const struct local_batch *local, uint32_t microbatch,
                      struct backend_result *result_out);
int tower_head_answers(struct tower *tower, const struct local_batch *local, uint32_t microbatch,
                       struct answer *answers_out);
/* Has the trunk losses of its own, auxiliary ones? False without parts. */
bool tower_has_trunk_losses(const struct tower *tower);
/* Queue a copy of them, as loss_sum of *result_out (pinned host memory), for a microbatch with samples of the training
 * step. */
int tower_trunk_result(struct tower *tower, uint32_t microbatch, struct backend_result *result_out);
/* The parameters of tower_net that are parts of parameter `whole` of the whole net: the first after `after`
 * (NET_NO_PARAMETER: the first of all), or NET_NO_PARAMETER. Without parts it is the parameter itself. */
uint32_t tower_piece(const struct tower *tower, uint32_t whole, uint32_t after);
/* Where the numbers of such a parameter begin in the plain form of the whole parameter. */
size_t tower_piece_first(const struct tower *tower, uint32_t piece);
/* The parameter of tower_net that is part `part` of a parameter of the whole net, or all of it if it is not divided.
 * NET_NO_PARAMETER: another tower has that part. */
uint32_t tower_part(const struct tower *tower, uint32_t whole, uint32_t part);
/* tower_read of a parameter of tower_net, whose numbers alone are written. */
int tower_read_piece(struct tower *tower, uint32_t piece, float *plain_out);

/* Queue loss and counts of the last forward into *result_out (pinned host memory), which holds them once the compute
 * stream has executed the copy. If the last microbatch has no samples, they are those of the last microbatch of the
 * batch that has samples, if any, because they include the counters of all steps. */
int tower_result(struct tower *tower, struct backend_result *result_out);
/* Queue a copy of the answers of the last forward, which was not training, to answers_out (pinned host memory): one for
 * each sample of the microbatch. */
int tower_answers(struct tower *tower, struct answer *answers_out);
/* Copy the logits of the last forward, which was not training, to host memory: count x classes floats, sample by
 * sample. Blocks until the compute stream has executed the copy; results queued before are complete then, too. */
int tower_logits(struct tower *tower, float *logits_out);
/* The same with the input of net_embedding_layer, with backend_spec.keeps_embedding. */
int tower_embeddings(struct tower *tower, float *embeddings_out);

/* Do nothing without spec.has_bf16_grads. Convert range [offset, offset + count) of the gradients of tower_applied to
 * tower_bf16_grads, rounding to the nearest, ties to even; or back. */
int tower_grads_to_bf16(struct tower *tower, size_t offset, size_t count);
int tower_grads_from_bf16(struct tower *tower, size_t offset, size_t count);

/* ---- the moving average of weights and running statistics (Polyak, Juditsky 1992) ---- After update t each number of
 * the average moves towards the tower's number by 1 - decay of their distance; after the first update it is equal to
 * that number, as in PyTorch's AveragedModel with get_ema_multi_avg_fn and use_buffers. Evaluation and the weights that
 * a run saves use the average: for that it is swapped with the weights and statistics. Without an average
 * (spec.average_decay 0) these functions do nothing. */

/* Call after update number `step` (from 0) of the run is queued, or would be queued if the tower had samples, while the
 * average is not shown. The average does not move in a step whose update was skipped, except the first. */
int tower_update_average(struct tower *tower, uint64_t step);
/* Let the tower compute with the average, or with the trained weights again. Between two steps, while no reduction of
 * gradients is under way: the gradients serve as temporary storage. */
int tower_show_average(struct tower *tower, bool is_shown);
bool tower_shows_average(const struct tower *tower);
/* Where the average is stored (while it is shown, the trained weights are stored there), with the layout of the updated
 * weights, or of the statistics. NULL: no average is kept, or the network has no such numbers. */
float *tower_average_weights(struct tower *tower);
float *tower_average_statistics(struct tower *tower);

/* ---- arenas ---- */

/* The layout of weights, gradients and states, with ranges by the parameters of tower_net. */
const struct arena *tower_arena(const struct tower *tower);
/* The layout of the arena that holds a parameter of tower_net: tower_arena, or the arena of statistics. */
const struct arena *tower_arena_of(const struct tower *tower, uint32_t parameter);
float *tower_weights(struct tower *tower);
/* The gradients of this tower's backward; NULL where the tower only evaluates. */
float *tower_gradients(struct tower *tower);
/* The gradients that updates apply: tower_gradients, or with spec.defers the deferred ones, which are 0 at first. */
float *tower_applied(struct tower *tower);
/* The bf16 copies of the gradients that are updated; NULL without spec.has_bf16_grads. */
uint16_t *tower_bf16_grads(struct tower *tower);
/* The running statistics of the tower's layers: device memory, changed by every forward pass in training. */
float *tower_statistics(struct tower *tower);
size_t tower_statistics_count(const struct tower *tower);
/* Buffers of the updated part of the arena that persist from step to step: the optimizer's, then the deferred
 * gradients. tower_state returns NULL from tower_state_count on. */
uint32_t tower_state_count(const struct tower_spec *spec);
float *tower_state(struct tower *tower, uint32_t state);

/* ---- the rest ---- */

const struct param_groups *tower_param_groups(const struct tower *tower);
const struct tower_spec *tower_spec(const struct tower *tower);
struct backend *tower_backend(struct tower *tower);
/* Copy the weights or statistics of a parameter of the whole net (parameter->count floats, in plain row-major order) to
 * or from the host; with parts only the numbers that the tower has. Blocks. */
int tower_read(struct tower *tower, uint32_t parameter, float *plain_out);
int tower_write(struct tower *tower, uint32_t parameter, const float *plain);
/* Write one line per layer of the training plan: its implementation. */
void tower_describe(const struct tower *tower, void (*write)(void *arg, const char *line), void *arg);

#endif
