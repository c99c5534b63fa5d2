/* The loops of batch normalisation over one plane, backward: sums of products by channel, and what is given back. */
#include "compute/onednn/onednn_norm_wide.h"

enum masking { MASK_NONE, MASK_BY_LINE, MASK_BY_RESULTS, MASK_BY_BITS };

struct product_sums { lanes gradient[OCTETS_MAX], product[OCTETS_MAX]; };

/* Those of the pixels from this one on, of all octets. */
ALWAYS_INLINE void read_bits(const uint32_t *passed, struct norm_plane plane, size_t pixel,
                             lane_bits noted_out[OCTETS_MAX], struct channels these)
{
    for (uint32_t k = 0; k < octets_of(these); k++)
        LANES_LOAD(noted_out[k], passed + bits_before(plane, pixel) + octet_first(these, k), LANES);
}

/* A gradient that was masked before is masked again where channels were handled before: it stays as it is. */
ALWAYS_INLINE void add_products(enum value_type type, struct norm_plane plane, const struct lanes_line line[OCTETS_MAX],
                                enum masking masking, struct norm_mask mask, const void *values, void *gradients,
                                struct product_sums *sums, struct channels these)
{
    lane_bits noted[OCTETS_MAX] = { { 0 } };
    const uint32_t count = octet_count(these);
    for (size_t p = 0; p < plane.pixels; p++) {
        if (masking == MASK_BY_BITS && p % NORM_NOTED == 0)
            read_bits(mask.passed, plane, p, noted, these);
        for (uint32_t k = 0; k < octets_of(these); k++) {
            const size_t at = p * plane.block + octet_first(these, k);
            lanes value, gradient, result;
            lanes_read(type, values, p * plane.stride + octet_first(these, k), count, &value);
            lanes_read(type, gradients, at, count, &gradient);
            value -= line[k].mean;
            if (masking == MASK_BY_LINE) {
                result = value * line[k].scale + line[k].shift;
                gradient = LANES_SELECT(result > 0.0f, gradient, (lanes){ 0 });
            }
            if (masking == MASK_BY_RESULTS) {
                lanes_read(type, mask.results, at, count, &result);
                gradient = LANES_SELECT(result > 0.0f, gradient, (lanes){ 0 });
            }
            if (masking == MASK_BY_BITS) {
                const lane_bits passes = (noted[k] & (int32_t)(1u << p % NORM_NOTED)) != 0;
                gradient = LANES_SELECT(passes, gradient, (lanes){ 0 });
            }
            if (masking == MASK_BY_RESULTS || masking == MASK_BY_BITS)
                lanes_write(type, gradients, at, count, &gradient);
            sums->gradient[k] += gradient;
            sums->product[k] += gradient * value;
        }
    }
}

ALWAYS_INLINE void add_products_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                    struct norm_mask mask, const void *values, void *gradient, float *gradient_sum,
                                    float *product_sum, struct channels these)
{
    struct product_sums sums = { .gradient = { { 0 } } };
    struct lanes_line of[OCTETS_MAX];
    load_line(line, these, of);
    if (mask.passed != NULL)
        add_products(type, plane, of, MASK_BY_BITS, mask, values, gradient, &sums, these);
    else if (mask.results != NULL)
        add_products(type, plane, of, MASK_BY_RESULTS, mask, values, gradient, &sums, these);
    else if (mask.by_line)
        add_products(type, plane, of, MASK_BY_LINE, mask, values, gradient, &sums, these);
    else
        add_products(type, plane, of, MASK_NONE, mask, values, gradient, &sums, these);
    add_new(gradient_sum, sums.gradient, these);
    add_new(product_sum, sums.product, these);
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
            slice_mask.passed = mask.passed + bits_before(plane, p);
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* What is given back to what. */
struct giving { const void *values, *gradient; void *to; };

/* Of octet k of pixel `pixel`: values less their mean, and gradients that pass. */
ALWAYS_INLINE void read_both(enum value_type type, struct norm_plane plane, const struct lanes_line *line,
                             const struct giving *of, bool by_line, size_t pixel, struct channels these, uint32_t k,
                             lanes *value_out, lanes *gradient_out)
{
    const size_t first = octet_first(these, k);
    lanes_read(type, of->values, pixel * plane.stride + first, octet_count(these), value_out);
    lanes_read(type, of->gradient, pixel * plane.block + first, octet_count(these), gradient_out);
    *value_out -= line->mean;
    if (by_line) {
        const lanes result = *value_out * line->scale + line->shift;
        *gradient_out = LANES_SELECT(result > 0.0f, *gradient_out, (lanes){ 0 });
    }
}

ALWAYS_INLINE void pass_products(enum value_type type, struct norm_plane plane,
                                 const struct lanes_line line[OCTETS_MAX], struct giving of, bool by_line, bool adds,
                                 struct product_sums *sums, struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < octets_of(these); k++) {
            const size_t at = p * plane.stride + octet_first(these, k);
            lanes value, gradient, other;
            read_both(type, plane, &line[k], &of, by_line, p, these, k, &value, &gradient);
            sums->gradient[k] += gradient;
            sums->product[k] += gradient * value;
            gradient *= line[k].scale;
            if (adds) {
                lanes_read(type, of.to, at, octet_count(these), &other);
                gradient += other;
            }
            write_new(type, of.to, at, &gradient, these, k);
        }
}

