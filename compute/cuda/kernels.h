/* Our CUDA kernels. Each function queues on `stream` and returns the status of the launch; pointers are device memory
 * unless noted. Activations are NHWC, the channels of a pixel padded to `stored` (a multiple of 8) with zeros. Pointers
 * to values, winners, partials and arenas must be 16-byte aligned, else nothing is launched and
 * cudaErrorMisalignedAddress is returned; cudaErrorInvalidValue when a shape breaks a rule below. A count of 0 does
 * nothing; sums over nothing are 0. "[x +]" means that x is added when `adds` is set; the sum is rounded once. No
 * kernel allocates, synchronises or uses floating-point atomics: results are the same in every run. Callable from C;
 * compiled by nvcc. */
#ifndef PIPETRAIN_KERNELS_H
#define PIPETRAIN_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/backend.h"
#include "compute/dropout.h"
#include "compute/mixing.h"
#include "compute/net.h"
#include "compute/part_loss.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ---- */

/* Type of activations. All arithmetic is fp32, results are rounded once. */
enum value_type { VALUE_FP32,
                  VALUE_FP16,
                  VALUE_BF16,
                  VALUE_TYPE_COUNT };

static inline size_t value_bytes(enum value_type type)
{
    return type == VALUE_FP32 ? 4 : 2;
}

/* The dynamic loss scale of fp16, in device memory: the gradients of loss * factor are computed, so that small ones are
 * not rounded to 0 in 16 bits; the update divides them by the factor, in fp32. After a step whose reduced gradients
 * hold a number that is not finite, nothing is updated and the factor is halved; after LOSS_SCALE_GROWTH good steps in
 * a row it is doubled (Micikevicius et al. 2018, "Mixed precision training"). The reduced gradients are the same in
 * every tower, so all towers decide alike without communication. In other precisions, where steps may be skipped, the
 * factor stays 1. */
#define LOSS_SCALE_FIRST 1024.0f        /* lower than usual, because gradients are sums over samples, not means */
#define LOSS_SCALE_LEAST 0x1p-14f
#define LOSS_SCALE_MOST 16777216.0f
#define LOSS_SCALE_GROWTH 2000u

#define LOSS_SCALE_BROKEN 1u            /* a checked gradient is not finite */
#define LOSS_SCALE_LEFT_OUT 2u          /* the last step was skipped; this one is not checked yet */

struct loss_scale {
    float factor;               /* factor of the loss in this step */
    uint32_t good_steps;        /* since the factor last changed */
    uint32_t overflowed;        /* LOSS_SCALE_...; 0: finite so far */
    uint32_t skipped_steps;     /* steps skipped since the start */
};

/* The three products of a convolution or a dense layer: forward, and the gradients of its input and its weight. */
enum product_pass { FPROP, DGRAD, WGRAD, PRODUCT_PASS_COUNT };

/* Values that change every step and are read by kernels that may be part of a recorded graph; written by kernel_input,
 * which is never part of one. */
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
    uint32_t top, left; /* rows and columns of zeros before the image; the rest of out is after it */
};

/* The inputs of a concat: a host struct of device pointers. Strides are numbers from pixel to pixel, multiples of 8. */
struct concat {
    size_t pixels; /* of all samples */
    uint32_t kept; /* the first channels of the result, which are already in place */
    uint32_t stride; /* distance between adjacent pixels of the result */
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
    uint32_t count, classes, stored; /* rows; logits per row, without and with padding */
    float weight;               /* factor of loss and gradient */
    bool is_auxiliary;          /* does not count samples and correct answers */
    bool adds;                  /* adds to the loss and the counts of another loss */
    float smoothing;            /* label smoothing */
    const float *class_weights; /* [classes]; NULL: all 1 */
    float *weight_sum;          /* set to the sum of the samples' class weights; NULL: not wanted */
    struct answer *answers;     /* set for each row; NULL: not needed */
};

/* out = transformed pixels (count x pixels x channels uint8 -> stored channels), mixed first when mixes is not NULL;
 * labels_out: the targets of every sample; *values is set from the arguments. The slot's pixels are not read
 * afterwards. Without pixels (NULL) only *values is set. */
