/* Our own CUDA kernels. Each function queues on `stream` and returns what the launch
 * returned; pointers are device memory unless said otherwise. Activations are NHWC with the
 * channels of every pixel padded to `stored` (a multiple of 8), padding zero. Pointers to
 * values, winners, partials and arenas are 16-byte aligned, else nothing is launched and
 * cudaErrorMisalignedAddress returned; cudaErrorInvalidValue when a shape breaks a rule below.
 * A count of 0 is nothing to do; sums over nothing are 0. What is added to a gradient is rounded
 * with it, once; "[x +]" stands for `adds`. No kernel allocates, synchronises
 * or uses floating-point atomics: results are the same in every run.
 * Callable from C; compiled by nvcc only. */
#ifndef PIPETRAIN_KERNELS_H
#define PIPETRAIN_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/cuda/loss_scale.h"
#include "compute/dropout.h"
#include "compute/mixing.h"
#include "compute/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Type of activations. All arithmetic is fp32, results rounded once. */
enum value_type { VALUE_FP32,
                  VALUE_FP16,
                  VALUE_BF16,
                  VALUE_TYPE_COUNT };

static inline size_t value_bytes(enum value_type type)
{
    return type == VALUE_FP32 ? 4 : 2;
}

/* What changes from step to step and is read by kernels that may be part of a recorded
 * graph; written by kernel_input, which never is. */
struct step_values {
    uint64_t first_position;
    uint32_t epoch;
};

struct image_shape {
    uint32_t count;            /* samples */
    uint32_t pixels;           /* height * width */
    uint32_t channels, stored; /* real and stored channels of a pixel */
    uint32_t width;            /* pixels of a row; input step with mixes only */
};

struct pool_shape {
    uint32_t count, stored; /* samples, stored channels */
    uint32_t in_h, in_w, out_h, out_w;
    uint32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
};

#define POOL_WINDOW_MAX 255u /* pixels in a window of max_pool: winners are bytes */

struct pad_shape {
    uint32_t count, channels; /* samples; real channels of the input */
    uint32_t in_h, in_w, in_stored, out_h, out_w, out_stored;
    uint32_t before, stride;
};

struct surround_shape {
    uint32_t count, stored; /* samples; channels, a multiple of 8 */
    uint32_t in_h, in_w, out_h, out_w;
    uint32_t top, left; /* rows and columns of zeros in front of the image; what is left of out is behind it */
};

/* The inputs of a concat, by their values: a host struct of device pointers. Strides are numbers from pixel
 * to pixel, multiples of 8. */
struct concat {
    size_t pixels; /* of all samples */
    uint32_t kept; /* channels that stand at the front of the result already */
    uint32_t stride; /* of the result */
    uint32_t count;
    struct {
        const void *values;
        uint32_t channels, stride;
    } parts[LAYER_INPUTS_MAX];
};

struct response_shape {
    size_t pixels; /* of all samples */
    uint32_t channels, stored;
    struct local_response_norm how;
};

struct loss_shape {
    uint32_t count, classes, stored; /* rows of logits; logits of a row, and their padding with them */
    float weight;                    /* factor of loss and gradient */
    bool is_auxiliary;               /* neither counts samples nor correct ones */
    bool adds;                       /* to the loss and the counts of another one */
    float smoothing;                 /* share of the label that is all classes alike */
};

/* out = pixels by the transform (count x pixels x channels uint8 -> stored channels), with mixes (NULL: none) mixed
 * before it, labels_out what is asked of every sample, *values set from the arguments. The slot is not read
 * afterwards. */
cudaError_t kernel_input(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                         const struct input_transform *transform /* host */, const uint8_t *pixels,
                         const int32_t *labels, const struct mix *mixes, uint64_t first_position, uint32_t epoch,
                         void *out, struct mixed_label *labels_out, struct step_values *values);

/* Largest of the window's values that lie in the image (the first largest, row by row, wins;
 * every window holds at least one). winners (NULL: none wanted): its place in the window. */
cudaError_t kernel_max_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                            const void *in, void *out, uint8_t *winners);
/* in_gradient[i] = [in_gradient[i] +] sum of out_gradient over the windows whose winner is i, in
 * window order. */
cudaError_t kernel_max_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                     const void *out_gradient, const uint8_t *winners, void *in_gradient, bool adds);

/* Mean of the window's values that lie in the image; windows may be of any size. */
cudaError_t kernel_average_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                const void *in, void *out);
cudaError_t kernel_average_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds);

/* out's pixel (y, x) is in's pixel (y * stride, x * stride) with `before` channels of zeros in front
 * and zeros behind. */
cudaError_t kernel_pad_channels(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                const void *in, void *out);
cudaError_t kernel_pad_channels_backward(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds);

/* out = in with zeros around every image. */
cudaError_t kernel_surround(cudaStream_t stream, enum value_type type, const struct surround_shape *shape,
                            const void *in, void *out);

/* The channels of the parts one behind the other, without the padding between them, and zeros up to the next
 * multiple of 8. Backward is kernel_pad_channels_backward of every part. */
