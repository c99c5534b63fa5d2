/* Backends: implementations of a network's layers and of all arithmetic on a tower's arenas.
 *
 * A backend object belongs to one tower and is used from the tower's thread only. It is set up in this order: open;
 * stored_sizes, which decides how each parameter is stored in the arenas; lay_out; one plan per number of samples
 * for training and for evaluation, which does everything that depends only on shapes and allocates no memory for
 * values; needs, which says how much memory all plans need; bind, which sets the memory of the arenas; allocate.
 * Then forward and backward only execute plans, without allocations. Losses and gradients are SUMS over samples; the
 * division by the global number of samples happens once, in the update. */
#ifndef PIPETRAIN_BACKEND_H
#define PIPETRAIN_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/arena.h"
#include "compute/floats.h"
#include "compute/net.h"
#include "compute/optimizer.h"
#include "compute/plan/plan.h"
#include "stage/device.h"

enum layout { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_NCHW };

/* Where the CPU uses Winograd's algorithm for 3 x 3 convolutions in fp32: where a rule predicts that it is faster
 * (auto), nowhere (direct), or wherever it is implemented. It multiplies less and rounds more (doc/numerics.md). */
enum convolution { CONVOLUTION_AUTO, CONVOLUTION_DIRECT, CONVOLUTION_WINOGRAD };

/* How training computes mean and variance of a batch normalisation's input. Exact: in a pass of their own, without
 * subtracting large sums. Fused (CUDA, bf16 and fp16): from the sums of values and of their squares, which
 * the convolution before the normalisation also computes. Where cuDNN cannot do that, as if it were exact. See
 * doc/numerics.md. */
enum batch_statistics { BATCH_STATISTICS_EXACT, BATCH_STATISTICS_FUSED };

/* The precision of activations and of the inputs of matrix products. Weights, statistics, sums, loss and reductions are
 * always fp32. tf32 rounds the inputs of products to 10 bits of mantissa; fp16 scales the loss
 * (compute/cuda/kernels.h). */
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISION_FP16, PRECISION_COUNT };

/* Whether steps are replayed as CUDA graphs instead of queued call by call. */
enum graph_use { GRAPH_AUTO, GRAPH_ON, GRAPH_OFF };

struct backend_spec {
    const struct net *net;      /* lent */
    /* Lent. The net of training plans: the same model for images of another size, with interchangeable parameters
     * (net_find_sized). NULL: it is `net`. */
    const struct net *train_net;
    struct device *device;      /* lent; memory is allocated on it */
    struct stream *compute;     /* lent; everything is queued on it */
    uint32_t threads;           /* CPU threads this tower may use, >= 1 */
    uint32_t local_max;         /* largest local batch of the run: layouts are chosen for this shape, so that
                                 * all towers store parameters alike */
    enum layout layout;
    enum convolution convolution;
    enum batch_statistics batch_statistics;
    uint64_t seed;              /* seed of dropout */
    float label_smoothing;      /* in training: the share of the target that is spread evenly over all classes (Szegedy
                                 * et al. 2016) */
    /* In training: a factor of each class, >= 0, for the loss and the gradients of its samples; [net->classes], lent;
     * NULL: all 1. The loss is then a sum of factor * loss, as that of PyTorch's CrossEntropyLoss(weight) before its
     * mean. */
    const float *class_weights;
    bool allow_ref;             /* oneDNN: accept its "ref" implementations */
    enum precision precision;
    enum graph_use graph;       /* CUDA */
    uint32_t device_towers;     /* CUDA: towers that share the device and its memory, 0 = 1 */
    size_t workspace_max;       /* bytes that a convolution may use in addition to its values (on the CPU: by
                                 * Winograd's algorithm), 0 = 256 MiB */
    bool skips_nonfinite;       /* skip steps whose gradients are not finite */
    bool keeps_embedding;       /* in evaluation, the input of net_embedding_layer is kept to the end of forward */
    bool poison;                /* for tests: fill unused memory with NaN after every layer */
    bool fuses;                 /* CUDA, 16-bit types: data gradients of convolutions also add the gradients of other
                                 * branches and apply the mask of a ReLU, by plans that cuDNN compiles when planning */
    bool time_plans;            /* CUDA: measure the best candidates of every product when planning */
    const char *plan_cache;     /* CUDA: folder of the plan cache (cuda/plan_cache.h), NULL: none; lent */
};