cudaError_t kernel_input(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                         const struct input_transform *transform /* host */, const uint8_t *pixels,
                         const int32_t *labels, const struct mix *mixes, uint64_t first_position, uint32_t epoch,
                         void *out, struct mixed_label *labels_out, struct step_values *values);

/* The largest value of a window inside the image (of equal values the first one, row by row; every window contains at
 * least one pixel). winners (NULL: not wanted): the taps of these values in their windows. */
cudaError_t kernel_max_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                            const void *in, void *out, uint8_t *winners);
/* in_gradient[i] = [in_gradient[i] +] sum of out_gradient over the windows whose winner is i, in
 * window order. */
cudaError_t kernel_max_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                     const void *out_gradient, const uint8_t *winners, void *in_gradient, bool adds);

/* The mean of a window's values inside the image; windows may have any size. */
cudaError_t kernel_average_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                const void *in, void *out);
cudaError_t kernel_average_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds);

/* out's pixel (y, x) is in's pixel (y * stride, x * stride) with `before` channels of zeros first and zeros after. */
cudaError_t kernel_pad_channels(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                const void *in, void *out);
cudaError_t kernel_pad_channels_backward(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds);

/* out = in with zeros around every image. */
cudaError_t kernel_surround(cudaStream_t stream, enum value_type type, const struct surround_shape *shape,
                            const void *in, void *out);

/* Concatenates the channels of the parts without their padding; zeros up to the next multiple of 8. Backward is
 * kernel_pad_channels_backward of every part. */
cudaError_t kernel_concat(cudaStream_t stream, enum value_type type, const struct concat *concat, void *out);

/* Local response normalisation (compute/net.h); backward recomputes the sums of squares. */
cudaError_t kernel_response_norm(cudaStream_t stream, enum value_type type, const struct response_shape *shape,
                                 const void *in, void *out);
/* in_gradient = [in_gradient +] the gradient of `in`; may be out_gradient. terms: scratch, pixels * stored floats. */
cudaError_t kernel_response_norm_backward(cudaStream_t stream, enum value_type type,
                                          const struct response_shape *shape, const void *in,
                                          const void *out_gradient, float *terms, void *in_gradient, bool adds);

/* An activation of values of `channels` real channels; the padding stays 0. is_on false: none. */
struct curve {
    bool is_on;
    enum activation function;
    float limit;                /* of ACTIVATION_CLIPPED_RELU */
    uint32_t channels;
};

/* out = the function of `in`; out may be in. */
cudaError_t kernel_activation(cudaStream_t stream, enum value_type type, size_t pixels, uint32_t stored,
                              const struct curve *curve, const void *in, void *out);
/* in_gradient = [in_gradient +] out_gradient times the derivative at `in`; in_gradient may be out_gradient. */
cudaError_t kernel_activation_backward(cudaStream_t stream, enum value_type type, size_t pixels, uint32_t stored,
                                       const struct curve *curve, const void *in, const void *out_gradient,
                                       void *in_gradient, bool adds);
/* to = [to +] values times the factor of their channel and sample, of which there are count * stored; `to` may be
 * `values` without adds. Values of the same shape are multiplied as samples of one pixel. */
cudaError_t kernel_multiply(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                            const void *values, const void *factors, void *to, bool adds);
/* factor_gradient = [factor_gradient +] the sum over a sample's pixels of values * out_gradient. */
cudaError_t kernel_factor_gradient(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                                   const void *values, const void *out_gradient, void *factor_gradient, bool adds);

/* out[i] = in[i] > 0 ? in[i] : 0; out may be in. */
cudaError_t kernel_relu(cudaStream_t stream, enum value_type type, size_t count, const void *in, void *out);
/* in_gradient[i] = [in_gradient[i] +] (out[i] > 0 ? out_gradient[i] : 0); in_gradient may be out_gradient. */
cudaError_t kernel_relu_backward(cudaStream_t stream, enum value_type type, size_t count, const void *out,
                                 const void *out_gradient, void *in_gradient, bool adds);
/* sum[i] = a[i] + b[i], then max(., 0) with relu; sum may be a or b. */
cudaError_t kernel_add(cudaStream_t stream, enum value_type type, size_t count, const void *a, const void *b,
                       bool relu, void *sum);

