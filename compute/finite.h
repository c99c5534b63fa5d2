/* Looking for numbers that are not finite. Any thread. */
#ifndef PIPETRAIN_FINITE_H
#define PIPETRAIN_FINITE_H

#include <stddef.h>

/* The index of the first of floats[0 .. count) that is an infinity or no number; count: all are finite. */
size_t finite_count(const float *floats, size_t count);

#endif
