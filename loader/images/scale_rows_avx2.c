/* Sums of rows and of pixels with AVX2. Two values and their weights are multiplied and added at once, so rows and
 * pixels are taken by twos. Called by decoders for every row of a scaled image. */
#include "loader/images/scale_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline AVX2 __attribute__((always_inline))

/* Columns whose sums are made together. */
enum { BLOCK = 32 };

/* Sums of columns: sum[i] has columns 4 i to 4 i + 3 in its low half, and those 16 further in its high half. */
struct sums { __m256i sum[4]; };

/* Two weights, as often as there is room. */
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

/* What is left behind the last block is in a block that ends with it. */
AVX2 static void add_rows(const struct scale_rows_sum *sum, size_t count, int16_t *line)
{
    if (count < BLOCK) {
        scale_rows_plain.add_rows(sum, count, line);
        return;
    }
    for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
        add_block(sum, i, line + i);
    add_block(sum, count - BLOCK, line + count - BLOCK);
}

/* The sums of a pixel of three channels: of one line in the low half, of the other in the high one. */
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

/* Put `bytes` of each half: two pixels of a row, and two bytes of the next pixel, which is put later. */
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
    return add_colours(pair, (size_t)(axis->spans[i].first - pair->left) * 3, axis->weights + i * room, room);
}

/* The copies are in registers: nothing that is put can change them. */
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

/* The usual numbers of weights are constants, for which loops are unrolled. */
AVX2 static void add_colour_pixels(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    if (axis->weight_room == 2)
        add_all(axis, pair, count, 2);
    else if (axis->weight_room == 4)
        add_all(axis, pair, count, 4);
    else
        add_all(axis, pair, count, axis->weight_room);
}

static void add_pixels(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    (pair->channels == 3 ? add_colour_pixels : scale_rows_plain.add_pixels)(axis, pair, count);
}

static bool is_possible(void)
{
    return __builtin_cpu_supports("avx2");
}

const struct scale_rows scale_rows_avx2 = { is_possible, add_rows, add_pixels };
#endif
