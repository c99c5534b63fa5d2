/* The loops of batch normalisation over one plane. They handle 16 channels at a time, a cache line of each pixel, where
 * the block allows it, else 8 or one, as vectors of 8: GCC splits wider vectors than the machine's badly, and compares
 * them element by element. The pixels are handled in strips, all channels of a strip before the next one: sums stay in
 * registers and are of few numbers (long sums in single precision lose bits), and the nearest cache holds a strip where
 * a pixel has many channels. */
#include "compute/onednn/onednn_norm_loops.h"

#include "compute/onednn/onednn_activation.h"
#include "compute/onednn/onednn_activation_lanes.h"
#include "compute/vector.h"

#define VECTORS_MAX 2u
#define WIDE (VECTORS_MAX * LANES)
#define STRIP 128u              /* pixels of a strip, a multiple of NORM_MASK_PIXELS */

/* Channels that are handled together: `count` (WIDE, LANES or 1) from `first` on. The first `done` < LANES of them were
 * handled before: the last vector of a block overlaps the one before. All members are constants for the compiler where
 * speed matters, except `done` of the last vector. */
struct channels { size_t first, done; uint32_t count; };

ALWAYS_INLINE uint32_t vectors_of(struct channels group)
{
    return group.count > LANES ? VECTORS_MAX : 1;
}

ALWAYS_INLINE uint32_t lanes_of(struct channels group)
{
    return group.count > LANES ? LANES : group.count;
}

/* The first channel of vector k. */
ALWAYS_INLINE size_t vector_first(struct channels group, uint32_t k)
{
    return group.first + k * LANES;
}

/* Copies from *b to *a the lanes that were handled before. */
ALWAYS_INLINE void keep_handled(struct channels group, uint32_t k, lanes *a, const lanes *b)
{
    const lane_bits order = { 0, 1, 2, 3, 4, 5, 6, 7 };
    if (group.done > 0 && k == 0)
        *a = LANES_SELECT(order >= (int32_t)group.done, *a, *b);
}

/* Loads vector k of an array over channels. */
ALWAYS_INLINE void vector_load(const float *from, struct channels group, uint32_t k, lanes *lanes_out)
{
    LANES_LOAD(*lanes_out, from + vector_first(group, k), lanes_of(group));
}

/* to[channel] += more[channel], for channels that were not handled before. */
ALWAYS_INLINE void add_unhandled(float *to, const lanes more[VECTORS_MAX], struct channels group)
{
    for (uint32_t k = 0; k < vectors_of(group); k++) {
        lanes before, sum;
        vector_load(to, group, k, &before);
        sum = before + more[k];
        keep_handled(group, k, &sum, &before);
        LANES_STORE(to + vector_first(group, k), sum, lanes_of(group));
    }
}

/* Writes vector k, only for channels that were not handled before. */
ALWAYS_INLINE void write_unhandled(enum value_type type, void *values, size_t at, const lanes *numbers,
                                   struct channels group, uint32_t k)
{
    lanes all = *numbers, before;
    if (group.done > 0 && k == 0) {
        lanes_read(type, values, at, lanes_of(group), &before);
        keep_handled(group, k, &all, &before);
    }
    lanes_write(type, values, at, lanes_of(group), &all);
}

/* Calls body(type, struct channels) for all channels of a block; a last vector that is not full overlaps the one
 * before. */
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

/* The strip of pixels from pixel `first` on. */
static inline struct norm_plane strip_of(struct norm_plane plane, size_t first)
{
    const size_t left = plane.pixels - first;
    plane.pixels = left < STRIP ? left : STRIP;
    return plane;
}

/* A pixel of contiguous rows. */
static inline void *pixel_of(struct norm_plane plane, const void *numbers, size_t pixel)
{
    return value_at(plane.type, numbers, pixel * plane.block);
}

