/* The weighted sums of scaling. Called by decoders for every row of a scaled image. */
#include "loader/images/scale_kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- plain loops ---- */

static void add_rows_plain(const struct scale_rows_sum *sum, size_t count, int16_t *line)
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

static void add_pixels_plain(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    const uint32_t channels = pair->channels;
    for (size_t i = 0; i < count; i++) {
        const struct pixel_range *const range = &axis->ranges[i];
        const int16_t *const weights = axis->weights + i * axis->weight_room;
        const size_t first = (size_t)(range->first - pair->left) * channels;
        for (int j = 0; j < 2; j++)
            add_pixel(pair->lines[j] + first, channels, weights, range->count, pair->rows[j] + i * channels);
    }
}

static bool is_always_supported(void)
{
    return true;
}

const struct scale_kernel scale_kernel_plain = { is_always_supported, add_rows_plain, add_pixels_plain };

/* ---- AVX2: one instruction multiplies two values by two weights and adds the products ---- */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline AVX2 __attribute__((always_inline))

enum { BLOCK = 32 };            /* columns per step of the vertical sum */

/* sum[i] has columns 4 i to 4 i + 3 in its low half and columns 16 + 4 i to 16 + 4 i + 3 in its high half. */
struct sums { __m256i sum[4]; };

/* Two weights, repeated over the vector. */
AVX2_INLINE __m256i load_weights(const int16_t *weights)
{
    int32_t two;
    memcpy(&two, weights, sizeof(two));
    return _mm256_set1_epi32(two);
}

AVX2_INLINE void add_two(struct sums *sums, const uint8_t *upper, const uint8_t *lower, __m256i weights)
{
    const __m256i none = _mm256_setzero_si256();
    const __m256i a = _mm256_loadu_si256((const void *)upper), b = _mm256_loadu_si256((const void *)lower);
    const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    const __m256i values[4] = { _mm256_unpacklo_epi8(low, none), _mm256_unpackhi_epi8(low, none),
                                _mm256_unpacklo_epi8(high, none), _mm256_unpackhi_epi8(high, none) };
    for (int i = 0; i < 4; i++)
        sums->sum[i] = _mm256_add_epi32(sums->sum[i], _mm256_madd_epi16(values[i], weights));
}

AVX2_INLINE void put_line(const struct sums *sums, int16_t *line)
{
    __m256i value[4];
    for (int i = 0; i < 4; i++)
        value[i] = _mm256_srai_epi32(sums->sum[i], SCALE_ROWS_SHIFT);
    const __m256i even = _mm256_packs_epi32(value[0], value[1]), odd = _mm256_packs_epi32(value[2], value[3]);
    _mm256_storeu_si256((void *)line, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((void *)(line + BLOCK / 2), _mm256_permute2x128_si256(even, odd, 0x31));
}

AVX2_INLINE void add_block(const struct scale_rows_sum *sum, size_t column, int16_t *line)
{
    const __m256i half = _mm256_set1_epi32(1 << (SCALE_ROWS_SHIFT - 1));
    const uint8_t *row = sum->rows + column;
    struct sums sums = { { half, half, half, half } };
    uint32_t k = 0;
    for (; k + 1 < sum->row_count; k += 2, row += 2 * sum->row_bytes)
        add_two(&sums, row, row + sum->row_bytes, load_weights(sum->weights + k));
    if (k < sum->row_count)
        add_two(&sums, row, row, _mm256_set1_epi32((uint16_t)sum->weights[k]));
    put_line(&sums, line);
}

/* The last block ends at the last column and may overlap the previous block. */
AVX2 static void add_rows_avx2(const struct scale_rows_sum *sum, size_t count, int16_t *line)
{
    if (count < BLOCK) {
        add_rows_plain(sum, count, line);
        return;
    }
    for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
        add_block(sum, i, line + i);
    add_block(sum, count - BLOCK, line + count - BLOCK);
}

/* The sums of one pixel of three channels: of line 0 in the low half, of line 1 in the high half. */
AVX2_INLINE __m256i add_colours(const struct scale_pair *pair, size_t first, const int16_t *weights, uint32_t room)
{
    const __m256i by_channel = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1,
                                                0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
    const int16_t *const upper = pair->lines[0] + first, *const lower = pair->lines[1] + first;
    __m256i sums = _mm256_set1_epi32(1 << (SCALE_PIXELS_SHIFT - 1));
    for (size_t k = 0; k < room; k += 2) {
        const __m256i pixels = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const void *)(upper + 3 * k))),
            _mm_loadu_si128((const void *)(lower + 3 * k)), 1);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, by_channel),
                                                        load_weights(weights + k)));
    }
    return _mm256_srai_epi32(sums, SCALE_PIXELS_SHIFT);
}