/* Where sums of the products are added. */
struct sums_out { float *gradient, *product; };

ALWAYS_INLINE void pass_products_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                     struct giving of, bool by_line, bool adds, struct sums_out out,
                                     struct channels these)
{
    struct product_sums sums = { .gradient = { { 0 } } };
    struct lanes_line of_lanes[OCTETS_MAX];
    load_line(line, these, of_lanes);
    if (by_line && adds)
        pass_products(type, plane, of_lanes, of, true, true, &sums, these);
    else if (by_line)
        pass_products(type, plane, of_lanes, of, true, false, &sums, these);
    else if (adds)
        pass_products(type, plane, of_lanes, of, false, true, &sums, these);
    else
        pass_products(type, plane, of_lanes, of, false, false, &sums, these);
    add_new(out.gradient, sums.gradient, these);
    add_new(out.product, sums.product, these);
}

VECTOR_LOOPS
void norm_pass_products(struct norm_plane plane, struct norm_line line, bool masked_by_line, const void *values,
                        const void *gradient, float *gradient_sum, float *product_sum, bool adds, void *to)
{
#define BODY(type, these) pass_products_any(type, slice_of(plane, p), line, of, masked_by_line, adds, out, these)
    const struct sums_out out = { gradient_sum, product_sum };
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        const struct giving of = { value_pixel_of(plane, values, p), pixel_of(plane, gradient, p),
                                   value_pixel_of(plane, to, p) };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* The coefficients of some channels for it. */
struct lanes_slope { lanes slope, offset; };

ALWAYS_INLINE void load_slope(struct norm_slope slope, struct channels these, struct lanes_slope slope_out[OCTETS_MAX])
{
    for (uint32_t k = 0; k < octets_of(these); k++) {
        octet_load(slope.slope, these, k, &slope_out[k].slope);
        octet_load(slope.offset, these, k, &slope_out[k].offset);
    }
}

ALWAYS_INLINE void give_back(enum value_type type, struct norm_plane plane, const struct lanes_line line[OCTETS_MAX],
                             const struct lanes_slope slope[OCTETS_MAX], struct giving of, bool by_line, bool adds,
                             struct channels these)
{
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < octets_of(these); k++) {
            const size_t at = p * plane.stride + octet_first(these, k);
            lanes value, gradient, other;
            read_both(type, plane, &line[k], &of, by_line, p, these, k, &value, &gradient);
            gradient = gradient * line[k].scale + value * slope[k].slope + slope[k].offset;
            if (adds) {
                lanes_read(type, of.to, at, octet_count(these), &other);
                gradient += other;
            }
            write_new(type, of.to, at, &gradient, these, k);
        }
}

ALWAYS_INLINE void give_back_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                 struct norm_slope slope, bool by_line, struct giving of, bool adds,
                                 struct channels these)
{
    struct lanes_line of_lanes[OCTETS_MAX];
    struct lanes_slope slope_lanes[OCTETS_MAX];
    load_line(line, these, of_lanes);
    load_slope(slope, these, slope_lanes);
    if (by_line && adds)
        give_back(type, plane, of_lanes, slope_lanes, of, true, true, these);
    else if (by_line)
        give_back(type, plane, of_lanes, slope_lanes, of, true, false, these);
    else if (adds)
        give_back(type, plane, of_lanes, slope_lanes, of, false, true, these);
    else
        give_back(type, plane, of_lanes, slope_lanes, of, false, false, these);
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
    const uint32_t count = octet_count(these);
    struct lanes_slope slope[OCTETS_MAX];
    lanes mean[OCTETS_MAX];
    load_slope(by, these, slope);
    for (uint32_t k = 0; k < octets_of(these); k++)
        octet_load(mean_of, these, k, &mean[k]);
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < octets_of(these); k++) {
            const size_t at = p * plane.stride + octet_first(these, k);
            lanes value, gradient;
            lanes_read(type, values, at, count, &value);
            lanes_read(type, to, at, count, &gradient);
            gradient += (value - mean[k]) * slope[k].slope + slope[k].offset;
            write_new(type, to, at, &gradient, these, k);
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
