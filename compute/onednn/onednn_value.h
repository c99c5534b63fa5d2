/* Values and their gradients have one type in the whole backend, fp32 or bf16. Arithmetic is fp32, rounded once when a
 * result is stored, to nearest with ties to even. A loop over values is written once, as an inline function of the
 * type, which is a constant for the compiler:
 *
 *     ALWAYS_INLINE void halve(enum value_type type, const struct half_work *work, size_t first, size_t end)
 *     {
 *         const void *const from = work->from;
 *         void *const to = work->to;
 *         INDEPENDENT_ITERATIONS
 *         for (size_t i = first; i < end; i++)
 *             value_write(type, to, i, 0.5f * value_read(type, from, i));
 *     }
 *
 *     VECTOR_LOOPS
 *     static void halve_part(void *arg, uint32_t member, size_t first, size_t end)
 *     {
 *         const struct half_work *const work = arg;
 *         FOR_TYPE(work->type, halve, work, first, end);
 *     }
 *
 * Elsewhere values are `void *` and value_at gives the address of one. */
#ifndef PIPETRAIN_ONEDNN_VALUE_H
#define PIPETRAIN_ONEDNN_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/floats.h"
#include "compute/vector.h"

enum value_type { VALUE_FP32, VALUE_BF16 };

#define FOR_TYPE(type, function, ...) \
    ((type) == VALUE_BF16 ? function(VALUE_BF16, __VA_ARGS__) : function(VALUE_FP32, __VA_ARGS__))

static inline size_t value_size(enum value_type type)
{
    return type == VALUE_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* Address of number `index`. */
static inline void *value_at(enum value_type type, const void *values, size_t index)
{
    return (char *)(uintptr_t)values + index * value_size(type);
}

ALWAYS_INLINE float value_read(enum value_type type, const void *values, size_t i)
{
    return type == VALUE_BF16 ? bf16_to_float(((const uint16_t *)values)[i]) : ((const float *)values)[i];
}

ALWAYS_INLINE void value_write(enum value_type type, void *values, size_t i, float number)
{
    if (type == VALUE_BF16)
        ((uint16_t *)values)[i] = bf16_from_float(number);
    else
        ((float *)values)[i] = number;
}

/* Reads `count` <= LANES numbers from values[at] on, the other lanes are 0; count is a constant. */
ALWAYS_INLINE void lanes_read(enum value_type type, const void *values, size_t at, uint32_t count, lanes *lanes_out)
{
    if (type == VALUE_BF16) {
        lane_shorts halves;
        LANES_LOAD(halves, (const uint16_t *)values + at, count);
        *lanes_out = (lanes)(__builtin_convertvector(halves, lane_words) << 16);
    } else {
        LANES_LOAD(*lanes_out, (const float *)values + at, count);
    }
}

ALWAYS_INLINE void lanes_write(enum value_type type, void *values, size_t at, uint32_t count, const lanes *numbers)
{
    if (type == VALUE_BF16) {
        const lane_words bits = (lane_words)*numbers;
        const lane_words rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 1u << 22;
        const lane_words kept = LANES_SELECT(*numbers == *numbers, rounded, quiet) >> 16;
        const lane_shorts halves = __builtin_convertvector(kept, lane_shorts);
        LANES_STORE((uint16_t *)values + at, halves, count);
    } else {
        LANES_STORE((float *)values + at, *numbers, count);
    }
}

#endif