/* Write the first `bytes` bytes of each half of the register to its row: two pixels of three bytes, and two bytes of
 * the next pixel, which the next call overwrites. */
AVX2_INLINE void put_pixels(__m256i sums, __m256i next_sums, const struct scale_pair *pair, size_t at, size_t bytes)
{
    const __m256i close = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 3, 7, -1, -1, -1, -1, -1, -1, -1, -1,
                                           0, 1, 2, 4, 5, 6, 3, 7, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i words = _mm256_packs_epi32(sums, next_sums);
    const __m256i pixels = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), close);
    const int64_t upper = _mm256_extract_epi64(pixels, 0), lower = _mm256_extract_epi64(pixels, 2);
    memcpy(pair->rows[0] + at, &upper, bytes);
    memcpy(pair->rows[1] + at, &lower, bytes);
}

AVX2_INLINE __m256i add_pair(const struct scale_axis *axis, const struct scale_pair *pair, size_t i, uint32_t room)
{
    return add_colours(pair, (size_t)(axis->ranges[i].first - pair->left) * 3, axis->weights + i * room, room);
}

/* The structs are copied to local variables, because the compiler must assume that the bytes written overlap them. */
AVX2_INLINE void add_all(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count, uint32_t room)
{
    const struct scale_axis x = *axis;
    const struct scale_pair two = *pair;
    size_t i = 0;
    for (; i + 3 <= count; i += 2)
        put_pixels(add_pair(&x, &two, i, room), add_pair(&x, &two, i + 1, room), &two, 3 * i, 8);
    for (; i < count; i++)
        put_pixels(add_pair(&x, &two, i, room), _mm256_setzero_si256(), &two, 3 * i, 3);
}

/* Constant arguments for the usual numbers of weights let the compiler unroll the loops. */
AVX2 static void add_colour_pixels(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    if (axis->weight_room == 2)
        add_all(axis, pair, count, 2);
    else if (axis->weight_room == 4)
        add_all(axis, pair, count, 4);
    else
        add_all(axis, pair, count, axis->weight_room);
}

static void add_pixels_avx2(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    (pair->channels == 3 ? add_colour_pixels : add_pixels_plain)(axis, pair, count);
}

static bool is_avx2_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

static const struct scale_kernel scale_kernel_avx2 = { is_avx2_supported, add_rows_avx2, add_pixels_avx2 };
#endif

const struct scale_kernel *const scale_kernels[] = {
#if defined(__x86_64__)
    &scale_kernel_avx2,
#endif
    &scale_kernel_plain,
};
const size_t scale_kernel_count = sizeof(scale_kernels) / sizeof(*scale_kernels);

/* A vector load may extend this far beyond the last value. */
size_t scale_line_padding(const struct scale_axis *axis, uint32_t channels)
{
    return (size_t)axis->weight_room * channels + 8;
}

const struct scale_kernel *scale_kernel_find(void)
{
    size_t i = 0;
    while (!scale_kernels[i]->is_supported())
        i++;
    return scale_kernels[i];
}
