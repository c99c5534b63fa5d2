/* Activations on the device (doc/models.md, "Activations"), for the kernels that are one and for those of batch
 * normalisation. The function is the same for all threads of a launch, so its switch costs nothing. */
#ifndef PIPETRAIN_KERNEL_ACTIVATION_CUH
#define PIPETRAIN_KERNEL_ACTIVATION_CUH

#include "compute/cuda/kernel_types.cuh"

#include <math.h>

/* The sigmoid of x and that of -x. */
struct sigmoids { float at, opposite; };

static __device__ inline sigmoids sigmoids_of(float x)
{
    const float power = expf(-fabsf(x)), larger = 1.0f / (1.0f + power), smaller = power * larger;
    return x < 0 ? sigmoids{ smaller, larger } : sigmoids{ larger, smaller };
}

/* The distribution function of a standard normal. */
static __device__ inline float normal_below(float x)
{
    return 0.5f * erfcf(x * -0.707106781f);
}

/* NaN stays NaN. */
static __device__ inline float clipped(float x, float least, float most)
{
    return x < least ? least : x > most ? most : x;
}

static __device__ inline float hard_sigmoid(float x)
{
    return clipped((x + 3.0f) * (1.0f / 6), 0.0f, 1.0f);
}

static __device__ inline float curve_value(const curve &curve, float x)
{
    switch (curve.function) {
    case ACTIVATION_CLIPPED_RELU: return clipped(x, 0.0f, curve.limit);
    case ACTIVATION_SIGMOID: return sigmoids_of(x).at;
    case ACTIVATION_HARD_SIGMOID: return hard_sigmoid(x);
    case ACTIVATION_SILU: return x * sigmoids_of(x).at;
    case ACTIVATION_HARD_SWISH: return x * hard_sigmoid(x);
    default: return x * normal_below(x);
    }
}

static __device__ inline float curve_slope(const curve &curve, float x)
{
    const sigmoids of = sigmoids_of(x);
    switch (curve.function) {
    case ACTIVATION_CLIPPED_RELU: return x > 0 && x < curve.limit ? 1.0f : 0.0f;
    case ACTIVATION_SIGMOID: return of.at * of.opposite;
    case ACTIVATION_HARD_SIGMOID: return x > -3.0f && x < 3.0f ? 1.0f / 6 : 0.0f;
    case ACTIVATION_SILU: return of.at * (1.0f + x * of.opposite);
    case ACTIVATION_HARD_SWISH: return x <= -3.0f ? 0.0f : x < 3.0f ? x * (1.0f / 3) + 0.5f : 1.0f;
    default: return normal_below(x) + x * 0.398942280f * expf(-0.5f * x * x);
    }
}

/* The function of eight channels from channel `first` on; padding stays 0. */
static __device__ inline floats<GROUP> curved(const curve &curve, const floats<GROUP> &values, uint32_t first)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = first + k < curve.channels ? curve_value(curve, values.value[k]) : 0.0f;
    return result;
}

static __device__ inline floats<GROUP> times_slope(const curve &curve, const floats<GROUP> &values,
                                                   const floats<GROUP> &gradient)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = gradient.value[k] * curve_slope(curve, values.value[k]);
    return result;
}

#endif
