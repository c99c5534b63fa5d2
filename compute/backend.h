/* Backends: how a network's layers are computed, one table row per layer kind.
 *
 * A backend object belongs to one tower and is used from the tower's thread only. It is set up
 * in this order: open; store, which decides how each parameter is stored in the arenas; lay_out;
 * a plan per (sample count, training or not), which does everything that depends only on shapes
 * and takes no memory for values; needs, which says how much all of them need; bind, with the
 * arenas' memory; allocate. Then forward and backward only run what is planned: no allocation,
 * no look-up. Losses and gradients are SUMS over samples; the division by the global count
 * happens once, in the update. */
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

/* How the CPU computes convolutions of 3 x 3 in fp32: by Winograd's algorithm, which multiplies less and rounds
 * more (doc/numerics.md), where that is faster by rule, never, or wherever there is an implementation. */
enum convolution { CONVOLUTION_AUTO, CONVOLUTION_DIRECT, CONVOLUTION_WINOGRAD };

/* Of activations and of the products' inputs. Weights, statistics, sums, loss and
 * reductions are fp32 always. fp32 is true fp32; tf32 rounds the inputs of products to
 * 10 bits of mantissa; fp16 scales the loss (compute/cuda/kernels.h). */
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISION_FP16, PRECISION_COUNT };

/* Steps replayed from recorded graphs of the device's work instead of queued call by call. */
enum graph_use { GRAPH_AUTO, GRAPH_ON, GRAPH_OFF };

struct backend_spec {
    const struct net *net;      /* lent */
    struct device *device;      /* lent; memory comes from here */
    struct stream *compute;     /* lent; everything runs in its order */
    uint32_t threads;           /* CPU threads this tower may use, >= 1 */
    uint32_t slice_max;         /* largest slice any tower of the run gets: the shape layouts are chosen
                                 * for, equal in all towers, so that all store parameters alike */
    enum layout layout;
    enum convolution convolution;
    uint64_t seed;              /* of dropout */
    float label_smoothing;      /* training: the loss is of labels that are a mixture of themselves and, by this
                                 * share, of all classes alike (Szegedy et al. 2016); evaluation has none */
    bool allow_ref;             /* oneDNN: accept its "ref" implementations */
    enum precision precision;
    enum graph_use graph;       /* CUDA */
    uint32_t device_towers;     /* CUDA: towers that share the device and its memory, 0 = 1 */
    size_t workspace_max;       /* bytes a convolution may use beside its values (on the CPU: by Winograd's
                                 * algorithm), 0 = 256 MiB */
    bool skips_nonfinite;       /* steps whose gradients are not finite are left out (update/skip.h) */
    bool poison;                /* tests: between layers, memory that holds nothing is filled with NaN */
    bool time_plans;            /* CUDA: measure the best candidates of every convolution when planning */
    const char *plan_cache;     /* CUDA: directory convolution plans are kept in, NULL = none; lent */
};

static inline size_t backend_workspace(const struct backend_spec *spec)
{
    return spec->workspace_max > 0 ? spec->workspace_max : (size_t)256 << 20;
}

struct mix;

/* What one step needs besides the weights. Pointers are device memory. */
struct backend_input {
    const uint8_t *pixels;      /* count x NHWC */
    const int32_t *labels;      /* count, BATCH_NO_LABEL (-1) = no sample */
    const struct mix *mixes;    /* count: how samples 2k and 2k + 1 are mixed (compute/mixing.h); NULL: they are not */
    uint64_t first_position;    /* of sample 0 in its epoch: dropout is counted per sample as
                                 * (seed, layer, epoch, position, element) */
    uint32_t epoch;
};

struct backend_result {
    double loss_sum;            /* over the samples with a label */
    uint32_t correct;           /* largest logit is the label, of mixed ones that of the larger share (first largest
                                 * wins) */
    uint32_t counted;           /* samples with a label */
    uint32_t skipped_steps;     /* fp16: updates left out so far because a gradient overflowed */
    float loss_scale;           /* fp16: the factor of this step's gradients, else 1 */
    uint32_t is_skipped;        /* of a training step: not 0 = its update was left out */
};

/* What a training step asks of a device, from the batch in its memory to the result on its way back; the update is not
 * among it. */
struct step_counts {
    uint32_t kernels;           /* launches of kernels of ours */
    uint32_t convolutions, products;    /* by libraries, each a kernel or a few */
    uint32_t copies;            /* on the device, and that of the result */
    bool is_recorded;           /* all that is launched as a few graphs */
    size_t value_bytes;         /* of values, gradients and what layers keep between forward and backward */
};