/* Applies compute/dropout.h's mask of every sample (positions values->first_position + n) in place, in forward and
 * backward; elements are counted in C,H,W order. */
cudaError_t kernel_dropout(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                           const struct dropout *dropout /* host */, const struct step_values *values,
                           void *in_out);

/* Layer normalisation of `rows` pixels of `channels` channels, stored as `columns` (a multiple of 8): (x - mean) *
 * scale * gamma + beta with scale = 1 / sqrt(variance + epsilon). A host struct of device pointers. */
struct layer_normalisation {
    size_t rows;
    uint32_t channels, columns;
    float epsilon;
    const float *gamma, *beta;
    float *lines;               /* [rows][2]: mean and scale; NULL: forward does not store them, as in evaluation */
};

/* out may be in. */
cudaError_t kernel_layer_norm(cudaStream_t stream, enum value_type type, const struct layer_normalisation *norm,
                              const void *in, void *out);
/* Floats of scratch for kernel_layer_norm_sums and kernel_branch_sums. */
size_t kernel_gamma_partials(size_t rows, uint32_t columns);
/* The gradients of gamma and beta from the gradient of the result. */
cudaError_t kernel_layer_norm_sums(cudaStream_t stream, enum value_type type, const struct layer_normalisation *norm,
                                   const void *in, const void *gradient, float *partials, float *gamma_gradient,
                                   float *beta_gradient);
/* in_gradient = [in_gradient +] the gradient of `in`; may be `gradient`. */
cudaError_t kernel_layer_norm_gradient(cudaStream_t stream, enum value_type type,
                                       const struct layer_normalisation *norm, const void *in, const void *gradient,
                                       void *in_gradient, bool adds);

/* The end of a residual branch: `rows` pixels, `pixels` of each sample, of `columns` channels (a multiple of 8). A host
 * struct of device pointers. */
struct branch {
    size_t rows;
    uint32_t pixels, columns;
    const float *gamma;         /* a factor per channel; NULL: 1 */
    bool drops;                 /* stochastic depth by `rule`: samples have the factor of dropout_sample_factor, else
                                 * 1 */
    struct dropout rule;
    const struct step_values *values;
};

/* out = [addend, NULL: none, +] in * gamma * the factor of the sample; out may be in or addend. Also backward, with
 * gradients. */
cudaError_t kernel_branch(cudaStream_t stream, enum value_type type, const struct branch *branch, const void *in,
                          const void *addend, void *out);
/* The gradient of gamma from the gradient of the result. */
cudaError_t kernel_branch_sums(cudaStream_t stream, enum value_type type, const struct branch *branch, const void *in,
                               const void *gradient, float *partials, float *gamma_gradient);

/* in_out[row][column] += bias[column] (of `type`), then max(., 0) with relu, when the library cannot fuse it.
 * columns is a multiple of 8. */
cudaError_t kernel_bias(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                        const void *bias, int relu, void *in_out);

/* Floats of scratch for kernel_bias_gradient. */
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
    float *statistics;         /* [3][columns]: mean; 1 / sqrt(variance + epsilon); statistics of a batch also have the
                                * sum of squared distances from the mean */
    struct {
        uint32_t columns;
        const float *means, *squares;
    } known;                   /* statistics of a batch, of the first columns (a multiple of 8) that another
                                * normalisation has computed */
    struct curve curve;        /* applied to the result, without a shortcut and a ReLU */
};

/* Floats of scratch for kernel_norm_sums; and for kernel_norm_statistics of `columns` columns that are not known. */
size_t kernel_norm_partials(size_t rows, uint32_t columns);
/* Writes mean and biased variance of `in`, where not known, to the statistics (gamma and beta are not read), and
 * updates the running statistics: running = decay * running + (1 - decay) * batch, with the unbiased variance (of one
 * row: 0). */
cudaError_t kernel_norm_statistics(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   float epsilon, double decay, const void *in, float *partials, float *running_mean,
                                   float *running_variance);
/* The same from the sum of each column and, after all of these, the sum of its squares, which a convolution has
 * computed while it wrote `in`. The variance is the difference of two sums: an error of the sums grows with the square
 * of the mean over the deviation (doc/numerics.md). No columns are known. */
