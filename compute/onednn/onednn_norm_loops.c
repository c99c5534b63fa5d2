/* The loops of batch normalisation over one plane: 16 channels at a time, a cache line of each
 * pixel, where the block allows it, else 8, else one. Sums are kept in registers, of few pixels at a
 * time: the longer a sum in single precision gets, the more every number added to it is rounded. */
#include "compute/onednn/onednn_norm.h"

#include "compute/lanes.h"
#include "compute/vector.h"

#define WIDE 16u
#define SLICE 128u              /* pixels that are summed at a time */

typedef float wide __attribute__((vector_size(64)));
typedef int32_t wide_bits __attribute__((vector_size(64)));
typedef uint32_t wide_words __attribute__((vector_size(64)));
typedef uint16_t wide_shorts __attribute__((vector_size(32)));

/* The first `count` numbers, the others 0; count is a constant where speed matters. */
#define WIDE_LOAD(to, from, count) \
    do { \
        if ((count) < WIDE) \
            memset(&(to), 0, sizeof(to)); \
        memcpy(&(to), (from), (count) * sizeof(float)); \
    } while (0)
#define WIDE_STORE(to, value, count) memcpy((to), &(value), (count) * sizeof(float))
#define WIDE_SELECT(bits, a, b) ((wide)(((bits) & (wide_bits)(a)) | (~(bits) & (wide_bits)(b))))

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

/* Calls body(type, first channel, number of channels) for all channels of a plane's block. */
#define FOR_CHANNELS_OF(type, plane, body) \
    do { \
        size_t first = 0; \
        for (; first + WIDE <= (plane).block; first += WIDE) \
            body(type, first, WIDE); \
        for (; first + LANES <= (plane).block; first += LANES) \
            body(type, first, LANES); \
        for (; first < (plane).block; first++) \
            body(type, first, 1u); \
    } while (0)
#define FOR_CHANNELS(plane, body) \
    do { \
        if ((plane).type == VALUE_BF16) \
            FOR_CHANNELS_OF(VALUE_BF16, plane, body); \
        else \
            FOR_CHANNELS_OF(VALUE_FP32, plane, body); \
    } while (0)

/* The pixels of a plane that are summed together, from pixel `first` on. */
static struct norm_plane slice_of(struct norm_plane plane, size_t first)
{
    const size_t left = plane.pixels - first;
    return (struct norm_plane){ plane.type, left < SLICE ? left : SLICE, plane.block };
}

static void *pixel_of(struct norm_plane plane, const void *values, size_t pixel)
{
    return value_at(plane.type, values, pixel * plane.block);
}

/* ---- forward ---- */

ALWAYS_INLINE void add_sums(enum value_type type, struct norm_plane plane, const void *values, size_t first,
                            float *sum_out, uint32_t count)
{
    wide sum = { 0 }, other = { 0 }, value;
    size_t p = 0, at = first;
    for (; p + 2 <= plane.pixels; p += 2, at += 2 * plane.block) {
        wide_read(type, values, at, count, &value);
        sum += value;
        wide_read(type, values, at + plane.block, count, &value);
        other += value;
    }
    if (p < plane.pixels) {
        wide_read(type, values, at, count, &value);
        sum += value;
    }
    WIDE_LOAD(value, sum_out, count);
    value += sum + other;
    WIDE_STORE(sum_out, value, count);
}

VECTOR_LOOPS
void norm_add_sums(struct norm_plane plane, const void *values, float *sum)
{
#define BODY(type, first, count) \
    add_sums(type, slice_of(plane, p), pixel_of(plane, values, p), first, sum + first, count)
    for (size_t p = 0; p < plane.pixels; p += SLICE)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}

ALWAYS_INLINE void add_squares(enum value_type type, struct norm_plane plane, const void *values, size_t first,
                               const float *mean_of, float *squares_out, uint32_t count)
{
    wide sum = { 0 }, other = { 0 }, value, mean;
    size_t p = 0, at = first;
    WIDE_LOAD(mean, mean_of, count);
    for (; p + 2 <= plane.pixels; p += 2, at += 2 * plane.block) {
        wide_read(type, values, at, count, &value);
        value -= mean;
        sum += value * value;
        wide_read(type, values, at + plane.block, count, &value);
        value -= mean;
        other += value * value;
    }
    if (p < plane.pixels) {
        wide_read(type, values, at, count, &value);
        value -= mean;
        sum += value * value;
    }
    WIDE_LOAD(value, squares_out, count);
    value += sum + other;
    WIDE_STORE(squares_out, value, count);
}

VECTOR_LOOPS
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares)
{
#define BODY(type, first, count) \
    add_squares(type, slice_of(plane, p), pixel_of(plane, values, p), first, mean + first, squares + first, count)
    for (size_t p = 0; p < plane.pixels; p += SLICE)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}

/* A line's numbers of `count` channels. */
struct wide_line { wide mean, scale, shift; };

ALWAYS_INLINE void load_line(struct norm_line line, size_t first, uint32_t count, struct wide_line *line_out)
{
    WIDE_LOAD(line_out->mean, line.mean + first, count);
    WIDE_LOAD(line_out->scale, line.scale + first, count);
    WIDE_LOAD(line_out->shift, line.shift + first, count);
}

ALWAYS_INLINE void apply(enum value_type type, struct norm_plane plane, const struct wide_line *line, size_t first,
                         const void *values, const void *skip, bool relu, void *result, uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + first;
        wide value, other;
        wide_read(type, values, at, count, &value);
        value = (value - line->mean) * line->scale + line->shift;
        if (skip != NULL) {
            wide_read(type, skip, at, count, &other);
            value += other;
        }
        if (relu)
            value = WIDE_SELECT(value > 0.0f, value, (wide){ 0 });
        wide_write(type, result, at, count, &value);
    }
}

