/* The functions of onednn_activation.h and their derivatives, of a vector, for loops into which they are compiled. They
 * are polynomials, whose coefficients are minimax fits of our own. */
#ifndef PIPETRAIN_ONEDNN_ACTIVATION_LANES_H
#define PIPETRAIN_ONEDNN_ACTIVATION_LANES_H

#include "compute/net.h"
#include "compute/vector.h"

/* ---- exp, the sigmoid, the normal distribution ---- */

/* e^x = 2^n e^r with |r| <= ln(2) / 2. Adding 3 * 2^22 rounds to a whole number, which is then in the lowest bits. */
ALWAYS_INLINE void activation_exp(const lanes *at, lanes *exp_out)
{
    const lanes zero = { 0 }, least = zero - 87.0f, most = zero + 88.0f;
    lanes x = LANES_SELECT(*at >= -87.0f, *at, least);  /* of a NaN, too: its bits cannot be added */
    x = LANES_SELECT(x > 88.0f, most, x);
    const lanes shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const lanes r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    lanes p = r * 1.97900382e-4f + 1.39449684e-3f;
    p = p * r + 8.33349895e-3f;
    p = p * r + 4.16662908e-2f;
    p = p * r + 1.66666659e-1f;
    p = p * r + 5.00000007e-1f;
    const lanes power = p * r * r + r + 1.0f;
    const lanes scaled = (lanes)((lane_bits)power + ((lane_bits)shifted << 23));
    *exp_out = LANES_SELECT(*at == *at, scaled, *at);
}

/* The sigmoid of x and that of -x. */
ALWAYS_INLINE void activation_sigmoids(const lanes *x, lanes *sigmoid_out, lanes *opposite_out)
{
    const lanes negative = -*x;
    lanes power;
    activation_exp(&negative, &power);
    *sigmoid_out = 1.0f / (1.0f + power);
    *opposite_out = power * *sigmoid_out;
}

/* The distribution function P of a standard normal, and exp(-x^2 / 2). P(-|x|) is the latter times a polynomial of
 * k = 1 / (1 + 0.3 |x|), so that it is exact relative to its value. */
ALWAYS_INLINE void activation_normal(const lanes *x, lanes *below_out, lanes *bell_out)
{
    const lanes size = (lanes)((lane_bits)*x & INT32_MAX), k = 1.0f / (1.0f + 0.3f * size);
    const lanes exponent = -0.5f * size * size;
    lanes p = k * -2.06124256e-2f + 1.12373698e-1f;
    activation_exp(&exponent, bell_out);
    p = p * k - 2.28062879e-1f;
    p = p * k + 1.91575845e-1f;
    p = p * k - 7.92427385e-2f;
    p = p * k + 9.60554946e-2f;
    p = p * k + 7.84263426e-2f;
    p = p * k + 1.10227169e-1f;
    p = p * k + 1.19572859e-1f;
    p = p * k + 1.19686633e-1f;
    const lanes tail = *bell_out * (p * k), rest = 1.0f - tail;
    *below_out = LANES_SELECT(*x < 0.0f, tail, rest);
}

/* ---- functions and derivatives (doc/models.md, "Activations") ---- */

/* NaN stays NaN. */
ALWAYS_INLINE void activation_clip(lanes *x, float least, float most)
{
    const lanes zero = { 0 }, low = zero + least, high = zero + most;
    *x = LANES_SELECT(*x < least, low, *x);
    *x = LANES_SELECT(*x > most, high, *x);
}

/* Replaces x by the function of it. */
ALWAYS_INLINE void activation_value(enum activation activation, float limit, lanes *x)
{
    lanes factor = *x, other;
    switch (activation) {
    case ACTIVATION_CLIPPED_RELU:
        activation_clip(x, 0.0f, limit);
        return;
    case ACTIVATION_SIGMOID:
        activation_sigmoids(x, &factor, &other);
        *x = factor;
        return;
    case ACTIVATION_SILU:
        activation_sigmoids(x, &factor, &other);
        break;
    case ACTIVATION_GELU:
        activation_normal(x, &factor, &other);
        break;
    default:
        factor = (*x + 3.0f) * (1.0f / 6);      /* exact near -3, as x / 6 + 1/2 is not */
        activation_clip(&factor, 0.0f, 1.0f);
    }
    *x = activation == ACTIVATION_HARD_SIGMOID ? factor : *x * factor;
}

/* Replaces x by the derivative there. */
ALWAYS_INLINE void activation_slope(enum activation activation, float limit, lanes *x)
{
    const lanes zero = { 0 }, one = zero + 1.0f, sixth = zero + 1.0f / 6;
    lanes value, other;
    switch (activation) {
    case ACTIVATION_CLIPPED_RELU:
        *x = LANES_SELECT((*x > 0.0f) & (*x < limit), one, zero);
        return;
    case ACTIVATION_SIGMOID:
        activation_sigmoids(x, &value, &other);
        *x = value * other;
        return;
    case ACTIVATION_SILU:
        activation_sigmoids(x, &value, &other);
        *x = value * (1.0f + *x * other);
        return;
    case ACTIVATION_GELU:
        activation_normal(x, &value, &other);
        *x = value + *x * other * 0.398942280f;
        return;
    case ACTIVATION_HARD_SIGMOID:
        *x = LANES_SELECT((*x > -3.0f) & (*x < 3.0f), sixth, zero);
        return;
    default:
        value = *x * (1.0f / 3) + 0.5f;
        other = LANES_SELECT(*x < 3.0f, value, one);
        *x = LANES_SELECT(*x > -3.0f, other, zero);
    }
}

/* Calls function(activation, ...), where the activation is a constant for the compiler. */
#define FOR_ACTIVATION(activation, function, ...) \
    do { \
        switch (activation) { \
        case ACTIVATION_CLIPPED_RELU: function(ACTIVATION_CLIPPED_RELU, __VA_ARGS__); break; \
        case ACTIVATION_SIGMOID: function(ACTIVATION_SIGMOID, __VA_ARGS__); break; \
        case ACTIVATION_HARD_SIGMOID: function(ACTIVATION_HARD_SIGMOID, __VA_ARGS__); break; \
        case ACTIVATION_SILU: function(ACTIVATION_SILU, __VA_ARGS__); break; \
        case ACTIVATION_HARD_SWISH: function(ACTIVATION_HARD_SWISH, __VA_ARGS__); break; \
        default: function(ACTIVATION_GELU, __VA_ARGS__); \
        } \
    } while (0)

#endif