/* A pixel of the values, or of their gradient. */
static inline void *value_pixel_of(struct norm_plane plane, const void *values, size_t pixel)
{
    return value_at(plane.type, values, pixel * plane.stride);
}

/* Offset of the mask words of pixel `pixel`, a multiple of NORM_MASK_PIXELS. */
static inline size_t mask_offset(struct norm_plane plane, size_t pixel)
{
    return pixel / NORM_MASK_PIXELS * plane.block;
}

/* A line's coefficients of some channels. */
struct lanes_line { lanes mean, scale, shift; };

ALWAYS_INLINE void load_line(struct norm_line line, struct channels group, struct lanes_line line_out[VECTORS_MAX])
{
    for (uint32_t k = 0; k < vectors_of(group); k++) {
        vector_load(line.mean, group, k, &line_out[k].mean);
        vector_load(line.scale, group, k, &line_out[k].scale);
        vector_load(line.shift, group, k, &line_out[k].shift);
    }
}

/* ---- forward ---- */

ALWAYS_INLINE void add_sums(enum value_type type, struct norm_plane plane, const void *values, float *sum_out,
                            struct channels group)
{
    lanes sums[VECTORS_MAX] = { { 0 } }, others[VECTORS_MAX] = { { 0 } }, value;
    const size_t stride = plane.stride;
    const uint32_t vectors = vectors_of(group), count = lanes_of(group);
    size_t p = 0;
    for (; p + 2 <= plane.pixels; p += 2)
        for (uint32_t k = 0; k < vectors; k++) {
            const size_t at = p * stride + vector_first(group, k);
            lanes_read(type, values, at, count, &value);
            sums[k] += value;
            lanes_read(type, values, at + stride, count, &value);
            others[k] += value;
        }
    for (uint32_t k = 0; k < vectors; k++) {
        if (p < plane.pixels) {
            lanes_read(type, values, p * stride + vector_first(group, k), count, &value);
            sums[k] += value;
        }
        sums[k] += others[k];
    }
    add_unhandled(sum_out, sums, group);
}

VECTOR_LOOPS
void norm_add_sums(struct norm_plane plane, const void *values, float *sum)
{
#define BODY(type, group) \
    add_sums(type, strip_of(plane, p), value_pixel_of(plane, values, p), sum, group)
    for (size_t p = 0; p < plane.pixels; p += STRIP)
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
                               const float *mean_of, float *squares_out, struct channels group)
{
    lanes sums[VECTORS_MAX] = { { 0 } }, others[VECTORS_MAX] = { { 0 } }, means[VECTORS_MAX];
    const size_t stride = plane.stride;
    const uint32_t vectors = vectors_of(group), count = lanes_of(group);
    size_t p = 0;
    for (uint32_t k = 0; k < vectors; k++)
        vector_load(mean_of, group, k, &means[k]);
    for (; p + 2 <= plane.pixels; p += 2)
        for (uint32_t k = 0; k < vectors; k++) {
            const size_t at = p * stride + vector_first(group, k);
            add_square(type, values, at, count, &means[k], &sums[k]);
            add_square(type, values, at + stride, count, &means[k], &others[k]);
        }
    for (uint32_t k = 0; k < vectors; k++) {
        if (p < plane.pixels)
            add_square(type, values, p * stride + vector_first(group, k), count, &means[k], &sums[k]);
        sums[k] += others[k];
    }
    add_unhandled(squares_out, sums, group);
}

VECTOR_LOOPS
void norm_add_squares(struct norm_plane plane, const void *values, const float *mean, float *squares)
{
#define BODY(type, group) \
    add_squares(type, strip_of(plane, p), value_pixel_of(plane, values, p), mean, squares, group)
    for (size_t p = 0; p < plane.pixels; p += STRIP)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}

struct apply_work { const void *values, *skip; void *result; uint32_t *bits; };