cudaError_t kernel_norm_from_sums(cudaStream_t stream, const struct normalisation *norm, float epsilon, double decay,
                                  const float *sums, float *running_mean, float *running_variance);
/* Computes the statistics from the running statistics. */
cudaError_t kernel_norm_running(cudaStream_t stream, const struct normalisation *norm, float epsilon,
                                const float *running_mean, const float *running_variance);
/* out = the normalised `in` [+ shortcut, NULL: none], then max(., 0) with relu; out may be in if both have the same
 * distance between rows. mask (NULL: not wanted; with a shortcut and relu only): one bit per number of out, set when it
 * is above 0; the first of eight is the lowest bit of a byte. */
cudaError_t kernel_norm_apply(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                              const void *in, const void *shortcut, bool relu, void *out, uint8_t *mask);
/* The same with the normalised `other_in` as the shortcut, of as many rows and columns, rounded as kernel_norm_apply
 * stores it: the same bits. out is neither of the inputs. */
cudaError_t kernel_norm_apply_both(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   const void *in, const struct normalisation *other, const void *other_in, bool relu,
                                   void *out, uint8_t *mask);
/* scale, shift: `columns` numbers of `type` each, so that the normalised `in` is in * scale + shift, for a convolution
 * that computes it. */
cudaError_t kernel_norm_line(cudaStream_t stream, enum value_type type, const struct normalisation *norm, void *scale,
                             void *shift);
/* The gradients of gamma (NULL: not wanted) and beta from the gradient of the result. With relu the gradient is masked
 * where the result is not above 0: by `mask` (with a shortcut), which changes `gradient`; or (NULL) by the recomputed
 * result, which does not. With a curve the gradient is multiplied by its derivative at the recomputed line, which
 * changes `gradient`. means: 2 * columns floats for kernel_norm_gradient. */
cudaError_t kernel_norm_sums(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                             const void *in, bool relu, const uint8_t *mask, void *gradient, float *partials,
                             float *means, float *gamma_gradient, float *beta_gradient);
/* The same gradients and means from the gradient of gamma and, after it, that of beta, which a convolution has summed.
 * Where `relu` was, it has masked the gradient. */
cudaError_t kernel_norm_means(cudaStream_t stream, const struct normalisation *norm, const float *sums, float *means,
                              float *gamma_gradient, float *beta_gradient);
/* in_gradient = [in_gradient +] the gradient of `in`; in_gradient may be `gradient` if both have the same distance
 * between rows. relu: masks by the recomputed result, without a shortcut. */
cudaError_t kernel_norm_gradient(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                 const void *in, bool relu, const void *gradient, const float *means,
                                 void *in_gradient, bool adds);

/* A convolution and the batch normalisation after it, with running statistics. A host struct of device pointers. */
struct folding {
    uint32_t filters;          /* a multiple of 8 */
    size_t numbers;            /* numbers of a filter */
    float epsilon;
    const float *weights, *bias; /* bias NULL: 0 */
    const float *gamma, *beta;  /* gamma NULL: 1 */
    const float *mean, *variance;
};

/* Computes the weights and bias (of `type`) of a convolution that includes the batch normalisation. */
cudaError_t kernel_norm_fold(cudaStream_t stream, enum value_type type, const struct folding *folding, void *weights,
                             void *bias);

/* Per sample of the loss. */
struct sample_loss {
    float loss;
    uint32_t flags;             /* bit 0 counted, bit 1 correct */
    float class_weight;
};

/* Softmax cross-entropy of rows of logits. Writes the gradient (softmax - smoothed target) * weight * scale->factor
 * (scale NULL: 1), where with class weights the target of each class is multiplied by its weight, and softmax by the
 * sum of these targets, and zeros in rows without a label (-1) and in padding columns. `gradient` may be the array of
 * the logits; NULL: only the loss is computed. samples: scratch, an element per row. *result: weight times the loss,
 * summed in double in a fixed order; counts; skipped_steps and loss_scale of *scale (0 and 1 without). */
cudaError_t kernel_softmax_loss(cudaStream_t stream, enum value_type type, const struct loss_shape *shape,
                                const void *logits, const struct mixed_label *labels, const struct loss_scale *scale,
                                void *gradient, struct sample_loss *samples, struct backend_result *result);

