/* The loops of batch normalisation over one plane: 16 channels at a time, a cache line of each
 * pixel, where the block allows it, else 8 or one. All channels of a slice of the pixels come before the
 * next slice: sums are kept in registers, of few pixels at a time (the longer a sum in single precision gets, the
 * more every number added to it is rounded), and where a pixel has many channels the nearest cache holds a slice. */
#include "compute/onednn/onednn_norm.h"

#include "compute/lanes.h"
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
static struct norm_plane slice_of(struct norm_plane plane, size_t first)
{
    const size_t left = plane.pixels - first;
    plane.pixels = left < SLICE ? left : SLICE;
    return plane;
}

/* Of what the block's numbers lie in one behind the other. */
static void *pixel_of(struct norm_plane plane, const void *numbers, size_t pixel)
{
    return value_at(plane.type, numbers, pixel * plane.block);
}

/* Of the values, or their gradient. */
static void *value_pixel_of(struct norm_plane plane, const void *values, size_t pixel)
{
    return value_at(plane.type, values, pixel * plane.stride);
}

/* ---- forward ---- */

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

/* A line's numbers of some channels. */
struct wide_line { wide mean, scale, shift; };

ALWAYS_INLINE void load_line(struct norm_line line, struct channels these, struct wide_line *line_out)
{
    WIDE_LOAD(line_out->mean, line.mean + these.first, these.count);
    WIDE_LOAD(line_out->scale, line.scale + these.first, these.count);
    WIDE_LOAD(line_out->shift, line.shift + these.first, these.count);
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

/* ---- backward ---- */

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