/* Stores the mask words up to this pixel. */
ALWAYS_INLINE void store_bits(const struct apply_work *of, struct norm_plane plane, size_t pixel,
                              lane_bits bits[VECTORS_MAX], struct channels group)
{
    for (uint32_t k = 0; k < vectors_of(group); k++) {
        LANES_STORE(of->bits + mask_offset(plane, pixel) + vector_first(group, k), bits[k], LANES);
        bits[k] = (lane_bits){ 0 };
    }
}

ALWAYS_INLINE void apply(enum value_type type, struct norm_plane plane, const struct lanes_line line[VECTORS_MAX],
                         struct apply_work of, bool adds_skip, bool relu, bool keeps_bits, struct channels group)
{
    lane_bits bits[VECTORS_MAX] = { { 0 } };
    for (size_t p = 0; p < plane.pixels; p++) {
        for (uint32_t k = 0; k < vectors_of(group); k++) {
            const size_t at = p * plane.block + vector_first(group, k);
            lanes value, other;
            lanes_read(type, of.values, p * plane.stride + vector_first(group, k), lanes_of(group), &value);
            value = (value - line[k].mean) * line[k].scale + line[k].shift;
            if (adds_skip) {
                lanes_read(type, of.skip, at, lanes_of(group), &other);
                value += other;
            }
            const lane_bits above = value > 0.0f;
            if (keeps_bits)
                bits[k] |= above & (int32_t)(1u << p % NORM_MASK_PIXELS);
            if (relu)
                value = LANES_SELECT(above, value, (lanes){ 0 });
            write_unhandled(type, of.result, at, &value, group, k);
        }
        if (keeps_bits && (p % NORM_MASK_PIXELS == NORM_MASK_PIXELS - 1 || p + 1 == plane.pixels))
            store_bits(&of, plane, p, bits, group);
    }
}

ALWAYS_INLINE void apply_any(enum value_type type, struct norm_plane plane, struct norm_line line, struct apply_work of,
                             bool relu, struct channels group)
{
    struct lanes_line line_of_group[VECTORS_MAX];
    load_line(line, group, line_of_group);
    if (of.bits != NULL)
        apply(type, plane, line_of_group, of, true, true, true, group);
    else if (of.skip != NULL && relu)
        apply(type, plane, line_of_group, of, true, true, false, group);
    else if (of.skip != NULL)
        apply(type, plane, line_of_group, of, true, false, false, group);
    else if (relu)
        apply(type, plane, line_of_group, of, false, true, false, group);
    else
        apply(type, plane, line_of_group, of, false, false, false, group);
}

