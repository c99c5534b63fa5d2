/* What the loops of batch normalisation over one plane share (onednn_norm_loops.c, onednn_norm_back_loops.c): 16
 * channels at a time, a cache line of each pixel, where the block allows it, else 8 or one. All channels of a slice of
 * the pixels come before the next slice: sums are kept in registers, of few pixels at a time (the longer a sum in
 * single precision gets, the more every number added to it is rounded), and where a pixel has many channels the nearest
 * cache holds a slice. Private to them. */
#ifndef PIPETRAIN_ONEDNN_NORM_WIDE_H
#define PIPETRAIN_ONEDNN_NORM_WIDE_H

#include "compute/lanes.h"
#include "compute/onednn/onednn_norm.h"
#include "compute/vector.h"

#define WIDE 16u
#define SLICE 128u              /* pixels at a time */

typedef float wide __attribute__((vector_size(64)));
typedef int32_t wide_bits __attribute__((vector_size(64)));
typedef uint32_t wide_words __attribute__((vector_size(64)));
typedef uint16_t wide_shorts __attribute__((vector_size(32)));
typedef int8_t wide_chars __attribute__((vector_size(16)));

/* The first `count` numbers, the others 0; count is a constant where speed matters. */
#define WIDE_LOAD(to, from, count) \
    do { \
        if ((count) < WIDE) \
            memset(&(to), 0, sizeof(to)); \
        memcpy(&(to), (from), (count) * sizeof(float)); \
    } while (0)
#define WIDE_STORE(to, value, count) memcpy((to), &(value), (count) * sizeof(float))
#define WIDE_SELECT(bits, a, b) ((wide)(((bits) & (wide_bits)(a)) | (~(bits) & (wide_bits)(b))))

/* Channels that are handled together: `count` from `first` on, the first `done` of which were before. Both numbers
 * are constants where speed matters, but `done` of the last ones. */
struct channels { size_t first, done; uint32_t count; };

/* lanes_read and lanes_write, for WIDE numbers. */
ALWAYS_INLINE void wide_read(enum value_type type, const void *values, size_t at, uint32_t count, wide *wide_out)
{
    if (type == VALUE_BF16) {
        wide_shorts halves = { 0 };
        memcpy(&halves, (const uint16_t *)values + at, count * sizeof(uint16_t));
        *wide_out = (wide)(__builtin_convertvector(halves, wide_words) << 16);
    } else {
        WIDE_LOAD(*wide_out, (const float *)values + at, count);
    }
}

ALWAYS_INLINE void wide_write(enum value_type type, void *values, size_t at, uint32_t count, const wide *numbers)
{
    if (type == VALUE_BF16) {
        const wide_words bits = (wide_words)*numbers;
        const wide_words rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 1u << 22;
        const wide_words kept = (wide_words)WIDE_SELECT(*numbers == *numbers, rounded, quiet);
        const wide_shorts halves = __builtin_convertvector(kept >> 16, wide_shorts);
        memcpy((uint16_t *)values + at, &halves, count * sizeof(uint16_t));
    } else {
        WIDE_STORE((float *)values + at, *numbers, count);
    }
}

/* The lowest bit of each, which all are 0 or all ones: those of eight are brought to one byte by a product, none of
 * whose sums carries. */
ALWAYS_INLINE uint16_t bits_of(const wide_bits *which)
{
    const wide_chars chars = __builtin_convertvector(*which, wide_chars);
    uint64_t halves[2];
    memcpy(halves, &chars, sizeof(halves));
    for (int i = 0; i < 2; i++)
        halves[i] = (halves[i] & 0x8040201008040201) * 0x0101010101010101 >> 56;
    return (uint16_t)(halves[0] | halves[1] << 8);
}

/* All ones where the bit is set. */
ALWAYS_INLINE void from_bits(uint16_t bits, wide_bits *which_out)
{
    const wide_bits own = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768 };
    *which_out = (own & (int32_t)bits) != 0;
}

/* Where a channel was not handled before. */
#define NEW_OF(these) \
    ((wide_bits){ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } >= (int32_t)(these).done)

/* to[channel] += more[channel], of those that were not handled before. */
ALWAYS_INLINE void add_new(float *to, const wide *more, struct channels these)
{
    wide sum;
    WIDE_LOAD(sum, to + these.first, these.count);
    sum += these.done > 0 ? WIDE_SELECT(NEW_OF(these), *more, (wide){ 0 }) : *more;
    WIDE_STORE(to + these.first, sum, these.count);
}

/* wide_write, of channels that were not handled before. */
ALWAYS_INLINE void write_new(enum value_type type, void *values, size_t at, const wide *numbers, struct channels these)
{
    wide all = *numbers, before;
    if (these.done > 0) {
        wide_read(type, values, at, these.count, &before);
        all = WIDE_SELECT(NEW_OF(these), all, before);
    }
    wide_write(type, values, at, these.count, &all);
}

/* Calls body(type, struct channels) for all channels of a plane's block; the last ones that fill no 16 together
 * with those in front of them. */
#define FOR_CHANNELS_OF(type, plane, body) \
    do { \
        size_t first = 0; \
        for (; first + WIDE <= (plane).block; first += WIDE) \
            body(type, ((struct channels){ first, 0, WIDE })); \
        if (first > 0 && first < (plane).block) { \
            body(type, ((struct channels){ (plane).block - WIDE, first + WIDE - (plane).block, WIDE })); \
            break; \
        } \
        for (; first + LANES <= (plane).block; first += LANES) \
            body(type, ((struct channels){ first, 0, LANES })); \
        for (; first < (plane).block; first++) \
            body(type, ((struct channels){ first, 0, 1 })); \
    } while (0)
#define FOR_CHANNELS(plane, body) \
    do { \
        if ((plane).type == VALUE_BF16) \
            FOR_CHANNELS_OF(VALUE_BF16, plane, body); \
        else \
            FOR_CHANNELS_OF(VALUE_FP32, plane, body); \
    } while (0)

/* The pixels of a plane that are worked off together, from pixel `first` on. */
static inline struct norm_plane slice_of(struct norm_plane plane, size_t first)
{
    const size_t left = plane.pixels - first;
    plane.pixels = left < SLICE ? left : SLICE;
    return plane;
}

/* Of what the block's numbers lie in one behind the other. */
static inline void *pixel_of(struct norm_plane plane, const void *numbers, size_t pixel)
{
    return value_at(plane.type, numbers, pixel * plane.block);
}

/* Of the values, or their gradient. */
static inline void *value_pixel_of(struct norm_plane plane, const void *values, size_t pixel)
{
    return value_at(plane.type, values, pixel * plane.stride);
}

/* A line's numbers of some channels. */
struct wide_line { wide mean, scale, shift; };

ALWAYS_INLINE void load_line(struct norm_line line, struct channels these, struct wide_line *line_out)
{
    WIDE_LOAD(line_out->mean, line.mean + these.first, these.count);
    WIDE_LOAD(line_out->scale, line.scale + these.first, these.count);
    WIDE_LOAD(line_out->shift, line.shift + these.first, these.count);
}

#endif
