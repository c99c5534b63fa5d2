/* What the loops of batch normalisation over one plane share (onednn_norm_loops.c, onednn_norm_back_loops.c): 16
 * channels at a time, a cache line of each pixel, where the block allows it, else 8 or one. They are handled in octets:
 * GCC takes vectors apart that are wider than the machine's, and comparisons of them number by number. All channels of
 * a slice of the pixels come before the next slice: sums are kept in registers, of few pixels at a time (the longer a
 * sum in single precision gets, the more every number added to it is rounded), and where a pixel has many channels the
 * nearest cache holds a slice. Private to them. */
#ifndef PIPETRAIN_ONEDNN_NORM_WIDE_H
#define PIPETRAIN_ONEDNN_NORM_WIDE_H

#include "compute/onednn/onednn_norm.h"
#include "compute/vector.h"

#define OCTETS_MAX 2u
#define WIDE (OCTETS_MAX * LANES)
#define SLICE 128u              /* pixels at a time; the bits of NORM_NOTED pixels are not cut */

/* Channels that are handled together: `count` (WIDE, LANES or 1) from `first` on, the first `done` < LANES of which
 * were before. Both numbers are constants where speed matters, but `done` of the last ones. */
struct channels { size_t first, done; uint32_t count; };

ALWAYS_INLINE uint32_t octets_of(struct channels these)
{
    return these.count > LANES ? OCTETS_MAX : 1;
}

/* Channels of one octet. */
ALWAYS_INLINE uint32_t octet_count(struct channels these)
{
    return these.count > LANES ? LANES : these.count;
}

/* Octet k's first channel. */
ALWAYS_INLINE size_t octet_first(struct channels these, uint32_t k)
{
    return these.first + k * LANES;
}

/* a where a channel of octet k was not handled before, else b. */
ALWAYS_INLINE void keep_new(struct channels these, uint32_t k, lanes *a, const lanes *b)
{
    const lane_bits order = { 0, 1, 2, 3, 4, 5, 6, 7 };
    if (these.done > 0 && k == 0)
        *a = LANES_SELECT(order >= (int32_t)these.done, *a, *b);
}

/* Octet k of what there is by channel. */
ALWAYS_INLINE void octet_load(const float *from, struct channels these, uint32_t k, lanes *lanes_out)
{
    LANES_LOAD(*lanes_out, from + octet_first(these, k), octet_count(these));
}

/* to[channel] += more[channel], of those that were not handled before. */
ALWAYS_INLINE void add_new(float *to, const lanes more[OCTETS_MAX], struct channels these)
{
    for (uint32_t k = 0; k < octets_of(these); k++) {
        lanes before, sum;
        octet_load(to, these, k, &before);
        sum = before + more[k];
        keep_new(these, k, &sum, &before);
        LANES_STORE(to + octet_first(these, k), sum, octet_count(these));
    }
}

/* lanes_write of octet k, of channels that were not handled before. */
ALWAYS_INLINE void write_new(enum value_type type, void *values, size_t at, const lanes *numbers,
                             struct channels these, uint32_t k)
{
    lanes all = *numbers, before;
    if (these.done > 0 && k == 0) {
        lanes_read(type, values, at, octet_count(these), &before);
        keep_new(these, k, &all, &before);
    }
    lanes_write(type, values, at, octet_count(these), &all);
}

/* Calls body(type, struct channels) for all channels of a plane's block; the last ones that fill no octet together
 * with those in front of them. */
#define FOR_CHANNELS_OF(type, plane, body) \
    do { \
        size_t first = 0; \
        for (; first + WIDE <= (plane).block; first += WIDE) \
            body(type, ((struct channels){ first, 0, WIDE })); \
        for (; first + LANES <= (plane).block; first += LANES) \
            body(type, ((struct channels){ first, 0, LANES })); \
        if (first > 0 && first < (plane).block) { \
            body(type, ((struct channels){ (plane).block - LANES, first + LANES - (plane).block, LANES })); \
            break; \
        } \
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

/* The bits of pixel `pixel`, a multiple of NORM_NOTED, and those behind it. */
static inline size_t bits_before(struct norm_plane plane, size_t pixel)
{
    return pixel / NORM_NOTED * plane.block;
}

/* A line's numbers of some channels. */
struct lanes_line { lanes mean, scale, shift; };

ALWAYS_INLINE void load_line(struct norm_line line, struct channels these, struct lanes_line line_out[OCTETS_MAX])
{
    for (uint32_t k = 0; k < octets_of(these); k++) {
        octet_load(line.mean, these, k, &line_out[k].mean);
        octet_load(line.scale, these, k, &line_out[k].scale);
        octet_load(line.shift, these, k, &line_out[k].shift);
    }
}

#endif