/* The net of plans for training or for evaluation. */
static inline const struct net *backend_net(const struct backend_spec *spec, bool training)
{
    return training && spec->train_net != NULL ? spec->train_net : spec->net;
}

static inline size_t backend_workspace(const struct backend_spec *spec)
{
    return spec->workspace_max > 0 ? spec->workspace_max : (size_t)256 << 20;
}

struct mix;
struct part_norms;

/* The input of a step. Pointers are to device memory. */
struct backend_input {
    const uint8_t *pixels;      /* count x NHWC */
    const int32_t *labels;      /* count, BATCH_NO_LABEL (-1) = no sample */
    const struct mix *mixes;    /* count: how samples 2k and 2k + 1 are mixed (compute/mixing.h); NULL: no sample is
                                 * mixed */
    uint64_t first_position;    /* position of sample 0 in its epoch: dropout is a function of (seed, layer, epoch,
                                 * position, element) */
    uint32_t epoch;
};

struct backend_result {
    double loss_sum;            /* over the samples with a label */
    uint32_t correct;           /* samples whose largest logit (the first of equals) is the label; for mixed samples the
                                 * label of the larger share */
    uint32_t counted;           /* samples with a label */
    double weight_sum;          /* with class weights, in training: the sum of the class weights of the samples; a mixed
                                 * sample has the mean of two, by its shares. Otherwise 0 */
    uint32_t skipped_steps;     /* fp16: updates skipped so far because a gradient overflowed */
    float loss_scale;           /* fp16: the factor of this step's gradients, else 1 */
    uint32_t is_skipped;        /* not 0: the update of this training step was skipped */
};

/* The label and the predicted class of a sample of an evaluation: the first largest logit, as for
 * backend_result.correct. */
struct answer {
    int32_t label;              /* BATCH_NO_LABEL (-1) = no sample */
    uint32_t predicted;
};

/* Half the level 2 cache of an H100 or H200. */
#define STEP_CACHE_BYTES ((size_t)25000000)

/* What the operations of a step are for. */
enum step_work {
    STEP_CONVOLUTIONS,          /* the library's convolutions */
    STEP_NORMS,                 /* batch, layer and local response normalisation, with what is fused into them */
    STEP_SUMS,                  /* additions of branches that no other operation computes, and sums of gradients */
    STEP_OTHERS,
    STEP_WORK_COUNT
};

/* The operations that a training step queues on a device, from the batch in device memory to the copy of the result,
 * without the update. */
struct step_counts {
    uint32_t kernels;           /* launches of pipetrain's kernels */
    uint32_t convolutions, products;    /* library calls, each of which launches one or a few kernels */
    uint32_t copies;            /* copies on the device, and of the result to the host */
    /* Bytes of device memory that the operations read and write: for every kernel, library call and copy, the tensors
     * that it reads and those that it writes, as they are stored, with padding. A tensor that is read and overwritten
     * counts twice, one that the cache still holds counts as well; a library's workspace does not count, nor do
     * arguments and single numbers. */
    size_t bytes[STEP_WORK_COUNT];
    size_t cached_bytes;        /* of these bytes, those that are read from a cache of the device, by a model: a pass
                                 * that begins at the end of a tensor where the last pass over it ended finds up to
                                 * STEP_CACHE_BYTES there, less what was touched in between */
    bool is_recorded;           /* all of this is launched as a few CUDA graphs */
    size_t value_bytes;         /* bytes of values, gradients and data that layers keep from forward to backward */
};

