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

/* The first four bytes of both halves are the pixels, and a byte that does not count. */
AVX2_INLINE __m256i to_bytes(__m256i sums)
{
    const __m256i words = _mm256_packs_epi32(sums, sums);
    return _mm256_packus_epi16(words, words);
}

AVX2_INLINE void put_pixels(__m256i pixels, uint8_t *upper, uint8_t *lower, size_t bytes)
{
    const int32_t first = _mm256_cvtsi256_si32(pixels), second = _mm256_extract_epi32(pixels, 4);
    memcpy(upper, &first, bytes);
    memcpy(lower, &second, bytes);
}

AVX2_INLINE void add_pair(const struct scale_axis *axis, const struct scale_pair *pair, size_t i, uint32_t room,
                          size_t bytes)
{
    const size_t first = (size_t)(axis->spans[i].first - pair->left) * 3;
    const __m256i sums = add_colours(pair, first, axis->weights + i * room, room);
    put_pixels(to_bytes(sums), pair->rows[0] + 3 * i, pair->rows[1] + 3 * i, bytes);
}

/* All pixels but the last are put with a byte of the next, which is put later. */
AVX2_INLINE void add_all(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count, uint32_t room)
{
    for (size_t i = 0; i + 1 < count; i++)
        add_pair(axis, pair, i, room, 4);
    add_pair(axis, pair, count - 1, room, 3);
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

const struct scale_rows scale_rows_avx2 = { add_rows, add_pixels };
#endif