ALWAYS_INLINE void apply_any(enum value_type type, struct norm_plane plane, struct norm_line line, size_t first,
                             const void *values, const void *skip, bool relu, void *result, uint32_t count)
{
    struct wide_line of;
    load_line(line, first, count, &of);
    if (skip != NULL && relu)
        apply(type, plane, &of, first, values, skip, true, result, count);
    else if (skip != NULL)
        apply(type, plane, &of, first, values, skip, false, result, count);
    else if (relu)
        apply(type, plane, &of, first, values, NULL, true, result, count);
    else
        apply(type, plane, &of, first, values, NULL, false, result, count);
}

VECTOR_LOOPS
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result)
{
#define BODY(type, first, count) apply_any(type, plane, line, first, values, skip, relu, result, count)
    FOR_CHANNELS(plane, BODY);
#undef BODY
}

/* ---- backward ---- */

enum masking { MASK_NONE, MASK_BY_LINE, MASK_BY_RESULTS };

struct product_sums { wide gradient, product; };

ALWAYS_INLINE void add_products(enum value_type type, struct norm_plane plane, const struct wide_line *line,
                                size_t first, enum masking masking, const void *values, const void *results,
                                void *gradients, struct product_sums *sums, uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + first;
        wide value, gradient, result;
        wide_read(type, values, at, count, &value);
        wide_read(type, gradients, at, count, &gradient);
        value -= line->mean;
        if (masking == MASK_BY_LINE) {
            result = value * line->scale + line->shift;
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
        }
        if (masking == MASK_BY_RESULTS) {
            wide_read(type, results, at, count, &result);
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
            wide_write(type, gradients, at, count, &gradient);
        }
        sums->gradient += gradient;
        sums->product += gradient * value;
    }
}

ALWAYS_INLINE void add_products_any(enum value_type type, struct norm_plane plane, struct norm_line line, size_t first,
                                    struct norm_mask mask, const void *values, void *gradient, float *gradient_sum,
                                    float *product_sum, uint32_t count)
{
    struct product_sums sums = { .gradient = { 0 } };
    struct wide_line of;
    wide before;
    load_line(line, first, count, &of);
    if (mask.results != NULL)
        add_products(type, plane, &of, first, MASK_BY_RESULTS, values, mask.results, gradient, &sums, count);
    else if (mask.by_line)
        add_products(type, plane, &of, first, MASK_BY_LINE, values, NULL, gradient, &sums, count);
    else
        add_products(type, plane, &of, first, MASK_NONE, values, NULL, gradient, &sums, count);
    WIDE_LOAD(before, gradient_sum + first, count);
    sums.gradient += before;
    WIDE_STORE(gradient_sum + first, sums.gradient, count);
    WIDE_LOAD(before, product_sum + first, count);
    sums.product += before;
    WIDE_STORE(product_sum + first, sums.product, count);
}

VECTOR_LOOPS
void norm_add_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum)
{
#define BODY(type, first, count) \
    add_products_any(type, slice_of(plane, p), line, first, slice_mask, pixel_of(plane, values, p), \
                     pixel_of(plane, gradient, p), gradient_sum, product_sum, count)
    for (size_t p = 0; p < plane.pixels; p += SLICE) {
        struct norm_mask slice_mask = mask;
        if (mask.results != NULL)
            slice_mask.results = pixel_of(plane, mask.results, p);
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* What to give back of one plane. */
struct giving {
    const struct wide_line *line;
    wide slope, offset;
    const void *values, *gradient;
    void *to;
};

ALWAYS_INLINE void give_back(enum value_type type, struct norm_plane plane, size_t first, const struct giving *giving,
                             bool by_line, bool adds, uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + first;
        wide value, gradient, other;
        wide_read(type, giving->values, at, count, &value);
        wide_read(type, giving->gradient, at, count, &gradient);
        value -= giving->line->mean;
        if (by_line) {
            other = value * giving->line->scale + giving->line->shift;
            gradient = WIDE_SELECT(other > 0.0f, gradient, (wide){ 0 });
        }
        gradient = gradient * giving->line->scale + value * giving->slope + giving->offset;
        if (adds) {
            wide_read(type, giving->to, at, count, &other);
            gradient += other;
        }
        wide_write(type, giving->to, at, count, &gradient);
    }
}

ALWAYS_INLINE void give_back_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                 struct norm_slope slope, size_t first, bool by_line, const void *values,
                                 const void *gradient, bool adds, void *to, uint32_t count)
{
    struct wide_line of;
    struct giving giving = { .line = &of, .values = values, .gradient = gradient, .to = to };
    load_line(line, first, count, &of);
    WIDE_LOAD(giving.slope, slope.slope + first, count);
    WIDE_LOAD(giving.offset, slope.offset + first, count);
    if (by_line && adds)
        give_back(type, plane, first, &giving, true, true, count);
    else if (by_line)
        give_back(type, plane, first, &giving, true, false, count);
    else if (adds)
        give_back(type, plane, first, &giving, false, true, count);
    else
        give_back(type, plane, first, &giving, false, false, count);
}

VECTOR_LOOPS
void norm_give_back(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                    const void *values, const void *gradient, bool adds, void *to)
{
#define BODY(type, first, count) \
    give_back_any(type, plane, line, slope, first, masked_by_line, values, gradient, adds, to, count)
    FOR_CHANNELS(plane, BODY);
#undef BODY
}
