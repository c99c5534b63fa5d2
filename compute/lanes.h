/* Eight floats handled at once in the inner loops of ours that a compiler does not
 * vectorise well by itself. Plain C of GCC and Clang: on any machine it is right, with
 * VECTOR_LOOPS in front of the function around it it is fast. */
#ifndef PIPETRAIN_LANES_H
#define PIPETRAIN_LANES_H

#include <stdint.h>
#include <string.h>

#define LANES 8u

typedef float lanes __attribute__((vector_size(32)));
typedef int32_t lane_bits __attribute__((vector_size(32)));
typedef uint32_t lane_words __attribute__((vector_size(32)));
typedef uint16_t lane_shorts __attribute__((vector_size(16)));
typedef uint8_t lane_bytes __attribute__((vector_size(8)));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The first `count` <= LANES items, the others 0; count is a constant where speed matters. */
#define LANES_LOAD(to, from, count) \
    do { \
        if ((count) < LANES) \
            memset(&(to), 0, sizeof(to)); \
        memcpy(&(to), (from), (count) * sizeof(*(from))); \
    } while (0)
#define LANES_STORE(to, value, count) memcpy((to), &(value), (count) * sizeof(*(to)))

/* Where bits are set a, else b. */
#define LANES_SELECT(bits, a, b) \
    ((__typeof__(a))(((bits) & (lane_bits)(a)) | (~(bits) & (lane_bits)(b))))

#endif