/* ---- layers of shares of a net (compute/share.h) ---- */

/* Values whose numbers are outside in fp32 as [part][sample][number of a part], in C,H,W order. */
struct outside_shape {
    uint32_t count, pixels;     /* samples, pixels of each */
    uint32_t channels, stored;  /* real and stored channels of a pixel */
    uint32_t parts;             /* divides channels * pixels */
};

/* outside = values. `outside` need not be aligned to more than its numbers. */
cudaError_t kernel_to_outside(cudaStream_t stream, enum value_type type, const struct outside_shape *shape,
                              const void *values, float *outside);
/* values = [values +] outside; zeros in padding channels. */
cudaError_t kernel_from_outside(cudaStream_t stream, enum value_type type, const struct outside_shape *shape,
                                const float *outside, void *values, bool adds);
/* numbers[0 .. count) = 0, labels[0 .. rows) = no sample. */
cudaError_t kernel_send_nothing(cudaStream_t stream, size_t count, float *numbers, uint32_t rows,
                                struct mixed_label *labels);

/* Rows of logits of a part of the classes. */
struct part_loss_shape {
    uint32_t count;             /* rows */
    uint32_t first;             /* the first class of the part, in the whole net */
    uint32_t classes, stored;   /* logits of a row, without and with padding */
    uint32_t part, parts;       /* this part and all of them */
    struct part_rule rule;      /* class weights in device memory */
};

/* stats[part * count + row] = the statistics of the logits (struct part_stats). exp is computed in fp32, sums in double
 * in an order fixed by the number of classes. */
cudaError_t kernel_part_stats(cudaStream_t stream, enum value_type type, const struct part_loss_shape *shape,
                              const void *logits, const struct mixed_label *labels, struct part_stats *stats);
/* The gradient of the logits by part_gradient, with exp in fp32, from the statistics of all parts: [parts][count]. Zeros
 * in padding columns. */
cudaError_t kernel_part_gradient(cudaStream_t stream, enum value_type type, const struct part_loss_shape *shape,
                                 const void *logits, const struct mixed_label *labels, const struct part_stats *stats,
                                 void *gradient);

/* Labels and statistics of rows. A host struct of device pointers. */
struct part_rows {
    uint32_t count, parts;
    const struct mixed_label *labels;   /* [count] */
    const struct part_stats *stats;     /* [parts][count] */
    struct part_rule rule;
};

/* The result of rows first .. first + count - 1: losses are added in the order of rows; skipped_steps and loss_scale of
 * *scale (NULL: 0 and 1). weight_sum: set to the sum of the class weights; NULL: not wanted. */
cudaError_t kernel_part_result(cudaStream_t stream, const struct part_rows *rows, uint32_t first, uint32_t count,
                               const struct loss_scale *scale, float *weight_sum, struct backend_result *result);
/* answers[0 .. count) = those of rows first .. first + count - 1. */
cudaError_t kernel_part_answers(cudaStream_t stream, const struct part_rows *rows, uint32_t first, uint32_t count,
                                struct answer *answers);

/* Sums of squares (compute/floats.h) of any number of ranges. */
cudaError_t kernel_squares(cudaStream_t stream, const struct squares *squares /* host struct of device pointers */,
                           uint32_t count);

/* Put the numbers of the own parts where they are exchanged; those of all parts are then added (compute/part_norms.h),
 * and if one of them is not finite, the next update is skipped. scale NULL: steps are not skipped. */
cudaError_t kernel_put_norms(cudaStream_t stream, const struct part_norms *norms /* host struct of device pointers */,
                             const struct loss_scale *scale);
cudaError_t kernel_add_norms(cudaStream_t stream, const struct part_norms *norms, struct loss_scale *scale);

/* Applies compute/optimizer.h's rule to ranges (device pointers) of the same arenas; one launch handles up to 112
 * ranges after the first, in any order. kept and decayed: optimizer_numbers for ranges without and with weight decay.
 * shadow (NULL: none) also gets the new weights, rounded to `type`: it points to the weights of the first range, and
 * those of the other ranges are at the same offsets from it as in the arenas. scale (NULL: 1): gradients are divided by
 * its factor, and nothing is written when it overflowed. */