/* Bytes of device memory by purpose, in addition to the arenas. */
struct backend_needs {
    size_t values;              /* values, gradients and data that layers keep from forward to backward */
    size_t workspace;           /* workspace of library calls */
    size_t weights;             /* additional copies of weights */
    size_t room;                /* host address space that libraries use temporarily */
};

/* The number of samples that fit into `there` bytes, given that `count` samples need `needs`: only the values grow with
 * the number of samples. */
uint32_t backend_fitting(const struct backend_needs *needs, uint32_t count, size_t there);

/* The memory of the arenas; gradients is NULL when there are only plans for evaluation. */
struct backend_memory { float *weights, *gradients, *statistics; };

/* Instruction sets of CPUs; each includes those before it. */
enum instructions {
    INSTRUCTIONS_BASE,
    INSTRUCTIONS_SSE41,
    INSTRUCTIONS_AVX,
    INSTRUCTIONS_AVX2,
    INSTRUCTIONS_AVX512,
    INSTRUCTIONS_BF16,
    INSTRUCTIONS_AMX
};
const char *instructions_name(enum instructions set);       /* "AVX-512" */

struct backend_ops {
    const char *name;           /* "reference", "onednn", "cuda" */
    const struct library *libraries;    /* libraries that the backend uses; NULL: none */
    bool host_memory;           /* device memory is host memory; false: memory of a CUDA device */
    const char *device;         /* kind of devices: "cpu", "cuda", "null" */
    bool computes;              /* the backend trains; false: it only counts samples */
    bool keeps_plans;           /* the backend uses spec.plan_cache */
    enum instructions (*instructions)(void);    /* the newest instruction set that its library uses on this CPU; NULL:
                                                 * unknown */
    bool has_teams;             /* computes with an OpenMP team of spec.threads threads */
    /* Does the backend support the layout, precision, convolution and statistics of the spec? 0, or, with the reason in *reason,
     * -EINVAL (another setting is needed) or -ENODEV (another device is needed). Reads nothing else of the spec. */
    int (*supports)(const struct backend_spec *spec, struct unsupported_reason *reason);
    int (*open)(struct backend **backend_out, const struct backend_spec *spec);
    /* Count the operations of a step of `count` samples of the spec's net in its precision, without a device. 0,
     * -EOVERFLOW (logged: too many samples) or -ENOMEM. NULL: the backend queues nothing. */
    int (*count_step)(const struct backend_spec *spec, uint32_t count, struct step_counts *counts_out);
    void (*close)(struct backend *backend);
    /* Set stored_counts[i] to the number of floats of parameter i in an arena. */
    int (*stored_sizes)(struct backend *backend, size_t *stored_counts);
    /* Set the layout of the arenas, lent until close. */
    void (*lay_out)(struct backend *backend, const struct arenas *arenas);
    /* Make a plan; keeps no device memory. Logs errors. */
    int (*plan)(struct backend *backend, const struct plan_spec *spec, struct plan **plan_out);
    void (*plan_close)(struct plan *plan);
    /* The memory that all plans made so far need together; only one runs at a time. */
    void (*needs)(const struct backend *backend, struct backend_needs *needs_out);
    /* Set the memory of the arenas (device memory), lent until close. */
    int (*bind)(struct backend *backend, const struct backend_memory *memory);
    /* Allocate the memory that `needs` reported and prepare the first step. Call again after further plans. */
    int (*allocate)(struct backend *backend);
    /* Convert a parameter between its plain row-major form (host memory, parameter->count floats) and its stored range
     * in any arena (device memory). After bind. Both block; unpack allocates nothing, so that a run can always be
     * saved. */
    int (*pack)(struct backend *backend, uint32_t parameter, const float *plain, float *stored);
    int (*unpack)(struct backend *backend, uint32_t parameter, const float *stored, float *plain);
    /* Like unpack, from a copy of the stored range in host memory; from any thread, while the backend is in use.
     * Allocates nothing. */
    int (*plain)(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
    /* State that the backend carries from step to step in addition to the arenas (fp16: the loss scale): `carried`
     * returns it, *bytes_out bytes of device memory, which may be 0; `carry` sets it from host memory and blocks. Both
     * NULL: there is no such state. */
    const void *(*carried)(const struct backend *backend, size_t *bytes_out);
    int (*carry)(struct backend *backend, const void *carried);

    /* Write one line per layer: implementations and layouts. */
    void (*plan_describe)(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg);

    /* Convert uint8 pixels to the net's input by its transform, and copy the labels, which are needed until the loss.
     * Afterwards the slot is not read any more. Pixels, labels and mixes are NULL for a plan that does not read the
     * image (compute/share.h). */
    int (*input)(struct plan *plan, const struct backend_input *input);
    /* Run all layers; the loss layer computes the result and, in training, the gradient of the logits. */
    int (*forward)(struct plan *plan);
    /* Run the layers from the last to the first; call layer_done(arg, layer) after each layer that has parameters. */
    int (*backward)(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
    /* Queue a copy of the result of the last forward to *result_out (pinned host memory). */
    int (*result)(struct plan *plan, struct backend_result *result_out);
    /* Queue a copy of the answers of the last forward of an evaluation plan to answers_out (pinned host memory): one
     * for each sample of the plan. */
    int (*answers)(struct plan *plan, struct answer *answers_out);
    /* Copy the first input of a layer in the last forward of an evaluation plan to host memory, sample by sample, in
     * C,H,W order. It has to be in memory still: the layer is the last loss, whose input are the logits, or with
     * spec.keeps_embedding that of the embedding. Waits for the compute stream, so that all results queued before are
     * complete; allocates nothing. */
    int (*values)(struct plan *plan, uint32_t layer, float *values_out);
    /* For shares of a net (compute/share.h). NULL: the backend does not compute them. `plan` is one with
     * LAYER_PART_LOSS after its forward, when outside.stats has those of all parts; samples first .. first + count - 1
     * of it, maybe none.
     *
     * Queue a copy of the result of these samples to *result_out (pinned host memory), as `result` does; losses are
     * added in the order of samples. */
    int (*part_result)(struct plan *plan, uint32_t first, uint32_t count, struct backend_result *result_out);
    /* Queue a copy of their answers to answers_out (pinned host memory). */
    int (*part_answers)(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out);
    /* With class weights: set number 0 of the arena of gradients to the sum of the samples' class weights. */
    int (*part_weigh)(struct plan *plan, uint32_t first, uint32_t count);
    /* Queue zeros to numbers[0 .. count), and no samples to labels[0 .. rows) (device memory). */
    int (*send_nothing)(struct backend *backend, float *numbers, size_t count, struct mixed_label *labels,
                        uint32_t rows);
    /* The caller needs layer_done only after the layers for which `ends` (by layer index) is true, so that the layers
     * in between can run as one segment. Once, after all plans are made; until then every layer with parameters is an
     * end. NULL: the backend has no segments. */
    int (*segment)(struct backend *backend, const bool *ends);
    /* With fp16, whose gradients may overflow, and with spec.skips_nonfinite: check every range of the reduced
     * gradients before the single update of the whole arena. If a number was not finite, that update only lowers the
     * loss scale (fp16). NULL: the backend has no fp16 and computes in host memory, where the tower checks. */
    int (*check)(struct backend *backend, const float *gradients, size_t count);
    /* Between checks and update: copy `kept` to floats[0 .. count) (device memory) if a gradient was not finite. NULL
     * if `check` is NULL. */
    int (*restore_if_nonfinite)(struct backend *backend, float *floats, const float *kept, size_t count);

    /* The operations below are queued on the compute stream; ranges are device memory. */

    /* Compute the sums of squares of ranges. */
    int (*squares)(struct backend *backend, const struct squares *squares, uint32_t count);
    /* With parts whose norms are exchanged (compute/part_norms.h): put the numbers of the own parts, which `squares` and
     * `check` have found; and after the exchange, add those of all parts: the totals, and whether the update is skipped.
     * NULL: the arenas are in host memory, where the tower adds. */
    int (*put_norms)(struct backend *backend, const struct part_norms *norms);
    int (*add_norms)(struct backend *backend, const struct part_norms *norms);
    /* Update the ranges by the optimizer's rule. */
    int (*update)(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                  const struct optimizer_range *ranges, uint32_t range_count);
    /* Clamp gradients to [-limit * scale, limit * scale]; scale is the loss scale, or 1 where there is none. */
    int (*clip_value)(struct backend *backend, float *gradients, size_t count, float limit);
    /* floats[i] *= factor, in any of the tower's arenas. */
    int (*scale)(struct backend *backend, float *floats, size_t count, float factor);
    /* floats[i] *= factor / *divisor, by 0 if *divisor is 0; both in any of the tower's arenas. NULL: the arenas are in
     * host memory, where the tower divides. */
    int (*divide)(struct backend *backend, float *floats, size_t count, float factor, const float *divisor);
    /* Convert floats to bf16, rounding to the nearest, ties to even; and back. */
    int (*to_bf16)(struct backend *backend, const float *floats, uint16_t *halves, size_t count);
    int (*from_bf16)(struct backend *backend, const uint16_t *halves, float *floats, size_t count);
    /* floats[i] += share * (more[i] - keep * floats[i]): with share 1 and keep 0 a sum, with keep 1 a step of a moving
     * average. */
    int (*axpby)(struct backend *backend, float *floats, const float *more, size_t count, float share, float keep);
    /* Like axpby with keep 1 from `floats` to `average`, but does nothing if the device skipped the preceding update.
     * NULL: the device skips no updates; use axpby. */
    int (*ema_update)(struct backend *backend, float *average, const float *floats, size_t count, float share);
    /* Set *first_out (pinned host memory) to the index of the first of floats[0 .. count) that is not finite, or to
     * `count` or more when all are finite. NULL: the backend does not compute. */
    int (*find_nonfinite)(struct backend *backend, const float *floats, size_t count, uint64_t *first_out);
    /* A reduction wrote weights [offset, offset + count): refresh the backend's copies of them. NULL: there are no
     * copies. */
    int (*weights_changed)(struct backend *backend, size_t offset, size_t count);
};

extern const struct backend_ops backend_reference_ops;
extern const struct backend_ops backend_onednn_ops;
extern const struct backend_ops backend_cuda_ops;
extern const struct backend_ops backend_null_ops;
const struct backend_ops *backend_find(const char *name);       /* NULL when there is none */
/* The backend named `name` for devices of kind `device`, or the best one when the name is NULL; NULL when there is
 * none. On null devices the null backend is returned for any name. */
const struct backend_ops *backend_choose(const char *name, const char *device);
/* find_nonfinite, to_bf16 and from_bf16 for backends on host memory. */
int backend_find_nonfinite(struct backend *backend, const float *floats, size_t count, uint64_t *first_out);
int backend_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count);
int backend_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count);
/* send_nothing for backends on host memory. */
void backend_send_nothing(float *numbers, size_t count, struct mixed_label *labels, uint32_t rows);
/* Why backends on host memory compute exact statistics only. */
#define BATCH_STATISTICS_ON_CPU "only convolutions on a GPU compute statistics: exact, or devices.kind = cuda"
/* Called first by every open: does the backend support the spec's device and settings? 0, or -ENOTSUP with a
 * message. */
int backend_check(const struct backend_ops *ops, const struct backend_spec *spec);

#endif
