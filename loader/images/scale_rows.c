/* Sums of rows and of pixels in plain loops. Called by decoders for every row of a scaled image. */
#include "loader/images/scale_rows.h"

static void add_rows(const struct scale_rows_sum *sum, size_t count, int16_t *line)
{
    for (size_t i = 0; i < count; i++) {
        int32_t total = 1 << (SCALE_ROWS_SHIFT - 1);
        for (uint32_t k = 0; k < sum->row_count; k++)
            total += sum->rows[k * sum->row_bytes + i] * sum->weights[k];
        line[i] = (int16_t)(total >> SCALE_ROWS_SHIFT);
    }
}

static uint8_t to_byte(int32_t total)
{
    const int32_t value = total >> SCALE_PIXELS_SHIFT;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void add_pixel(const int16_t *values, uint32_t channels, const int16_t *weights, uint32_t count, uint8_t *pixel)
{
    for (uint32_t c = 0; c < channels; c++) {
        int32_t total = 1 << (SCALE_PIXELS_SHIFT - 1);
        for (uint32_t k = 0; k < count; k++)
            total += values[(size_t)k * channels + c] * weights[k];
        pixel[c] = to_byte(total);
    }
}

static void add_pixels(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    const uint32_t channels = pair->channels;
    for (size_t i = 0; i < count; i++) {
        const struct scale_span *const span = &axis->spans[i];
        const int16_t *const weights = axis->weights + i * axis->weight_room;
        const size_t first = (size_t)(span->first - pair->left) * channels;
        for (int j = 0; j < 2; j++)
            add_pixel(pair->lines[j] + first, channels, weights, span->count, pair->rows[j] + i * channels);
    }
}

static bool is_always_possible(void)
{
    return true;
}

const struct scale_rows scale_rows_plain = { is_always_possible, add_rows, add_pixels };

const struct scale_rows *const scale_rows_ways[] = {
#if defined(__x86_64__)
    &scale_rows_avx2,
#endif
    &scale_rows_plain,
};
const size_t scale_rows_way_count = sizeof(scale_rows_ways) / sizeof(*scale_rows_ways);

/* A vector may reach so far past the last value. */
size_t scale_line_beyond(const struct scale_axis *axis, uint32_t channels)
{
    return (size_t)axis->weight_room * channels + 8;
}

const struct scale_rows *scale_rows_find(void)
{
    size_t i = 0;
    while (!scale_rows_ways[i]->is_possible())
        i++;
    return scale_rows_ways[i];
}
