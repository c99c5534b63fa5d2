/* The operations of automatic augmentation, with Pillow's arithmetic. Called by decoders for training images. */
#include "loader/augment/operations.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "loader/images/image.h"
#include "loader/images/pixel_row.h"

#define VALUES 256u
#define PLANES_MAX 3u
#define FRACTION_BITS 16

/* A sample that an operation changes. Loops use copies of the fields: a byte that they write could alias a field. */
struct job {
    const struct image_shape *shape;
    double magnitude;
    size_t count;               /* number of bytes */
    uint8_t *copy;              /* with needs_copy: the sample before the operation; otherwise memory that may be
                                 * overwritten */
    uint8_t *pixels;
};

const char *const operation_names[OPERATION_COUNT] = {
    [OPERATION_IDENTITY] = "Identity",          [OPERATION_SHEAR_X] = "ShearX",
    [OPERATION_SHEAR_Y] = "ShearY",             [OPERATION_TRANSLATE_X] = "TranslateX",
    [OPERATION_TRANSLATE_Y] = "TranslateY",     [OPERATION_ROTATE] = "Rotate",
    [OPERATION_BRIGHTNESS] = "Brightness",      [OPERATION_COLOR] = "Color",
    [OPERATION_CONTRAST] = "Contrast",          [OPERATION_SHARPNESS] = "Sharpness",
    [OPERATION_POSTERIZE] = "Posterize",        [OPERATION_SOLARIZE] = "Solarize",
    [OPERATION_AUTO_CONTRAST] = "AutoContrast", [OPERATION_EQUALIZE] = "Equalize",
    [OPERATION_INVERT] = "Invert",              [OPERATION_VERTICAL_FLIP] = "VerticalFlip",
};

/* ---- geometry ---- */

/* Where the pixel (y, x) of the result comes from: x_x * x + x_y * y + x_0, and the same for y. The fractions of pixels
 * have FRACTION_BITS, as in Pillow's fixed-point transform. */
struct affine { int64_t x_x, x_y, x_0, y_x, y_y, y_0; };

static int64_t to_fixed(double value)
{
    return (int64_t)floor(value * (1 << FRACTION_BITS) + 0.5);
}

/* Coefficients are for coordinates in which the centre of pixel (0, 0) is (1/2, 1/2). */
static struct affine affine_of(double x_x, double x_y, double x_0, double y_x, double y_y, double y_0)
{
    return (struct affine){
        .x_x = to_fixed(x_x), .x_y = to_fixed(x_y), .x_0 = to_fixed(x_0 + x_x * 0.5 + x_y * 0.5),
        .y_x = to_fixed(y_x), .y_y = to_fixed(y_y), .y_0 = to_fixed(y_0 + y_x * 0.5 + y_y * 0.5),
    };
}

static inline __attribute__((always_inline)) void transform_rows(const struct job *job, const struct affine *affine,
                                                                 uint32_t channels)
{
    const uint64_t height = job->shape->height, width = job->shape->width;
    const struct affine step = *affine;
    const uint8_t *const copy = job->copy;
    uint8_t *to = job->pixels;
    for (uint64_t row = 0; row < height; row++) {
        int64_t x = step.x_0 + step.x_y * (int64_t)row, y = step.y_0 + step.y_y * (int64_t)row;
        for (uint64_t column = 0; column < width; column++, to += channels) {
            const uint64_t from_x = (uint64_t)(x >> FRACTION_BITS), from_y = (uint64_t)(y >> FRACTION_BITS);
            const bool is_inside = from_x < width && from_y < height;   /* negative numbers are large ones here */
            const uint8_t *const from = copy + (is_inside ? (from_y * width + from_x) * channels : 0);
            for (uint32_t c = 0; c < channels; c++)
                to[c] = is_inside ? from[c] : 0;
            x += step.x_x;
            y += step.y_x;
        }
    }
}

static void transform(const struct job *job, const struct affine *affine)
{
    if (job->shape->channels == 3)
        transform_rows(job, affine, 3);
    else
        transform_rows(job, affine, job->shape->channels);
}

static void shear_x(const struct job *job)
{
    const struct affine affine = affine_of(1, job->magnitude, 0, 0, 1, 0);
    transform(job, &affine);
}

static void shear_y(const struct job *job)
{
    const struct affine affine = affine_of(1, 0, 0, job->magnitude, 1, 0);
    transform(job, &affine);
}

static void translate_x(const struct job *job)
{
    const struct affine affine = affine_of(1, 0, -trunc(job->magnitude), 0, 1, 0);
    transform(job, &affine);
}

static void translate_y(const struct job *job)
{
    const struct affine affine = affine_of(1, 0, 0, 0, 1, -trunc(job->magnitude));
    transform(job, &affine);
}

/* Pillow rounds sines and cosines to 15 decimal places. */
static double round_decimals(double value)
{
    return nearbyint(value * 1e15) / 1e15;
}