cudaError_t kernel_concat(cudaStream_t stream, enum value_type type, const struct concat *concat, void *out);

/* Local response normalisation (compute/net.h); its sums of squares are made again backward. */
cudaError_t kernel_response_norm(cudaStream_t stream, enum value_type type, const struct response_shape *shape,
                                 const void *in, void *out);
/* in_gradient = [in_gradient +] the gradient of `in`; may be out_gradient. terms: pixels * stored
 * floats of scratch. */
cudaError_t kernel_response_norm_backward(cudaStream_t stream, enum value_type type,
                                          const struct response_shape *shape, const void *in,
                                          const void *out_gradient, float *terms, void *in_gradient, bool adds);

/* out[i] = in[i] > 0 ? in[i] : 0; out may be in. */
cudaError_t kernel_relu(cudaStream_t stream, enum value_type type, size_t count, const void *in, void *out);
/* in_gradient[i] = [in_gradient[i] +] (out[i] > 0 ? out_gradient[i] : 0); both may be the same. */
cudaError_t kernel_relu_backward(cudaStream_t stream, enum value_type type, size_t count, const void *out,
                                 const void *out_gradient, void *in_gradient, bool adds);
/* sum[i] = a[i] + b[i], then max(., 0) with relu; sum may be one of them. */
cudaError_t kernel_add(cudaStream_t stream, enum value_type type, size_t count, const void *a, const void *b,
                       bool relu, void *sum);

/* compute/dropout.h's mask of every sample (positions values->first_position + n) applied in
 * place, forward and backward alike; element numbers are those of the C,H,W order. */
cudaError_t kernel_dropout(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                           const struct dropout *dropout /* host */, const struct step_values *values,
                           void *in_out);

/* in_out[row][column] += bias[column] (of `type`), then max(., 0) with relu. For libraries
 * that refuse to do it as part of the product. columns is a multiple of 8. */
cudaError_t kernel_bias(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                        const void *bias, int relu, void *in_out);

/* Floats kernel_bias_gradient needs as scratch. */
size_t kernel_bias_partials(size_t rows, uint32_t columns);
/* With out (NULL: no ReLU) first gradient[i] = out[i] > 0 ? gradient[i] : 0; then
 * bias_gradient[column] = sum over rows of gradient, in an order fixed by the shape alone.
 * columns is a multiple of 8. */
cudaError_t kernel_bias_gradient(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                                 const void *out, void *gradient, float *partials, float *bias_gradient);

/* Batch normalisation of `rows` pixels of `columns` channels (a multiple of 8):
 * (x - mean) / sqrt(variance + epsilon) * gamma + beta. A host struct of device pointers. */
struct normalisation {
    size_t rows;
    uint32_t columns;
    uint32_t stride;           /* numbers from row to row of `in` and its gradient, a multiple of 8 */
    const float *gamma, *beta; /* gamma NULL: 1 */
    float *statistics;         /* the mean of every column, then 1 / sqrt(variance + epsilon) of every column; then,
                                * of a batch, the sum of squared distances from the mean of every column */
    struct {
        uint32_t columns;
        const float *means, *squares;
    } known;                   /* of a batch: the same of the first columns, a multiple of 8, found by another one */
};

/* Floats of scratch for the sums, and for the statistics of as many columns that are not known. */
size_t kernel_norm_partials(size_t rows, uint32_t columns);
/* Mean and biased variance of `in`, as far as they are not known, into the statistics (gamma and beta are
 * not read), and into the running ones: running = decay * running + (1 - decay) * batch, of the variance
 * the unbiased one (of one row: 0). */
cudaError_t kernel_norm_statistics(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   float epsilon, double decay, const void *in, float *partials, float *running_mean,
                                   float *running_variance);
/* The statistics from the running ones. */
cudaError_t kernel_norm_running(cudaStream_t stream, const struct normalisation *norm, float epsilon,
                                const float *running_mean, const float *running_variance);
/* out = the normalised `in` [+ shortcut, NULL: none], then max(., 0) with relu; out may be in when its rows
 * lie as close. mask (NULL: not wanted): a bit for every number of out, whether it is above 0, the first of
 * eight the lowest of a byte. */
cudaError_t kernel_norm_apply(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                              const void *in, const void *shortcut, bool relu, void *out, uint8_t *mask);
/* The gradients of gamma (NULL: not wanted) and beta from that of the result. With relu the gradient
 * is first set to 0 where the result is not above 0: by `mask`, with a shortcut; without one (NULL)
 * the result is computed again and `gradient` stays as it is. means: 2 * columns floats for
 * kernel_norm_gradient. */
cudaError_t kernel_norm_sums(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                             const void *in, bool relu, const uint8_t *mask, void *gradient, float *partials,
                             float *means, float *gamma_gradient, float *beta_gradient);
/* in_gradient = [in_gradient +] the gradient of `in`; may be `gradient` when its rows lie as close. relu: of
 * a result without a shortcut, which is computed again. */
cudaError_t kernel_norm_gradient(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                 const void *in, bool relu, const void *gradient, const float *means,
                                 void *in_gradient, bool adds);