/* Each implementation's struct backend begins with this. */
struct backend_base { const struct backend_ops *ops; };

/* Bytes of device memory by purpose, beside the arenas. */
struct backend_needs {
    size_t values;              /* values, gradients and what layers keep between forward and backward */
    size_t workspace;           /* of library calls */
    size_t weights;             /* further copies of weights */
    size_t room;                /* that libraries take for themselves and give back: of the host's address space */
};

/* How many samples would fit into `there` bytes when `count` need `needs`: values grow with the
 * samples, the rest does not. 0: not one. */
uint32_t backend_fitting(const struct backend_needs *needs, uint32_t count, size_t there);

/* The memory of the arenas; gradients NULL: there are plans for evaluation only. */
struct backend_memory { float *weights, *gradients, *statistics; };

/* What CPUs have for arithmetic, each with what stands before it. */
enum instructions { INSTRUCTIONS_BASE, INSTRUCTIONS_AVX2, INSTRUCTIONS_AVX512, INSTRUCTIONS_BF16, INSTRUCTIONS_AMX };

struct backend_ops {
    const char *name;           /* "reference", "onednn", "cuda" */
    const struct library *libraries;    /* it stands on, NULL: none */
    bool host_memory;           /* computes on memory of the host, else on that of a CUDA device */
    const char *device;         /* kind of the devices it computes on: "cpu", "cuda", "null" */
    bool computes;              /* weights come out of it, and a loss */
    bool keeps_plans;           /* spec.plan_cache is of use to it */
    enum instructions (*instructions)(void);    /* the newest that its library takes on this CPU, NULL: unknown */
    bool has_teams;             /* computes with an OpenMP team of spec.threads threads */
    /* Can it compute as the spec's layout, precision and convolution say? 0, or -EINVAL (another setting is
     * needed) or -ENODEV (another device is) with the reason. Reads nothing else of the spec. */
    int (*supports)(const struct backend_spec *spec, struct unsupported_reason *reason);
    int (*open)(struct backend **backend_out, const struct backend_spec *spec);
    /* Of `count` samples of the spec's net, in its precision: counted without a device, the rest of the spec is not
     * read. 0, -EOVERFLOW (logged: too many samples) or -ENOMEM. NULL: it queues nothing. */
    int (*count_step)(const struct backend_spec *spec, uint32_t count, struct step_counts *counts_out);
    void (*close)(struct backend *backend);
    /* Floats parameter i takes in an arena: stored_counts[net->parameter_count]. */
    int (*stored_sizes)(struct backend *backend, size_t *stored_counts);
    /* The layout of the arenas, lent until close. */
    void (*lay_out)(struct backend *backend, const struct arenas *arenas);
    /* Make the plan for `count` >= 1 samples; takes no device memory that lasts. Reports what it could
     * not do on stderr. */
    int (*plan)(struct backend *backend, uint32_t count, bool training, struct plan **plan_out);
    void (*plan_close)(struct plan *plan);
    /* What all plans made so far need together: only one runs at a time. */
    void (*needs)(const struct backend *backend, struct backend_needs *needs_out);
    /* The arenas (device memory), lent until close. */
    int (*bind)(struct backend *backend, const struct backend_memory *memory);
    /* Take what `needs` said, and make ready for the first step. Again after further plans. */
    int (*allocate)(struct backend *backend);
    /* Between the plain row-major parameter (host, parameter->count floats) and its
     * stored range (device; any arena: weights, gradients, a state, statistics). After bind. Blocks;
     * unpack allocates nothing, so that a run that has begun can be saved. */
    int (*pack)(struct backend *backend, uint32_t parameter, const float *plain, float *stored);
    int (*unpack)(struct backend *backend, uint32_t parameter, const float *stored, float *plain);
    /* The same way as unpack, from a copy of the stored range in host memory; any thread, while
     * the backend is used; allocates nothing. 0 or a negative errno. */
    int (*plain)(const struct backend *backend, uint32_t parameter, const float *stored, float *plain);
    /* What the backend carries from step to step beside the arenas (fp16: the loss scale), in
     * device memory of *bytes_out bytes; and that set to what host memory holds, which blocks.
     * Both NULL: nothing. *bytes_out may be 0. */
    const void *(*carried)(const struct backend *backend, size_t *bytes_out);
    int (*carry)(struct backend *backend, const void *carried);

    /* One line per layer on `write`: implementation names, layouts. */
    void (*plan_describe)(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg);