static void rotate(const struct job *job)
{
    const double angle = -job->magnitude * (M_PI / 180);
    const double cosine = round_decimals(cos(angle)), sine = round_decimals(sin(angle));
    const double x = job->shape->width / 2.0, y = job->shape->height / 2.0;
    const struct affine affine = affine_of(cosine, sine, cosine * -x + sine * -y + x, -sine, cosine,
                                           -sine * -x + cosine * -y + y);
    transform(job, &affine);
}

static void flip_rows(const struct job *job)
{
    const size_t height = job->shape->height, row_bytes = job->count / height;
    for (size_t y = 0; y < height; y++)
        memcpy(job->pixels + y * row_bytes, job->copy + (height - 1 - y) * row_bytes, row_bytes);
}

/* ---- tables: a new value for each value of a channel ---- */

struct tables { uint8_t value[PLANES_MAX][VALUES]; };

static void tables_apply(const struct tables *tables, const struct job *job)
{
    const uint32_t channels = job->shape->channels;
    const size_t count = job->count;
    uint8_t *const pixels = job->pixels;
    for (uint32_t c = 0; c < channels; c++)
        for (size_t i = c; i < count; i += channels)
            pixels[i] = tables->value[c][pixels[i]];
}

static void apply_to_all(const struct job *job, const uint8_t table[VALUES])
{
    const size_t count = job->count;
    uint8_t *const pixels = job->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] = table[pixels[i]];
}

static uint8_t clip(float value)
{
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
}

/* Interpolate, or extrapolate, between `from` (share 0) and `to` (share 1), and clip the result to 0 ... 255. */
static inline uint8_t blend(uint8_t from, uint8_t to, float share)
{
    return clip((float)from + share * (float)(to - from));
}

static void blend_with_constant(const struct job *job, uint8_t constant)
{
    uint8_t table[VALUES];
    const float share = (float)(1 + job->magnitude);
    for (uint32_t i = 0; i < VALUES; i++)
        table[i] = blend(constant, (uint8_t)i, share);
    apply_to_all(job, table);
}

static void change_brightness(const struct job *job)
{
    blend_with_constant(job, 0);
}

/* The luma of all pixels. That of three channels is written to job->copy. */
static const uint8_t *find_luma(const struct job *job, size_t count)
{
    if (job->shape->channels != 3)
        return job->pixels;
    channels_convert(job->pixels, 3, count, job->copy);
    return job->copy;
}

static void change_contrast(const struct job *job)
{
    const size_t count = (size_t)job->shape->height * job->shape->width;
    const uint8_t *const luma = find_luma(job, count);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += luma[i];
    blend_with_constant(job, (uint8_t)((double)sum / (double)count + 0.5));
}

static void posterize(const struct job *job)
{
    const int bits = (int)job->magnitude;
    const uint8_t mask = (uint8_t)(0xFF << (8 - bits));
    const size_t count = job->count;
    uint8_t *const pixels = job->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] &= mask;
}

static void solarize(const struct job *job)
{
    uint8_t table[VALUES];
    for (uint32_t i = 0; i < VALUES; i++)
        table[i] = (uint8_t)(i < job->magnitude ? i : VALUES - 1 - i);
    apply_to_all(job, table);
}

static void invert(const struct job *job)
{
    const size_t count = job->count;
    uint8_t *const pixels = job->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(VALUES - 1 - pixels[i]);
}

struct histogram { uint32_t counts[PLANES_MAX][VALUES]; };

static void histogram_fill(struct histogram *histogram, const struct job *job)
{
    const uint32_t channels = job->shape->channels;
    const size_t count = job->count;
    const uint8_t *const pixels = job->pixels;
    memset(histogram, 0, sizeof(*histogram));
    for (uint32_t c = 0; c < channels; c++)
        for (size_t i = c; i < count; i += channels)
            histogram->counts[c][pixels[i]]++;
}

/* The first and the last value that a channel has. */
struct value_range { uint32_t first, last; };

static struct value_range find_range(const uint32_t counts[VALUES])
{
    struct value_range range = { 0, VALUES - 1 };
    while (range.first < VALUES - 1 && counts[range.first] == 0)
        range.first++;
    while (range.last > 0 && counts[range.last] == 0)
        range.last--;
    return range;
}

static void fill_identity(uint8_t table[VALUES])
{
    for (uint32_t i = 0; i < VALUES; i++)
        table[i] = (uint8_t)i;
}

