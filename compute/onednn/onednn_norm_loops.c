/* The loops of batch normalisation over one plane, forward: sums by channel, and what is made of the values. */
#include "compute/onednn/onednn_norm_wide.h"

ALWAYS_INLINE void add_sums(enum value_type type, struct norm_plane plane, const void *values, float *sum_out,
                            struct channels these)
{
    lanes sums[OCTETS_MAX] = { { 0 } }, others[OCTETS_MAX] = { { 0 } }, value;
    const size_t stride = plane.stride;
    const uint32_t octets = octets_of(these), count = octet_count(these);
    size_t p = 0;
    for (; p + 2 <= plane.pixels; p += 2)
        for (uint32_t k = 0; k < octets; k++) {
            const size_t at = p * stride + octet_first(these, k);
            lanes_read(type, values, at, count, &value);
            sums[k] += value;
            lanes_read(type, values, at + stride, count, &value);
            others[k] += value;
        }
    for (uint32_t k = 0; k < octets; k++) {
        if (p < plane.pixels) {
            lanes_read(type, values, p * stride + octet_first(these, k), count, &value);
            sums[k] += value;
        }
        sums[k] += others[k];
    }
    add_new(sum_out, sums, these);
}

VECTOR_LOOPS
void norm_add_sums(struct norm_plane plane, const void *values, float *sum)
{
#define BODY(type, these) \
    add_sums(type, slice_of(plane, p), value_pixel_of(plane, values, p), sum, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}

ALWAYS_INLINE void add_square(enum value_type type, const void *values, size_t at, uint32_t count, const lanes *mean,
                              lanes *sum)
{
    lanes value;
    lanes_read(type, values, at, count, &value);
    value -= *mean;
    *sum += value * value;
}

ALWAYS_INLINE void add_squares(enum value_type type, struct norm_plane plane, const void *values,
                               const float *mean_of, float *squares_out, struct channels these)
{
    lanes sums[OCTETS_MAX] = { { 0 } }, others[OCTETS_MAX] = { { 0 } }, means[OCTETS_MAX];
    const size_t stride = plane.stride;
    const uint32_t octets = octets_of(these), count = octet_count(these);
    size_t p = 0;
    for (uint32_t k = 0; k < octets; k++)
        octet_load(mean_of, these, k, &means[k]);
    for (; p + 2 <= plane.pixels; p += 2)
        for (uint32_t k = 0; k < octets; k++) {
            const size_t at = p * stride + octet_first(these, k);
            add_square(type, values, at, count, &means[k], &sums[k]);
            add_square(type, values, at + stride, count, &means[k], &others[k]);
        }
    for (uint32_t k = 0; k < octets; k++) {
        if (p < plane.pixels)
            add_square(type, values, p * stride + octet_first(these, k), count, &means[k], &sums[k]);
        sums[k] += others[k];
    }
    add_new(squares_out, sums, these);
}

VECTOR_LOOPS
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares)
{
#define BODY(type, these) \
    add_squares(type, slice_of(plane, p), value_pixel_of(plane, values, p), mean, squares, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}

/* What is computed from what. */
struct applying { const void *values, *skip; void *result; uint32_t *passed; };

/* The bits of the pixels up to this one, of all octets. */
ALWAYS_INLINE void note(const struct applying *of, struct norm_plane plane, size_t pixel,
                        lane_bits noted[OCTETS_MAX], struct channels these)
{
    for (uint32_t k = 0; k < octets_of(these); k++) {
        LANES_STORE(of->passed + bits_before(plane, pixel) + octet_first(these, k), noted[k], LANES);
        noted[k] = (lane_bits){ 0 };
    }
}

ALWAYS_INLINE void apply(enum value_type type, struct norm_plane plane, const struct lanes_line line[OCTETS_MAX],
                         struct applying of, bool adds_skip, bool relu, bool notes, struct channels these)
{
    lane_bits noted[OCTETS_MAX] = { { 0 } };
    for (size_t p = 0; p < plane.pixels; p++) {
        for (uint32_t k = 0; k < octets_of(these); k++) {
            const size_t at = p * plane.block + octet_first(these, k);
            lanes value, other;
            lanes_read(type, of.values, p * plane.stride + octet_first(these, k), octet_count(these), &value);
            value = (value - line[k].mean) * line[k].scale + line[k].shift;
            if (adds_skip) {
                lanes_read(type, of.skip, at, octet_count(these), &other);
                value += other;
            }
            const lane_bits above = value > 0.0f;
            if (notes)
                noted[k] |= above & (int32_t)(1u << p % NORM_NOTED);
            if (relu)
                value = LANES_SELECT(above, value, (lanes){ 0 });
            write_new(type, of.result, at, &value, these, k);
        }
        if (notes && (p % NORM_NOTED == NORM_NOTED - 1 || p + 1 == plane.pixels))
            note(&of, plane, p, noted, these);
    }
}

ALWAYS_INLINE void apply_any(enum value_type type, struct norm_plane plane, struct norm_line line, struct applying of,
                             bool relu, struct channels these)
{
    struct lanes_line of_lanes[OCTETS_MAX];
    load_line(line, these, of_lanes);
    if (of.passed != NULL)
        apply(type, plane, of_lanes, of, true, true, true, these);
    else if (of.skip != NULL && relu)
        apply(type, plane, of_lanes, of, true, true, false, these);
    else if (of.skip != NULL)
        apply(type, plane, of_lanes, of, true, false, false, these);
    else if (relu)
        apply(type, plane, of_lanes, of, false, true, false, these);
    else
        apply(type, plane, of_lanes, of, false, false, false, these);
}

VECTOR_LOOPS
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint32_t *passed)
{
#define BODY(type, these) apply_any(type, slice_of(plane, p), line, of, relu, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        const struct applying of = { value_pixel_of(plane, values, p), skip != NULL ? pixel_of(plane, skip, p) : NULL,
                                     pixel_of(plane, result, p),
                                     passed != NULL ? passed + bits_before(plane, p) : NULL };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}
