/* Sums of rows and of pixels. Called by decoders for every row of a scaled image. */
#include "loader/images/scale_rows.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* A line's values are in 64ths, so that two roundings are as good as one. */
#define LINE_BITS 6
#define ROWS_SHIFT (SCALE_WEIGHT_BITS - LINE_BITS)
#define PIXELS_SHIFT (SCALE_WEIGHT_BITS + LINE_BITS)

/* Sums of so many columns stay in registers. */
enum { LANES = 8, BLOCK = 4 * LANES };
typedef int32_t sums __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef int16_t values __attribute__((vector_size(LANES * sizeof(int16_t))));
typedef uint8_t bytes __attribute__((vector_size(LANES)));

/* A pixel of three channels and the first value of the next. */
typedef int32_t pixel_sum __attribute__((vector_size(4 * sizeof(int32_t))));
typedef int16_t pixel_values __attribute__((vector_size(4 * sizeof(int16_t))));

INLINE void add_row(sums *sum, const uint8_t *row, int32_t weight)
{
    bytes pixels;
    memcpy(&pixels, row, sizeof(pixels));
    *sum += __builtin_convertvector(pixels, sums) * weight;
}

INLINE void put_values(const sums *sum, int16_t *line)
{
    const values rounded = __builtin_convertvector(*sum >> ROWS_SHIFT, values);
    memcpy(line, &rounded, sizeof(rounded));
}

INLINE void add_block(const struct scale_rows_sum *sum, size_t column, int16_t *line)
{
    const sums half = { 0 };
    sums a = half + (1 << (ROWS_SHIFT - 1)), b = a, c = a, d = a;
    for (uint32_t k = 0; k < sum->row_count; k++) {
        const uint8_t *const row = sum->rows + k * sum->row_bytes + column;
        add_row(&a, row, sum->weights[k]);
        add_row(&b, row + LANES, sum->weights[k]);
        add_row(&c, row + 2 * (size_t)LANES, sum->weights[k]);
        add_row(&d, row + 3 * (size_t)LANES, sum->weights[k]);
    }
    put_values(&a, line);
    put_values(&b, line + LANES);
    put_values(&c, line + 2 * (size_t)LANES);
    put_values(&d, line + 3 * (size_t)LANES);
}

INLINE void add_column(const struct scale_rows_sum *sum, size_t column, int16_t *line)
{
    int32_t total = 1 << (ROWS_SHIFT - 1);
    for (uint32_t k = 0; k < sum->row_count; k++)
        total += sum->rows[k * sum->row_bytes + column] * sum->weights[k];
    *line = (int16_t)(total >> ROWS_SHIFT);
}

INLINE void add_rows(const struct scale_rows_sum *sum, size_t count, int16_t *line)
{
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        add_block(sum, i, line + i);
    for (; i < count; i++)
        add_column(sum, i, line + i);
    memset(line + count, 0, SCALE_LINE_BEYOND * sizeof(*line));
}

INLINE uint8_t to_byte(int32_t total)
{
    const int32_t value = total >> PIXELS_SHIFT;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

INLINE void add_colour(const int16_t *line, const int16_t *weights, uint32_t count, uint8_t *out)
{
    const pixel_sum none = { 0 };
    pixel_sum sum = none + (1 << (PIXELS_SHIFT - 1));
    for (uint32_t k = 0; k < count; k++) {
        pixel_values pixel;
        memcpy(&pixel, line + 3 * (size_t)k, sizeof(pixel));
        sum += __builtin_convertvector(pixel, pixel_sum) * weights[k];
    }
    for (size_t c = 0; c < 3; c++)
        out[c] = to_byte(sum[c]);
}

INLINE void add_channel(const int16_t *line, uint32_t channels, const int16_t *weights, uint32_t count, uint8_t *out)
{
    int32_t sum = 1 << (PIXELS_SHIFT - 1);
    for (uint32_t k = 0; k < count; k++)
        sum += line[(size_t)k * channels] * weights[k];
    *out = to_byte(sum);
}

INLINE void add_pixels(const struct scale_axis *axis, uint32_t left, uint32_t channels, const int16_t *line,
                       uint32_t count, uint8_t *row)
{
    for (size_t i = 0; i < count; i++) {
        const struct scale_span *const span = &axis->spans[i];
        const int16_t *const weights = axis->weights + i * axis->weight_room;
        const int16_t *const pixels = line + (size_t)(span->first - left) * channels;
        if (channels == 3)
            add_colour(pixels, weights, span->count, row + 3 * i);
        else
            for (uint32_t c = 0; c < channels; c++)
                add_channel(pixels + c, channels, weights, span->count, row + i * channels + c);
    }
}

/* The same code for one kind of processor. */
#define WAY(name, target)                                                                                             \
    target static void add_rows_##name(const struct scale_rows_sum *sum, size_t count, int16_t *line)                 \
    {                                                                                                                 \
        add_rows(sum, count, line);                                                                                   \
    }                                                                                                                 \
    target static void add_pixels_##name(const struct scale_axis *axis, uint32_t left, uint32_t channels,             \
                                         const int16_t *line, uint32_t count, uint8_t *row)                           \
    {                                                                                                                 \
        add_pixels(axis, left, channels, line, count, row);                                                           \
    }

WAY(portable, )
#if defined(__x86_64__)
WAY(avx2, __attribute__((target("avx2"))))
#endif

struct scale_rows scale_rows_find(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return (struct scale_rows){ add_rows_avx2, add_pixels_avx2 };
#endif
    return (struct scale_rows){ add_rows_portable, add_pixels_portable };
}
