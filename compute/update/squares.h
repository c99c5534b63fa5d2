/* Sums of squares over ranges of the arenas, in double and in an order that depends on nothing but the
 * number of floats: threads, pieces and towers give the same bits. A range is summed in parts, and the parts
 * are added one after the other. On a GPU the order inside a part is another one. */
#ifndef PIPETRAIN_SQUARES_H
#define PIPETRAIN_SQUARES_H

#include <stddef.h>
#include <stdint.h>

#define SQUARES_PARTS 64u
#define SQUARES_ROOM (1 + SQUARES_PARTS)    /* doubles: the sum, then those of the parts */

/* A range and SQUARES_ROOM doubles for its sum, in the memory of the device. */
struct squares { const float *floats; size_t count; double *sum; };

/* Floats of a part: the last one has less, or there are fewer parts. */
static inline size_t squares_part_floats(size_t count)
{
    const size_t grain = 64;
    return (count + SQUARES_PARTS * grain - 1) / (SQUARES_PARTS * grain) * grain;
}

/* On the host, in the calling thread: some parts, and, when all are there, their sum. */
void squares_sum_parts(const struct squares *squares, size_t first, size_t end);
void squares_sum(const struct squares *squares);

#endif