/* A convolution's filters and the normalisation of what they make, by the running statistics. A host
 * struct of device pointers. */
struct folding {
    uint32_t filters;          /* a multiple of 8 */
    size_t numbers;            /* of a filter, a multiple of 8 */
    float epsilon;
    const float *weights, *bias; /* bias NULL: 0 */
    const float *gamma, *beta;   /* gamma NULL: 1 */
    const float *mean, *variance;
};

/* Weights and bias (of `type`) of the convolution that does both. */
cudaError_t kernel_norm_fold(cudaStream_t stream, enum value_type type, const struct folding *folding, void *weights,
                             void *bias);

/* Per sample of the loss. */
struct sample_loss {
    float loss;
    uint32_t flags;
}; /* bit 0 counted, bit 1 correct */

/* Softmax cross-entropy of rows of logits. gradient (NULL: none wanted) gets (softmax - shares of the labels,
 * smoothed) * weight * scale->factor (scale NULL: 1), zeros in rows without a label (-1) and in padding columns;
 * may be the logits. samples: one a row, scratch. *result: weight times the loss summed in double in
 * a fixed order, counts, skipped_steps and loss_scale from *scale (0 and 1 without). */
cudaError_t kernel_softmax_loss(cudaStream_t stream, enum value_type type, const struct loss_shape *shape,
                                const void *logits, const struct mixed_label *labels, const struct loss_scale *scale,
                                void *gradient, struct sample_loss *samples, struct backend_result *result);

/* Sums of squares, as compute/floats.h has it, of any number of ranges. */
cudaError_t kernel_squares(cudaStream_t stream, const struct squares *squares /* host struct of device pointers */,
                           uint32_t count);

/* compute/optimizer.h's rule over ranges (device pointers) of the same arenas, in one launch for up to 112 of them that
 * lie behind the first, in any order. kept and decayed: what optimizer_numbers gives for ranges that do not decay, and
 * for those that do. shadow (NULL: none) also gets the new weights, rounded to `type`: it points to those of the
 * first range, and the other ranges are as many elements further on as in the arenas. scale (NULL: 1): gradients are
 * divided by its factor, and nothing is written when it overflowed. */
cudaError_t kernel_update(cudaStream_t stream, enum optimizer_kind kind,
                          const struct optimizer_numbers *kept /* host */,
                          const struct optimizer_numbers *decayed /* host */, const struct loss_scale *scale,
                          const struct optimizer_range *ranges /* host structs of device pointers */, uint32_t count,
                          enum value_type type, void *shadow);

/* Between fp32 and `type`. */
cudaError_t kernel_narrow(cudaStream_t stream, enum value_type type, size_t count, const float *from, void *to);
cudaError_t kernel_widen(cudaStream_t stream, enum value_type type, size_t count, const void *from, float *to);

/* scale->overflowed = LOSS_SCALE_BROKEN when a gradient is not finite (compute/floats.h), else left as it is. */
cudaError_t kernel_check(cudaStream_t stream, size_t count, const float *gradients, struct loss_scale *scale);
/* The end of a step's update: loss_scale.h's rule, or, where the factor is fixed, only that the step is counted; and
 * overflowed says whether it was left out. */
cudaError_t kernel_adjust_scale(cudaStream_t stream, struct loss_scale *scale, bool is_fixed);
/* Between the checks and the update: floats become those of `kept` when a gradient was not finite. */
cudaError_t kernel_restore_if_nonfinite(cudaStream_t stream, size_t count, const struct loss_scale *scale,
                                        const float *kept, float *floats);

/* *first = the index of the first of the floats that is not finite (compute/floats.h), UINT64_MAX when all are. */
cudaError_t kernel_find_nonfinite(cudaStream_t stream, size_t count, const float *floats, uint64_t *first);

/* floats beyond -limit .. limit become that; scale (NULL: 1): its factor times the limit. */
cudaError_t kernel_clip_value(cudaStream_t stream, size_t count, float limit, const struct loss_scale *scale,
                              float *floats);

/* floats[i] *= factor. */
cudaError_t kernel_scale(cudaStream_t stream, size_t count, float factor, float *floats);
/* floats[i] += share * (more[i] - keep * floats[i]); not where the step before was left out, by scale (NULL: it was
 * not). */
cudaError_t kernel_axpby(cudaStream_t stream, size_t count, float share, float keep, const struct loss_scale *scale,
                         const float *more, float *floats);

#define KERNEL_TOWERS_MAX 64u

/* Arenas of the towers, readable and writable from the stream's device. */
struct tower_arenas {
    uint32_t count;
    void *values[KERNEL_TOWERS_MAX];
};

/* For i in [begin, end): the sum over all towers, of fp32 and in tower order, rounded once to `type`, into the arenas
 * of `into_count` >= 1 towers from `into` on. begin is a multiple of 4. */
cudaError_t kernel_sum_towers(cudaStream_t stream, enum value_type type, const struct tower_arenas *arenas /* host */,
                              size_t begin, size_t end, uint32_t into, uint32_t into_count);

#ifdef __cplusplus
}
#endif

#endif
