/* The loops of batch normalisation over one plane, backward: sums of products by channel, and what is given back. */
#include "compute/onednn/onednn_norm_wide.h"

enum masking { MASK_NONE, MASK_BY_LINE, MASK_BY_RESULTS, MASK_BY_BITS };

struct product_sums { wide gradient, product; };

/* A gradient that was masked before is masked again where channels were handled before: it stays as it is. */
ALWAYS_INLINE void add_products(enum value_type type, struct norm_plane plane, const struct wide_line *line,
                                enum masking masking, struct norm_mask mask, const void *values, void *gradients,
                                struct product_sums *sums, struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + these.first;
        wide value, gradient, result;
        wide_read(type, values, p * plane.stride + these.first, these.count, &value);
        wide_read(type, gradients, at, these.count, &gradient);
        value -= line->mean;
        if (masking == MASK_BY_LINE) {
            result = value * line->scale + line->shift;
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
        }
        if (masking == MASK_BY_RESULTS) {
            wide_read(type, mask.results, at, these.count, &result);
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
        }
        if (masking == MASK_BY_BITS) {
            wide_bits passes;
            from_bits(mask.passed[at / NORM_BITS], &passes);
            gradient = WIDE_SELECT(passes, gradient, (wide){ 0 });
        }
        if (masking == MASK_BY_RESULTS || masking == MASK_BY_BITS)
            wide_write(type, gradients, at, these.count, &gradient);
        sums->gradient += gradient;
        sums->product += gradient * value;
    }
}

ALWAYS_INLINE void add_products_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                    struct norm_mask mask, const void *values, void *gradient, float *gradient_sum,
                                    float *product_sum, struct channels these)
{
    struct product_sums sums = { .gradient = { 0 } };
    struct wide_line of;
    load_line(line, these, &of);
    if (mask.passed != NULL)
        add_products(type, plane, &of, MASK_BY_BITS, mask, values, gradient, &sums, these);
    else if (mask.results != NULL)
        add_products(type, plane, &of, MASK_BY_RESULTS, mask, values, gradient, &sums, these);
    else if (mask.by_line)
        add_products(type, plane, &of, MASK_BY_LINE, mask, values, gradient, &sums, these);
    else
        add_products(type, plane, &of, MASK_NONE, mask, values, gradient, &sums, these);
    add_new(gradient_sum, &sums.gradient, these);
    add_new(product_sum, &sums.product, these);
}

VECTOR_LOOPS
void norm_add_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum)
{
#define BODY(type, these) \
    add_products_any(type, slice_of(plane, p), line, slice_mask, value_pixel_of(plane, values, p), \
                     pixel_of(plane, gradient, p), gradient_sum, product_sum, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        struct norm_mask slice_mask = mask;
        if (mask.results != NULL)
            slice_mask.results = pixel_of(plane, mask.results, p);
        if (mask.passed != NULL)
            slice_mask.passed = mask.passed + p * plane.block / NORM_BITS;
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* What is passed on from what, on the way to its sums. */
struct passing { const void *values, *gradient; void *to; };

ALWAYS_INLINE void pass_products(enum value_type type, struct norm_plane plane, const struct wide_line *line,
                                 struct passing of, bool by_line, bool adds, struct product_sums *sums,
                                 struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.stride + these.first;
        wide value, gradient, other;
        wide_read(type, of.values, at, these.count, &value);
        wide_read(type, of.gradient, p * plane.block + these.first, these.count, &gradient);
        value -= line->mean;
        if (by_line) {
            other = value * line->scale + line->shift;
            gradient = WIDE_SELECT(other > 0.0f, gradient, (wide){ 0 });
        }
        sums->gradient += gradient;
        sums->product += gradient * value;
        gradient *= line->scale;
        if (adds) {
            wide_read(type, of.to, at, these.count, &other);
            gradient += other;
        }
        write_new(type, of.to, at, &gradient, these);
    }
}

/* Where sums of the products are added. */
struct sums_out { float *gradient, *product; };

ALWAYS_INLINE void pass_products_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                     struct passing of, bool by_line, bool adds, struct sums_out out,
                                     struct channels these)
{
    struct product_sums sums = { .gradient = { 0 } };
    struct wide_line wide_line;
    load_line(line, these, &wide_line);
    if (by_line && adds)
        pass_products(type, plane, &wide_line, of, true, true, &sums, these);
    else if (by_line)
        pass_products(type, plane, &wide_line, of, true, false, &sums, these);
    else if (adds)
        pass_products(type, plane, &wide_line, of, false, true, &sums, these);
    else
        pass_products(type, plane, &wide_line, of, false, false, &sums, these);
    add_new(out.gradient, &sums.gradient, these);
    add_new(out.product, &sums.product, these);
}

