/* The loops of batch normalisation over one plane: 16 channels at a time, a cache line of each
 * pixel, where the block allows it, else 8, else one. Sums are kept in registers. */
#include "compute/onednn/onednn_norm.h"

#include "compute/lanes.h"
#include "compute/vector.h"

#define WIDE 16u

typedef float wide __attribute__((vector_size(64)));
typedef int32_t wide_bits __attribute__((vector_size(64)));

/* The first `count` numbers, the others 0; count is a constant where speed matters. */
#define WIDE_LOAD(to, from, count) \
    do { \
        if ((count) < WIDE) \
            memset(&(to), 0, sizeof(to)); \
        memcpy(&(to), (from), (count) * sizeof(float)); \
    } while (0)
#define WIDE_STORE(to, value, count) memcpy((to), &(value), (count) * sizeof(float))
#define WIDE_SELECT(bits, a, b) ((wide)(((bits) & (wide_bits)(a)) | (~(bits) & (wide_bits)(b))))

/* Calls body(first channel, number of channels) for all channels of a block. */
#define FOR_CHANNELS(block, body) \
    do { \
        size_t first = 0; \
        for (; first + WIDE <= (block); first += WIDE) \
            body(first, WIDE); \
        for (; first + LANES <= (block); first += LANES) \
            body(first, LANES); \
        for (; first < (block); first++) \
            body(first, 1u); \
    } while (0)

/* ---- forward ---- */

ALWAYS_INLINE void add_sums(struct norm_plane plane, const float *values, float *sum_out, uint32_t count)
{
    wide sum = { 0 }, other = { 0 }, value;
    size_t p = 0;
    for (; p + 2 <= plane.pixels; p += 2, values += 2 * plane.block) {
        WIDE_LOAD(value, values, count);
        sum += value;
        WIDE_LOAD(value, values + plane.block, count);
        other += value;
    }
    if (p < plane.pixels) {
        WIDE_LOAD(value, values, count);
        sum += value;
    }
    WIDE_LOAD(value, sum_out, count);
    value += sum + other;
    WIDE_STORE(sum_out, value, count);
}

VECTOR_LOOPS
void norm_add_sums(struct norm_plane plane, const float *values, float *sum)
{
#define BODY(first, count) add_sums(plane, values + first, sum + first, count)
    FOR_CHANNELS(plane.block, BODY);
#undef BODY
}

ALWAYS_INLINE void add_squares(struct norm_plane plane, const float *values, const float *mean_of, float *squares_out,
                               uint32_t count)
{
    wide sum = { 0 }, other = { 0 }, value, mean;
    size_t p = 0;
    WIDE_LOAD(mean, mean_of, count);
    for (; p + 2 <= plane.pixels; p += 2, values += 2 * plane.block) {
        WIDE_LOAD(value, values, count);
        value -= mean;
        sum += value * value;
        WIDE_LOAD(value, values + plane.block, count);
        value -= mean;
        other += value * value;
    }
    if (p < plane.pixels) {
        WIDE_LOAD(value, values, count);
        value -= mean;
        sum += value * value;
    }
    WIDE_LOAD(value, squares_out, count);
    value += sum + other;
    WIDE_STORE(squares_out, value, count);
}

VECTOR_LOOPS
void norm_add_squares(struct norm_plane plane, const float *values, const float *mean, float *squares)
{
#define BODY(first, count) add_squares(plane, values + first, mean + first, squares + first, count)
    FOR_CHANNELS(plane.block, BODY);
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

ALWAYS_INLINE void apply(struct norm_plane plane, const struct wide_line *line, const float *values, const float *skip,
                         bool relu, float *result, uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block;
        wide value, other;
        WIDE_LOAD(value, values + at, count);
        value = (value - line->mean) * line->scale + line->shift;
        if (skip != NULL) {
            WIDE_LOAD(other, skip + at, count);
            value += other;
        }
        if (relu)
            value = WIDE_SELECT(value > 0.0f, value, (wide){ 0 });
        WIDE_STORE(result + at, value, count);
    }
}

ALWAYS_INLINE void apply_any(struct norm_plane plane, struct norm_line line, size_t first, const float *values,
                             const float *skip, bool relu, float *result, uint32_t count)
{
    struct wide_line of;
    load_line(line, first, count, &of);
    values += first;
    result += first;
    if (skip != NULL && relu)
        apply(plane, &of, values, skip + first, true, result, count);
    else if (skip != NULL)
        apply(plane, &of, values, skip + first, false, result, count);
    else if (relu)
        apply(plane, &of, values, NULL, true, result, count);
    else
        apply(plane, &of, values, NULL, false, result, count);
}