VECTOR_LOOPS
void norm_apply(struct norm_plane plane, struct norm_line line, const void *values, const void *skip, bool relu,
                void *result, uint32_t *bits)
{
#define BODY(type, group) apply_any(type, strip_of(plane, p), line, of, relu, group)
    for (size_t p = 0; p < plane.pixels; p += STRIP) {
        const struct apply_work of = { value_pixel_of(plane, values, p), skip != NULL ? pixel_of(plane, skip, p) : NULL,
                                     pixel_of(plane, result, p),
                                     bits != NULL ? bits + mask_offset(plane, p) : NULL };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

/* ---- activations: their loops have 8 channels or, where a block has fewer, the pixels of one ---- */

/* is_backward: `to` has gradients, which are multiplied by the derivatives. Else the results are written there. */
struct activation_work {
    struct norm_line line;
    const struct layer *layer;
    const void *values;
    void *to;
    bool is_backward;
};

ALWAYS_INLINE void activate_group(enum activation activation, enum value_type type, struct norm_plane plane,
                                  const struct activation_work *work, bool is_backward, struct channels group)
{
    const float limit = work->layer->limit;
    struct lanes_line line[VECTORS_MAX];
    load_line(work->line, group, line);
    for (size_t p = 0; p < plane.pixels; p++) {
        const size_t at = p * plane.block + group.first;
        lanes value, gradient;
        lanes_read(type, work->values, p * plane.stride + group.first, LANES, &value);
        value = (value - line->mean) * line->scale + line->shift;
        if (is_backward) {
            activation_slope(activation, limit, &value);
            lanes_read(type, work->to, at, LANES, &gradient);
            value *= gradient;
        } else {
            activation_value(activation, limit, &value);
        }
        write_unhandled(type, work->to, at, &value, group, 0);
    }
}

ALWAYS_INLINE void activate_groups(enum activation activation, enum value_type type, struct norm_plane plane,
                                   const struct activation_work *work, bool is_backward)
{
    size_t first = 0;
    for (; first + LANES <= plane.block; first += LANES)
        activate_group(activation, type, plane, work, is_backward, (struct channels){ first, 0, LANES });
    if (first < plane.block)
        activate_group(activation, type, plane, work, is_backward,
                       (struct channels){ plane.block - LANES, first + LANES - plane.block, LANES });
}

ALWAYS_INLINE void activate_any(enum activation activation, struct norm_plane strip, const struct activation_work *work)
{
    if (strip.type == VALUE_BF16 && work->is_backward)
        activate_groups(activation, VALUE_BF16, strip, work, true);
    else if (strip.type == VALUE_BF16)
        activate_groups(activation, VALUE_BF16, strip, work, false);
    else if (work->is_backward)
        activate_groups(activation, VALUE_FP32, strip, work, true);
    else
        activate_groups(activation, VALUE_FP32, strip, work, false);
}

VECTOR_POLYNOMIALS
static void activate_strip(struct norm_plane strip, const struct activation_work *work)
{
    FOR_ACTIVATION(work->layer->activation, activate_any, strip, work);
}

static void activate_channel(struct norm_plane strip, const struct activation_work *work, size_t channel)
{
    const float mean = work->line.mean[channel], scale = work->line.scale[channel], shift = work->line.shift[channel];
    float numbers[STRIP];
    for (size_t p = 0; p < strip.pixels; p++)
        numbers[p] = (value_read(strip.type, work->values, p * strip.stride + channel) - mean) * scale + shift;
    (work->is_backward ? activation_slopes : activation_values)(work->layer, numbers, strip.pixels);
    for (size_t p = 0; p < strip.pixels; p++) {
        const size_t at = p * strip.block + channel;
        value_write(strip.type, work->to, at,
                    work->is_backward ? value_read(strip.type, work->to, at) * numbers[p] : numbers[p]);
    }
}

/* `first` is the first pixel of a strip of the plane. */
static void activate(struct norm_plane plane, const struct activation_work *of_plane, size_t first)
{
    const struct norm_plane strip = strip_of(plane, first);
    struct activation_work work = *of_plane;
    work.values = value_pixel_of(plane, work.values, first);
    work.to = pixel_of(plane, work.to, first);
    if (plane.block >= LANES) {
        activate_strip(strip, &work);
        return;
    }
    for (size_t c = 0; c < plane.block; c++)
        activate_channel(strip, &work, c);
}

void norm_activate(struct norm_plane plane, struct norm_line line, const struct layer *activation, const void *values,
                   void *result)
{
    const struct activation_work work = { line, activation, values, result, false };
    for (size_t p = 0; p < plane.pixels; p += STRIP)
        activate(plane, &work, p);
}

/* Multiplies the gradients of the strip from pixel `first` on by the derivatives, if there is an activation. */
static void pass_activation(struct norm_plane plane, struct norm_line line, const struct layer *activation,
                            const void *values, void *gradient, size_t first)
{
    const struct activation_work work = { line, activation, values, gradient, true };
    if (activation != NULL)
        activate(plane, &work, first);
}

/* ---- backward ---- */

enum mask_kind { MASK_NONE, MASK_BY_LINE, MASK_BY_RESULTS, MASK_BY_BITS };

struct product_sums { lanes gradient[VECTORS_MAX], product[VECTORS_MAX]; };

/* Loads the mask words from this pixel on. */
ALWAYS_INLINE void load_bits(const uint32_t *bits, struct norm_plane plane, size_t pixel,
                             lane_bits noted_out[VECTORS_MAX], struct channels group)
{
    for (uint32_t k = 0; k < vectors_of(group); k++)
        LANES_LOAD(noted_out[k], bits + mask_offset(plane, pixel) + vector_first(group, k), LANES);
}

/* Sums the gradients and the products of some channels. Channels that were handled before are masked a second time,
 * which changes nothing. */
ALWAYS_INLINE void sum_products(enum value_type type, struct norm_plane plane,
                                const struct lanes_line line[VECTORS_MAX], enum mask_kind mask_kind,
                                struct norm_mask mask, const void *values, void *gradients, struct product_sums *sums,
                                struct channels group)
{
    lane_bits bits[VECTORS_MAX] = { { 0 } };
    const uint32_t count = lanes_of(group);
    for (size_t p = 0; p < plane.pixels; p++) {
        if (mask_kind == MASK_BY_BITS && p % NORM_MASK_PIXELS == 0)
            load_bits(mask.bits, plane, p, bits, group);
        for (uint32_t k = 0; k < vectors_of(group); k++) {
            const size_t at = p * plane.block + vector_first(group, k);
            lanes value, gradient, result;
            lanes_read(type, values, p * plane.stride + vector_first(group, k), count, &value);
            lanes_read(type, gradients, at, count, &gradient);
            value -= line[k].mean;
            if (mask_kind == MASK_BY_LINE) {
                result = value * line[k].scale + line[k].shift;
                gradient = LANES_SELECT(result > 0.0f, gradient, (lanes){ 0 });
            }
            if (mask_kind == MASK_BY_RESULTS) {
                lanes_read(type, mask.results, at, count, &result);
                gradient = LANES_SELECT(result > 0.0f, gradient, (lanes){ 0 });
            }
            if (mask_kind == MASK_BY_BITS) {
                const lane_bits passes = (bits[k] & (int32_t)(1u << p % NORM_MASK_PIXELS)) != 0;
                gradient = LANES_SELECT(passes, gradient, (lanes){ 0 });
            }
            if (mask_kind == MASK_BY_RESULTS || mask_kind == MASK_BY_BITS)
                lanes_write(type, gradients, at, count, &gradient);
            sums->gradient[k] += gradient;
            sums->product[k] += gradient * value;
        }
    }
}

ALWAYS_INLINE void sum_products_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                    struct norm_mask mask, const void *values, void *gradient, float *gradient_sum,
                                    float *product_sum, struct channels group)
{
    struct product_sums sums = { .gradient = { { 0 } } };
    struct lanes_line of[VECTORS_MAX];
    load_line(line, group, of);
    if (mask.bits != NULL)
        sum_products(type, plane, of, MASK_BY_BITS, mask, values, gradient, &sums, group);
    else if (mask.results != NULL)
        sum_products(type, plane, of, MASK_BY_RESULTS, mask, values, gradient, &sums, group);
    else if (mask.by_line)
        sum_products(type, plane, of, MASK_BY_LINE, mask, values, gradient, &sums, group);
    else
        sum_products(type, plane, of, MASK_NONE, mask, values, gradient, &sums, group);
    add_unhandled(gradient_sum, sums.gradient, group);
    add_unhandled(product_sum, sums.product, group);
}

VECTOR_LOOPS
void norm_sum_products(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                       void *gradient, float *gradient_sum, float *product_sum)
{
#define BODY(type, group) \
    sum_products_any(type, strip_of(plane, p), line, strip_mask, value_pixel_of(plane, values, p), \
                     pixel_of(plane, gradient, p), gradient_sum, product_sum, group)
    for (size_t p = 0; p < plane.pixels; p += STRIP) {
        struct norm_mask strip_mask = mask;
        if (mask.results != NULL)
            strip_mask.results = pixel_of(plane, mask.results, p);
        if (mask.bits != NULL)
            strip_mask.bits = mask.bits + mask_offset(plane, p);
        pass_activation(plane, line, mask.activation, values, gradient, p);
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

struct gradient_work { const void *values, *gradient; void *to; };

/* Reads vector k of a pixel: values minus their mean, and masked gradients. */
ALWAYS_INLINE void read_both(enum value_type type, struct norm_plane plane, const struct lanes_line *line,
                             const struct gradient_work *of, bool by_line, size_t pixel, struct channels group,
                             uint32_t k, lanes *value_out, lanes *gradient_out)
{
    const size_t first = vector_first(group, k);
    lanes_read(type, of->values, pixel * plane.stride + first, lanes_of(group), value_out);
    lanes_read(type, of->gradient, pixel * plane.block + first, lanes_of(group), gradient_out);
    *value_out -= line->mean;
    if (by_line) {
        const lanes result = *value_out * line->scale + line->shift;
        *gradient_out = LANES_SELECT(result > 0.0f, *gradient_out, (lanes){ 0 });
    }
}

ALWAYS_INLINE void sum_and_scale(enum value_type type, struct norm_plane plane,
                                 const struct lanes_line line[VECTORS_MAX], struct gradient_work of, bool by_line,
                                 bool adds, struct product_sums *sums, struct channels group)
{
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < vectors_of(group); k++) {
            const size_t at = p * plane.stride + vector_first(group, k);
            lanes value, gradient, other;
            read_both(type, plane, &line[k], &of, by_line, p, group, k, &value, &gradient);
            sums->gradient[k] += gradient;
            sums->product[k] += gradient * value;
            gradient *= line[k].scale;
            if (adds) {
                lanes_read(type, of.to, at, lanes_of(group), &other);
                gradient += other;
            }
            write_unhandled(type, of.to, at, &gradient, group, k);
        }
}

/* Where the sums are added. */
struct sums_out { float *gradient, *product; };

ALWAYS_INLINE void sum_and_scale_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                     struct gradient_work of, bool by_line, bool adds, struct sums_out out,
                                     struct channels group)
{
    struct product_sums sums = { .gradient = { { 0 } } };
    struct lanes_line line_of_group[VECTORS_MAX];
    load_line(line, group, line_of_group);
    if (by_line && adds)
        sum_and_scale(type, plane, line_of_group, of, true, true, &sums, group);
    else if (by_line)
        sum_and_scale(type, plane, line_of_group, of, true, false, &sums, group);
    else if (adds)
        sum_and_scale(type, plane, line_of_group, of, false, true, &sums, group);
    else
        sum_and_scale(type, plane, line_of_group, of, false, false, &sums, group);
    add_unhandled(out.gradient, sums.gradient, group);
    add_unhandled(out.product, sums.product, group);
}

VECTOR_LOOPS
void norm_sum_and_scale(struct norm_plane plane, struct norm_line line, struct norm_mask mask, const void *values,
                        void *gradient, float *gradient_sum, float *product_sum, bool adds, void *to)
{
#define BODY(type, group) sum_and_scale_any(type, strip_of(plane, p), line, of, mask.by_line, adds, out, group)
    const struct sums_out out = { gradient_sum, product_sum };
    for (size_t p = 0; p < plane.pixels; p += STRIP) {
        const struct gradient_work of = { value_pixel_of(plane, values, p), pixel_of(plane, gradient, p),
                                   value_pixel_of(plane, to, p) };
        pass_activation(plane, line, mask.activation, values, gradient, p);
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

struct lanes_slope { lanes slope, offset; };

ALWAYS_INLINE void load_slope(struct norm_slope slope, struct channels group, struct lanes_slope slope_out[VECTORS_MAX])
{
    for (uint32_t k = 0; k < vectors_of(group); k++) {
        vector_load(slope.slope, group, k, &slope_out[k].slope);
        vector_load(slope.offset, group, k, &slope_out[k].offset);
    }
}

ALWAYS_INLINE void input_gradient(enum value_type type, struct norm_plane plane,
                                  const struct lanes_line line[VECTORS_MAX],
                                  const struct lanes_slope slope[VECTORS_MAX], struct gradient_work of, bool by_line,
                                  bool adds, struct channels group)
{
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < vectors_of(group); k++) {
            const size_t at = p * plane.stride + vector_first(group, k);
            lanes value, gradient, other;
            read_both(type, plane, &line[k], &of, by_line, p, group, k, &value, &gradient);
            gradient = gradient * line[k].scale + value * slope[k].slope + slope[k].offset;
            if (adds) {
                lanes_read(type, of.to, at, lanes_of(group), &other);
                gradient += other;
            }
            write_unhandled(type, of.to, at, &gradient, group, k);
        }
}

ALWAYS_INLINE void input_gradient_any(enum value_type type, struct norm_plane plane, struct norm_line line,
                                      struct norm_slope slope, bool by_line, struct gradient_work of, bool adds,
                                      struct channels group)
{
    struct lanes_line line_of_group[VECTORS_MAX];
    struct lanes_slope slope_lanes[VECTORS_MAX];
    load_line(line, group, line_of_group);
    load_slope(slope, group, slope_lanes);
    if (by_line && adds)
        input_gradient(type, plane, line_of_group, slope_lanes, of, true, true, group);
    else if (by_line)
        input_gradient(type, plane, line_of_group, slope_lanes, of, true, false, group);
    else if (adds)
        input_gradient(type, plane, line_of_group, slope_lanes, of, false, true, group);
    else
        input_gradient(type, plane, line_of_group, slope_lanes, of, false, false, group);
}

VECTOR_LOOPS
void norm_input_gradient(struct norm_plane plane, struct norm_line line, struct norm_slope slope, bool masked_by_line,
                         const void *values, const void *gradient, bool adds, void *to)
{
#define BODY(type, group) \
    input_gradient_any(type, strip_of(plane, p), line, slope, masked_by_line, of, adds, group)
    for (size_t p = 0; p < plane.pixels; p += STRIP) {
        const struct gradient_work of = { value_pixel_of(plane, values, p), pixel_of(plane, gradient, p),
                                   value_pixel_of(plane, to, p) };
        FOR_CHANNELS(plane, BODY);
    }
#undef BODY
}

ALWAYS_INLINE void add_line(enum value_type type, struct norm_plane plane, const float *mean_of, struct norm_slope by,
                            const void *values, void *to, struct channels group)
{
    const uint32_t count = lanes_of(group);
    struct lanes_slope slope[VECTORS_MAX];
    lanes mean[VECTORS_MAX];
    load_slope(by, group, slope);
    for (uint32_t k = 0; k < vectors_of(group); k++)
        vector_load(mean_of, group, k, &mean[k]);
    for (size_t p = 0; p < plane.pixels; p++)
        for (uint32_t k = 0; k < vectors_of(group); k++) {
            const size_t at = p * plane.stride + vector_first(group, k);
            lanes value, gradient;
            lanes_read(type, values, at, count, &value);
            lanes_read(type, to, at, count, &gradient);
            gradient += (value - mean[k]) * slope[k].slope + slope[k].offset;
            write_unhandled(type, to, at, &gradient, group, k);
        }
}

VECTOR_LOOPS
void norm_add_line(struct norm_plane plane, const float *mean, struct norm_slope slope, const void *values, void *to)
{
#define BODY(type, group) \
    add_line(type, strip_of(plane, p), mean, slope, value_pixel_of(plane, values, p), value_pixel_of(plane, to, p), \
             group)
    for (size_t p = 0; p < plane.pixels; p += STRIP)
        FOR_CHANNELS(plane, BODY);
#undef BODY
}