VECTOR_LOOPS
void norm_pass_products(struct norm_plane plane, struct norm_line line, bool masked_by_line, const void *values,
                        const void *gradient, float *gradient_sum, float *product_sum, bool adds, void *to)
{
#define BODY(type, these) pass_products_any(type, slice_of(plane, p), line, of, masked_by_line, adds, out, these)
    const struct sums_out out = { gradient_sum, product_sum };
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        const struct passing of = { value_pixel_of(plane, values, p), pixel_of(plane, gradient, p),
                                    value_pixel_of(plane, to, p) };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* What is given back to what. */
struct giving { const void *values, *gradient; void *to; };

/* The coefficients of some channels for it. */
struct wide_giving { struct wide_line line; wide slope, offset; };

ALWAYS_INLINE void give_back(enum value_type type, struct norm_plane plane, const struct wide_giving *by,
                             struct giving of, bool by_line, bool adds, struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.stride + these.first;
        wide value, gradient, other;
        wide_read(type, of.values, at, these.count, &value);
        wide_read(type, of.gradient, p * plane.block + these.first, these.count, &gradient);
        value -= by->line.mean;
        if (by_line) {
            other = value * by->line.scale + by->line.shift;
            gradient = WIDE_SELECT(other > 0.0f, gradient, (wide){ 0 });
        }
        gradient = gradient * by->line.scale + value * by->slope + by->offset;
        if (adds) {
            wide_read(type, of.to, at, these.count, &other);
            gradient += other;
        }
        write_new(type, of.to, at, &gradient, these);
    }
}

ALWAYS_INLINE void give_back_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                 struct norm_slope slope, bool by_line, struct giving of, bool adds,
                                 struct channels these)
{
    struct wide_giving by;
    load_line(line, these, &by.line);
    WIDE_LOAD(by.slope, slope.slope + these.first, these.count);
    WIDE_LOAD(by.offset, slope.offset + these.first, these.count);
    if (by_line && adds)
        give_back(type, plane, &by, of, true, true, these);
    else if (by_line)
        give_back(type, plane, &by, of, true, false, these);
    else if (adds)
        give_back(type, plane, &by, of, false, true, these);
    else
        give_back(type, plane, &by, of, false, false, these);
}

VECTOR_LOOPS
void norm_give_back(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                    const void *values, const void *gradient, bool adds, void *to)
{
#define BODY(type, these) \
    give_back_any(type, slice_of(plane, p), line, slope, masked_by_line, of, adds, these)
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        const struct giving of = { value_pixel_of(plane, values, p), pixel_of(plane, gradient, p),
                                   value_pixel_of(plane, to, p) };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

ALWAYS_INLINE void pay(enum value_type type, struct norm_plane plane, const float *mean_of, struct norm_slope by,
                       const void *values, void *to, struct channels these)
{
    wide mean, slope, offset;
    WIDE_LOAD(mean, mean_of + these.first, these.count);
    WIDE_LOAD(slope, by.slope + these.first, these.count);
    WIDE_LOAD(offset, by.offset + these.first, these.count);
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.stride + these.first;
        wide value, gradient;
        wide_read(type, values, at, these.count, &value);
        wide_read(type, to, at, these.count, &gradient);
        gradient += (value - mean) * slope + offset;
        write_new(type, to, at, &gradient, these);
    }
}

VECTOR_LOOPS
void norm_pay(struct norm_plane plane, const float *mean, struct norm_slope slope, const void *values, void *to)
{
#define BODY(type, these) \
    pay(type, slice_of(plane, p), mean, slope, value_pixel_of(plane, values, p), value_pixel_of(plane, to, p), these)
    for (size_t p = 0; p < plane.pixels; p += SLICE)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}