    /* uint8 pixels to the net's input by its transform. Afterwards the slot's pixels are not
     * read any more; labels are (until the loss), so the input step copies them. */
    int (*input)(struct plan *plan, const struct backend_input *input);
    /* All layers; the loss layer fills the result, and in a training plan the logits' gradient. */
    int (*forward)(struct plan *plan);
    /* Layers from the last to the first; after each layer that has parameters, layer_done(arg, layer). */
    int (*backward)(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg);
    /* Queue the result of the last forward into *result_out (pinned host memory), which
     * holds it once the compute stream has come that far. */
    int (*result)(struct plan *plan, struct backend_result *result_out);
    /* The logits of the last forward of an evaluation plan, count x classes floats sample by sample, to memory of
     * the host. Waits for the compute stream, so that what was queued before is there, too; allocates nothing. */
    int (*logits)(struct plan *plan, float *logits_out);
    /* The caller needs layer_done only after the layers whose `ends` is true (by layer
     * index): all between may be run as one piece. Once, after all plans are made; until
     * then every layer with parameters is an end. NULL: makes no difference. */
    int (*segment)(struct backend *backend, const bool *ends);
    /* For precisions whose gradients may overflow (fp16), and with spec.skips_nonfinite: every range of the
     * reduced gradients is checked before the one update of the whole arena, which does nothing but lower the
     * loss scale (fp16) when one held a number that is not finite. NULL: there is no such precision, and memory
     * is the host's. */
    int (*check)(struct backend *backend, const float *gradients, size_t count);
    /* Behind the checks and before the update: floats[0 .. count) (device memory) become those of `kept` when one of
     * the gradients was not finite. NULL where check is. */
    int (*restore_if_nonfinite)(struct backend *backend, float *floats, const float *kept, size_t count);

    /* The sums of squares of ranges of the arenas (device memory), on the compute stream. */
    int (*squares)(struct backend *backend, const struct squares *squares, uint32_t count);
    /* One optimizer pass over ranges of the arenas (device memory), on the compute stream. */
    int (*update)(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                  const struct optimizer_range *ranges, uint32_t range_count);
    /* Gradients (device memory) beyond -limit .. limit, or with a loss scale that many times it, become that. On the
     * compute stream. */
    int (*clip_value)(struct backend *backend, float *gradients, size_t count, float limit);
    /* floats[i] *= factor over a range of any of the tower's arenas (device memory), on the
     * compute stream. */
    int (*scale)(struct backend *backend, float *floats, size_t count, float factor);
    /* Between floats and as many bf16 (device memory), to the nearest, ties to even, on the compute stream. */
    int (*to_bf16)(struct backend *backend, const float *floats, uint16_t *halves, size_t count);
    int (*from_bf16)(struct backend *backend, const uint16_t *halves, float *floats, size_t count);
    /* floats[i] += share * (more[i] - keep * floats[i]) over ranges of the tower's arenas or of memory as large (device
     * memory), on the compute stream: with share 1 and keep 0 a sum, with keep 1 a step from the one to the other. */
    int (*axpby)(struct backend *backend, float *floats, const float *more, size_t count, float share, float keep);
    /* As mix with keep 1, from `floats`; but nothing is done where the update before it left itself out. NULL: no
     * update does, mix will do. */
    int (*ema_update)(struct backend *backend, float *average, const float *floats, size_t count, float share);
    /* Queue: *first_out (pinned host memory) becomes the index of the first of floats[0 .. count) (device
     * memory) that is an infinity or no number, `count` or more when there is none; there once the compute
     * stream has come that far. NULL: what it computes says nothing. */
    int (*find_nonfinite)(struct backend *backend, const float *floats, size_t count, uint64_t *first_out);
    /* Weights [offset, offset + count) were written on the compute stream by others (a reduction):
     * queue what has to follow them. NULL: nothing has. */
    int (*weights_changed)(struct backend *backend, size_t offset, size_t count);
};

extern const struct backend_ops backend_reference_ops;
extern const struct backend_ops backend_onednn_ops;
extern const struct backend_ops backend_cuda_ops;
extern const struct backend_ops backend_null_ops;
const struct backend_ops *backend_find(const char *name);       /* NULL when there is none */
/* The backend named `name` that computes on devices of kind `device`, or, when the name is NULL, the
 * best of those; NULL when there is none. One that does not compute stands in for any name. */
const struct backend_ops *backend_choose(const char *name, const char *device);
/* find_nonfinite on memory of the host. */
int backend_find_nonfinite(struct backend *backend, const float *floats, size_t count, uint64_t *first_out);
/* narrow and widen there. */
int backend_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count);
int backend_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count);
/* What every open asks first: does the backend compute on the spec's device, and as the spec says?
 * 0, or -ENOTSUP with a message. */
int backend_check(const struct backend_ops *ops, const struct backend_spec *spec);

#endif