cudaError_t kernel_update(cudaStream_t stream, enum optimizer_kind kind,
                          const struct optimizer_numbers *kept /* host */,
                          const struct optimizer_numbers *decayed /* host */, const struct loss_scale *scale,
                          const struct optimizer_range *ranges /* host structs of device pointers */, uint32_t count,
                          enum value_type type, void *shadow);

/* Conversions between fp32 and `type`. */
cudaError_t kernel_narrow(cudaStream_t stream, enum value_type type, size_t count, const float *from, void *to);
cudaError_t kernel_widen(cudaStream_t stream, enum value_type type, size_t count, const void *from, float *to);

/* Sets scale->overflowed to LOSS_SCALE_BROKEN when a gradient is not finite (compute/floats.h). */
cudaError_t kernel_check(cudaStream_t stream, size_t count, const float *gradients, struct loss_scale *scale);
/* After an update: adjusts the loss scale or, with a fixed factor, only counts skipped steps; overflowed then shows
 * whether this step was skipped. */
cudaError_t kernel_adjust_scale(cudaStream_t stream, struct loss_scale *scale, bool is_fixed);
/* Between checks and update: floats = kept when a gradient was not finite. */
cudaError_t kernel_restore_if_nonfinite(cudaStream_t stream, size_t count, const struct loss_scale *scale,
                                        const float *kept, float *floats);

/* *first = the index of the first number that is not finite (compute/floats.h), UINT64_MAX when there is none. */
cudaError_t kernel_find_nonfinite(cudaStream_t stream, size_t count, const float *floats, uint64_t *first);

/* Clips floats to -limit .. limit, times the factor of scale (NULL: 1). */
cudaError_t kernel_clip_value(cudaStream_t stream, size_t count, float limit, const struct loss_scale *scale,
                              float *floats);

/* floats[i] *= factor. */
cudaError_t kernel_scale(cudaStream_t stream, size_t count, float factor, float *floats);
/* floats[i] *= factor / *divisor, or by 0 where *divisor is 0. */
cudaError_t kernel_divide(cudaStream_t stream, size_t count, float factor, const float *divisor, float *floats);
/* floats[i] += share * (more[i] - keep * floats[i]), unless the last step was skipped (scale NULL: no step is
 * skipped). */
cudaError_t kernel_axpby(cudaStream_t stream, size_t count, float share, float keep, const struct loss_scale *scale,
                       const float *more, float *floats);

#define KERNEL_TOWERS_MAX 64u

/* Arenas of the towers, accessible from the stream's device. */
struct tower_arenas {
    uint32_t count;
    void *values[KERNEL_TOWERS_MAX];
};

/* Neighbouring arenas of a struct tower_arenas. */
struct some_arenas { uint32_t first, count; };

/* For i in [begin, end): the sum over the towers `from`, in fp32 and in pairs (stage/pairwise.h), rounded once to
 * `type`, into the arenas of the towers `into`; of one tower a copy. Both are at least one tower. */
cudaError_t kernel_sum_towers(cudaStream_t stream, enum value_type type, const struct tower_arenas *arenas /* host */,
                              size_t begin, size_t end, struct some_arenas from, struct some_arenas into);

#define SUM_TERMS_MAX 64u
#define TERM_TOWERS_MAX 4096u

/* The terms of a sum over towers 0, 1, ..., of at most TERM_TOWERS_MAX, in the order of the towers: each is a tower, or
 * the sum over a subtree of the order of additions (stage/pairwise.h). */
struct sum_terms {
    uint32_t count;
    uint64_t bf16;              /* bit t: term t has bf16 numbers; otherwise fp32 */
    const void *values[SUM_TERMS_MAX];
    uint16_t first[SUM_TERMS_MAX], towers[SUM_TERMS_MAX];       /* the towers of each term */
};

/* into[i] = the sum over all towers, for i in [0, count): in fp32 and in pairs, rounded once to `type`, fp32 or bf16.
 * `into` may be the values of a term of the same type. */
cudaError_t kernel_sum_terms(cudaStream_t stream, const struct sum_terms *terms /* host */, size_t count,
                             enum value_type type, void *into);

#ifdef __cplusplus
}
#endif

#endif
