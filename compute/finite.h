/* Looking for numbers that are not finite, or that no network has. Any thread. */
#ifndef PIPETRAIN_FINITE_H
#define PIPETRAIN_FINITE_H

#include <stddef.h>

/* Weights and gradients of this magnitude (1.15e18) or more count as not finite: a product of two of them is beyond the
 * floats, and only an error in a computation makes one in a network that learns. */
#define FINITE_BITS 60
#define FINITE_BOUND 0x1p60f
#define FINITE_WORDS "is not finite or above 1e18"

/* The index of the first of floats[0 .. count) that is an infinity, no number or beyond that bound; count: none is. */
size_t finite_count(const float *floats, size_t count);

#endif
