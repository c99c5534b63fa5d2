/* The loops of batch normalisation over one plane, forward: sums by channel, and what is made of the values. */
#include "compute/onednn/onednn_norm_wide.h"

ALWAYS_INLINE void add_sums(enum value_type type, struct norm_plane plane, const void *values, float *sum_out,
                            struct channels these)
{
    wide sum = { 0 }, other = { 0 }, value;
    size_t p = 0, at = these.first;
    for (; p + 2 <= plane.pixels; p += 2, at += 2 * plane.stride) {
        wide_read(type, values, at, these.count, &value);
        sum += value;
        wide_read(type, values, at + plane.stride, these.count, &value);
        other += value;
    }
    if (p < plane.pixels) {
        wide_read(type, values, at, these.count, &value);
        sum += value;
    }
    sum += other;
    add_new(sum_out, &sum, these);
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

ALWAYS_INLINE void add_squares(enum value_type type, struct norm_plane plane, const void *values,
                               const float *mean_of, float *squares_out, struct channels these)
{
    wide sum = { 0 }, other = { 0 }, value, mean;
    size_t p = 0, at = these.first;
    WIDE_LOAD(mean, mean_of + these.first, these.count);
    for (; p + 2 <= plane.pixels; p += 2, at += 2 * plane.stride) {
        wide_read(type, values, at, these.count, &value);
        value -= mean;
        sum += value * value;
        wide_read(type, values, at + plane.stride, these.count, &value);
        value -= mean;
        other += value * value;
    }
    if (p < plane.pixels) {
        wide_read(type, values, at, these.count, &value);
        value -= mean;
        sum += value * value;
    }
    sum += other;
    add_new(squares_out, &sum, these);
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
struct applying { const void *values, *skip; void *result; uint16_t *passed; };

ALWAYS_INLINE void apply(enum value_type type, struct norm_plane plane, const struct wide_line *line,
                         struct applying of, bool adds_skip, bool relu, bool notes, struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + these.first;
        wide value, other;
        wide_read(type, of.values, p * plane.stride + these.first, these.count, &value);
        value = (value - line->mean) * line->scale + line->shift;
        if (adds_skip) {
            wide_read(type, of.skip, at, these.count, &other);
            value += other;
        }
        const wide_bits above = value > 0.0f;
        if (notes)
            of.passed[at / NORM_BITS] = bits_of(&above);
        if (relu)
            value = WIDE_SELECT(above, value, (wide){ 0 });
        write_new(type, of.result, at, &value, these);
    }
}

ALWAYS_INLINE void apply_any(enum value_type type, struct norm_plane plane, struct norm_line line, struct applying of,
                             bool relu, struct channels these)
{
    struct wide_line wide_line;
    load_line(line, these, &wide_line);
    if (of.passed != NULL)
        apply(type, plane, &wide_line, of, true, true, true, these);
    else if (of.skip != NULL && relu)
        apply(type, plane, &wide_line, of, true, true, false, these);
    else if (of.skip != NULL)
        apply(type, plane, &wide_line, of, true, false, false, these);
    else if (relu)
        apply(type, plane, &wide_line, of, false, true, false, these);
    else
        apply(type, plane, &wide_line, of, false, false, false, these);
}

VECTOR_LOOPS
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint16_t *passed)
{
#define BODY(type, these) apply_any(type, slice_of(plane, p), line, of, relu, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        const struct applying of = { value_pixel_of(plane, values, p), skip != NULL ? pixel_of(plane, skip, p) : NULL,
                                     pixel_of(plane, result, p),
                                     passed != NULL ? passed + p * plane.block / NORM_BITS : NULL };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}