/* Stretch the channel's values to 0 ... 255. */
static void fill_stretched(const uint32_t counts[VALUES], uint8_t table[VALUES])
{
    const struct value_range range = find_range(counts);
    if (range.last <= range.first) {
        fill_identity(table);
        return;
    }
    const double scale = 255.0 / (range.last - range.first), offset = -(double)range.first * scale;
    for (uint32_t i = 0; i < VALUES; i++) {
        const double value = i * scale + offset;
        table[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

/* Spread the channel's values so that all are about equally frequent. Unchanged if the step would be 0. */
static void fill_equalized(const uint32_t counts[VALUES], uint8_t table[VALUES])
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < VALUES; i++)
        total += counts[i];
    const uint64_t step = (total - counts[find_range(counts).last]) / (VALUES - 1);
    if (step == 0) {
        fill_identity(table);
        return;
    }
    uint64_t sum = step / 2;
    for (uint32_t i = 0; i < VALUES; i++) {
        const uint64_t value = sum / step;
        table[i] = (uint8_t)(value < VALUES ? value : VALUES - 1);
        sum += counts[i];
    }
}

static void apply_by_histogram(const struct job *job,
                               void (*fill)(const uint32_t counts[VALUES], uint8_t table[VALUES]))
{
    struct histogram histogram;
    struct tables tables;
    histogram_fill(&histogram, job);
    for (uint32_t c = 0; c < job->shape->channels; c++)
        fill(histogram.counts[c], tables.value[c]);
    tables_apply(&tables, job);
}

static void stretch_contrast(const struct job *job)
{
    apply_by_histogram(job, fill_stretched);
}

static void equalize(const struct job *job)
{
    apply_by_histogram(job, fill_equalized);
}

/* ---- colour and sharpness ---- */

static void change_saturation(const struct job *job)
{
    const size_t count = (size_t)job->shape->height * job->shape->width;
    const float share = (float)(1 + job->magnitude);
    if (job->shape->channels != 3)
        return;
    const uint8_t *const luma = find_luma(job, count);
    uint8_t *const pixels = job->pixels;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = blend(luma[i], pixels[3 * i + c], share);
}

/* Blend a row with the result of Pillow's SMOOTH filter for it: the rounded mean of 3x3 pixels, in which the middle one
 * counts five times. The sum is never half-way between two multiples of 13, so rounding whole numbers gives what
 * Pillow's floats give. */
static void sharpen_row(const uint8_t *above, size_t row_bytes, size_t channels, float share, uint8_t *to)
{
    const uint8_t *const row = above + row_bytes, *const below = row + row_bytes;
    for (size_t i = channels; i + channels < row_bytes; i++) {
        const uint32_t sides = (uint32_t)row[i - channels] + row[i + channels];
        const uint32_t over = (uint32_t)above[i - channels] + above[i] + above[i + channels];
        const uint32_t under = (uint32_t)below[i - channels] + below[i] + below[i + channels];
        const uint32_t smooth = (2 * (over + sides + under + 5u * row[i]) + 13) / 26;
        to[i] = blend((uint8_t)smooth, row[i], share);
    }
}

/* The outermost pixels do not change. */
static void change_sharpness(const struct job *job)
{
    const size_t channels = job->shape->channels, row_bytes = job->shape->width * channels;
    const float share = (float)(1 + job->magnitude);
    for (uint32_t y = 1; y + 1 < job->shape->height; y++)
        sharpen_row(job->copy + (y - 1) * row_bytes, row_bytes, channels, share, job->pixels + y * row_bytes);
}

static const struct {
    void (*apply)(const struct job *job);       /* NULL: nothing changes */
    bool needs_copy;
} operations[OPERATION_COUNT] = {
    [OPERATION_IDENTITY] = { NULL, false },
    [OPERATION_SHEAR_X] = { shear_x, true },
    [OPERATION_SHEAR_Y] = { shear_y, true },
    [OPERATION_TRANSLATE_X] = { translate_x, true },
    [OPERATION_TRANSLATE_Y] = { translate_y, true },
    [OPERATION_ROTATE] = { rotate, true },
    [OPERATION_BRIGHTNESS] = { change_brightness, false },
    [OPERATION_COLOR] = { change_saturation, false },
    [OPERATION_CONTRAST] = { change_contrast, false },
    [OPERATION_SHARPNESS] = { change_sharpness, true },
    [OPERATION_POSTERIZE] = { posterize, false },
    [OPERATION_SOLARIZE] = { solarize, false },
    [OPERATION_AUTO_CONTRAST] = { stretch_contrast, false },
    [OPERATION_EQUALIZE] = { equalize, false },
    [OPERATION_INVERT] = { invert, false },
    [OPERATION_VERTICAL_FLIP] = { flip_rows, true },
};

void operation_apply(const struct operation *operation, const struct image_shape *shape, uint8_t *room, uint8_t *pixels)
{
    const struct job job = { .shape = shape, .magnitude = operation->magnitude,
                             .count = (size_t)shape->height * shape->width * shape->channels,
                             .copy = room, .pixels = pixels };
    if (operations[operation->kind].needs_copy)
        memcpy(room, pixels, job.count);
    if (operations[operation->kind].apply != NULL)
        operations[operation->kind].apply(&job);
}