VECTOR_LOOPS
void norm_apply(struct norm_plane plane, struct norm_line line, const float *values, const float *skip, bool relu,
                float *result)
{
#define BODY(first, count) apply_any(plane, line, first, values, skip, relu, result, count)
    FOR_CHANNELS(plane.block, BODY);
#undef BODY
}

/* ---- backward ---- */

enum masking { MASK_NONE, MASK_BY_LINE, MASK_BY_RESULTS };

struct product_sums { wide gradient, product; };

ALWAYS_INLINE void add_products(struct norm_plane plane, const struct wide_line *line, enum masking masking,
                                const float *values, const float *results, float *gradients,
                                struct product_sums *sums, uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block;
        wide value, gradient, result;
        WIDE_LOAD(value, values + at, count);
        WIDE_LOAD(gradient, gradients + at, count);
        value -= line->mean;
        if (masking == MASK_BY_LINE) {
            result = value * line->scale + line->shift;
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
        }
        if (masking == MASK_BY_RESULTS) {
            WIDE_LOAD(result, results + at, count);
            gradient = WIDE_SELECT(result > 0.0f, gradient, (wide){ 0 });
            WIDE_STORE(gradients + at, gradient, count);
        }
        sums->gradient += gradient;
        sums->product += gradient * value;
    }
}

ALWAYS_INLINE void add_products_any(struct norm_plane plane, struct norm_line line, size_t first,
                                    struct norm_mask mask, const float *values, float *gradient, float *gradient_sum,
                                    float *product_sum, uint32_t count)
{
    struct product_sums sums = { .gradient = { 0 } };
    struct wide_line of;
    wide before;
    load_line(line, first, count, &of);
    values += first;
    gradient += first;
    if (mask.results != NULL)
        add_products(plane, &of, MASK_BY_RESULTS, values, mask.results + first, gradient, &sums, count);
    else if (mask.by_line)
        add_products(plane, &of, MASK_BY_LINE, values, NULL, gradient, &sums, count);
    else
        add_products(plane, &of, MASK_NONE, values, NULL, gradient, &sums, count);
    WIDE_LOAD(before, gradient_sum + first, count);
    sums.gradient += before;
    WIDE_STORE(gradient_sum + first, sums.gradient, count);
    WIDE_LOAD(before, product_sum + first, count);
    sums.product += before;
    WIDE_STORE(product_sum + first, sums.product, count);
}

VECTOR_LOOPS
void norm_add_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const float *values,
                       float *gradient, float *gradient_sum, float *product_sum)
{
#define BODY(first, count) \
    add_products_any(plane, line, first, mask, values, gradient, gradient_sum, product_sum, count)
    FOR_CHANNELS(plane.block, BODY);
#undef BODY
}

/* What to give back of one plane. */
struct giving {
    const struct wide_line *line;
    wide slope, offset;
    const float *values, *gradient;
    float *to;
};

ALWAYS_INLINE void give_back(struct norm_plane plane, const struct giving *giving, bool by_line, bool adds,
                             uint32_t count)
{
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block;
        wide value, gradient, other;
        WIDE_LOAD(value, giving->values + at, count);
        WIDE_LOAD(gradient, giving->gradient + at, count);
        value -= giving->line->mean;
        if (by_line) {
            other = value * giving->line->scale + giving->line->shift;
            gradient = WIDE_SELECT(other > 0.0f, gradient, (wide){ 0 });
        }
        gradient = gradient * giving->line->scale + value * giving->slope + giving->offset;
        if (adds) {
            WIDE_LOAD(other, giving->to + at, count);
            gradient += other;
        }
        WIDE_STORE(giving->to + at, gradient, count);
    }
}

ALWAYS_INLINE void give_back_any(struct norm_plane plane, struct norm_line line, struct norm_slope slope, size_t first,
                                 bool by_line, const float *values, const float *gradient, bool adds, float *to,
                                 uint32_t count)
{
    struct wide_line of;
    struct giving giving = { .line = &of, .values = values + first, .gradient = gradient + first, .to = to + first };
    load_line(line, first, count, &of);
    WIDE_LOAD(giving.slope, slope.slope + first, count);
    WIDE_LOAD(giving.offset, slope.offset + first, count);
    if (by_line && adds)
        give_back(plane, &giving, true, true, count);
    else if (by_line)
        give_back(plane, &giving, true, false, count);
    else if (adds)
        give_back(plane, &giving, false, true, count);
    else
        give_back(plane, &giving, false, false, count);
}

VECTOR_LOOPS
void norm_give_back(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                    const float *values, const float *gradient, bool adds, float *to)
{
#define BODY(first, count) \
    give_back_any(plane, line, slope, first, masked_by_line, values, gradient, adds, to, count)
    FOR_CHANNELS(plane.block, BODY);
#undef BODY
}
