/* Sums of rows and of pixels with AVX-512. Four pixels of the result are made at once: what they are sums of lies
 * within one vector of a line, out of which it is picked. Called by decoders for every row of a scaled image. */
#include "loader/images/scale_rows.h"

#if defined(__x86_64__)
#include <errno.h>
#include <immintrin.h>
#include <stdalign.h>
#include <string.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define AVX512_INLINE static inline AVX512 __attribute__((always_inline))

/* Columns whose sums are made together, bytes of a vector, pixels made at once, and pairs of weights a pixel has. */
enum { BLOCK = 64, VECTOR_BYTES = 64, FOUR = 4, PAIRS_MAX = 2 };
/* Bytes of a pixel in a line, and pixels in a vector. */
enum { PIXEL_BYTES = 3 * sizeof(int16_t), REACH = VECTOR_BYTES / PIXEL_BYTES };

/* Four pixels of the result. Lane i of 16 bytes is for pixel i: where in the vector the two values of a channel are
 * that pair k of its weights belongs to, channel by channel, and these weights. */
struct scale_four {
    alignas(VECTOR_BYTES) uint8_t places[PAIRS_MAX][VECTOR_BYTES];
    int16_t weights[PAIRS_MAX][VECTOR_BYTES / 2];
    uint32_t first;             /* the line's pixel where the vector begins */
};

/* 16 sums each; those of a block follow each other once packed. */
struct sums { __m512i sum[4]; };

/* Every fourth of a block's columns, each with that of the row below: words with a byte of the first row and one of the
 * second. Part q of a half has the columns 4 q to 4 q + 3 of every 8. */
AVX512_INLINE __m512i take_columns(__m512i upper, __m512i lower, int half, int q)
{
    alignas(VECTOR_BYTES) static const uint8_t columns[VECTOR_BYTES] = {
        0,  0, 64, 0, 1,  0, 65, 0, 2,  0, 66, 0, 3,  0, 67, 0, 8,  0, 72, 0, 9,  0, 73, 0, 10, 0, 74, 0, 11, 0, 75, 0,
        16, 0, 80, 0, 17, 0, 81, 0, 18, 0, 82, 0, 19, 0, 83, 0, 24, 0, 88, 0, 25, 0, 89, 0, 26, 0, 90, 0, 27, 0, 91, 0,
    };
    const __m512i places = _mm512_add_epi8(_mm512_load_si512(columns), _mm512_set1_epi8((char)(32 * half + 4 * q)));
    return _mm512_maskz_permutex2var_epi8(0x5555555555555555, upper, places, lower);
}

AVX512_INLINE void add_two(struct sums *sums, const uint8_t *upper, const uint8_t *lower, __m512i weights)
{
    const __m512i a = _mm512_loadu_si512(upper), b = _mm512_loadu_si512(lower);
    for (int i = 0; i < 4; i++)
        sums->sum[i] = _mm512_dpwssd_epi32(sums->sum[i], take_columns(a, b, i / 2, i % 2), weights);
}

AVX512_INLINE void put_line(const struct sums *sums, int16_t *line)
{
    for (int i = 0; i < 4; i += 2)
        _mm512_storeu_si512(line + i / 2 * (BLOCK / 2),
                            _mm512_packs_epi32(_mm512_srai_epi32(sums->sum[i], SCALE_ROWS_SHIFT),
                                               _mm512_srai_epi32(sums->sum[i + 1], SCALE_ROWS_SHIFT)));
}

/* Two weights, as often as there is room. */
AVX512_INLINE __m512i load_weights(const int16_t *weights)
{
    int32_t two;
    memcpy(&two, weights, sizeof(two));
    return _mm512_set1_epi32(two);
}

AVX512_INLINE void add_block(const struct scale_rows_sum *sum, size_t column, int16_t *line)
{
    const __m512i half = _mm512_set1_epi32(1 << (SCALE_ROWS_SHIFT - 1));
    const uint8_t *row = sum->rows + column;
    struct sums sums = { { half, half, half, half } };
    uint32_t k = 0;
    for (; k + 1 < sum->row_count; k += 2, row += 2 * sum->row_bytes)
        add_two(&sums, row, row + sum->row_bytes, load_weights(sum->weights + k));
    if (k < sum->row_count)
        add_two(&sums, row, row, _mm512_set1_epi32((uint16_t)sum->weights[k]));
    put_line(&sums, line);
}

/* What is left behind the last block is in a block that ends with it. */
AVX512 static void add_rows(const struct scale_rows_sum *sum, size_t count, int16_t *line)
{
    if (count < BLOCK) {
        scale_rows_avx2.add_rows(sum, count, line);
        return;
    }
    for (size_t i = 0; i + BLOCK <= count; i += BLOCK)
        add_block(sum, i, line + i);
    add_block(sum, count - BLOCK, line + count - BLOCK);
}

/* The pixels of a four; the last is there again where there are fewer. */
struct four_spans { size_t pixels[FOUR]; uint32_t first, end; };

static struct four_spans find_four(const struct scale_axis *axis, size_t begin, size_t count)
{
    struct four_spans four = { .first = UINT32_MAX };
    for (size_t i = 0; i < FOUR; i++) {
        const size_t pixel = begin + i < count ? begin + i : count - 1;
        const uint32_t first = axis->spans[pixel].first;
        four.pixels[i] = pixel;
        four.first = first < four.first ? first : four.first;
        four.end = first + axis->weight_room > four.end ? first + axis->weight_room : four.end;
    }
    return four;
}

AVX512 static void set_four(const struct scale_axis *axis, const struct four_spans *spans, struct scale_four *four)
{
    const __m128i by_channel = _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 0, 0, 0, 0);
    four->first = spans->first;
    for (uint32_t k = 0; k < axis->weight_room / 2; k++) {
        for (size_t i = 0; i < FOUR; i++) {
            const size_t pixel = spans->pixels[i];
            const uint32_t at = (axis->spans[pixel].first - spans->first + 2 * k) * PIXEL_BYTES;
            const __m512i weights = load_weights(axis->weights + pixel * axis->weight_room + 2 * (size_t)k);
            _mm_store_si128((void *)(four->places[k] + 16 * i), _mm_add_epi8(by_channel, _mm_set1_epi8((char)at)));
            _mm_store_si128((void *)(four->weights[k] + 8 * i), _mm512_castsi512_si128(weights));
        }
    }
}

/* Only where what four pixels are sums of lies in one vector. */
static int plan_pixels(struct scale_axis *axis, uint32_t channels, uint32_t count)
{
    const size_t fours = (count + FOUR - 1) / FOUR;
    axis->fours = NULL;
    if (channels != 3 || axis->weight_room > 2 * PAIRS_MAX)
        return 0;
    uint8_t *const memory = scratch_need(&axis->fours_memory, (fours + 1) * sizeof(struct scale_four));
    if (memory == NULL)
        return -ENOMEM;
    struct scale_four *const all = (void *)(memory + (VECTOR_BYTES - (uintptr_t)memory % VECTOR_BYTES));
    for (size_t i = 0; i < fours; i++) {
        const struct four_spans spans = find_four(axis, FOUR * i, count);
        if (spans.end - spans.first > REACH)
            return 0;
        set_four(axis, &spans, &all[i]);
    }
    axis->fours = all;
    return 0;
}

AVX512_INLINE __m512i add_four(const struct scale_four *four, const int16_t *line, uint32_t pairs)
{
    const __m512i values = _mm512_loadu_si512(line);
    __m512i sums = _mm512_set1_epi32(1 << (SCALE_PIXELS_SHIFT - 1));
    for (uint32_t k = 0; k < pairs; k++)
        sums = _mm512_dpwssd_epi32(sums, _mm512_permutexvar_epi8(_mm512_load_si512(four->places[k]), values),
                                   _mm512_load_si512(four->weights[k]));
    return _mm512_srai_epi32(sums, SCALE_PIXELS_SHIFT);
}

/* The twelve bytes of four pixels of both rows, each at the beginning of 16. */
AVX512_INLINE __m256i pack_fours(__m512i upper, __m512i lower)
{
    const __m512i close = _mm512_castsi256_si512(_mm256_setr_epi8(
        0, 1, 2, 16, 17, 18, 32, 33, 34, 48, 49, 50, 0, 0, 0, 0,
        4, 5, 6, 20, 21, 22, 36, 37, 38, 52, 53, 54, 0, 0, 0, 0));
    const __m512i words = _mm512_packs_epi32(upper, lower);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi8(close, _mm512_packus_epi16(words, words)));
}

AVX512_INLINE __m256i make_four(const struct scale_four *four, const struct scale_pair *pair, uint32_t pairs)
{
    const size_t first = (size_t)(four->first - pair->left) * 3;
    return pack_fours(add_four(four, pair->lines[0] + first, pairs), add_four(four, pair->lines[1] + first, pairs));
}

AVX512_INLINE void put_last(const struct scale_pair *pair, size_t at, size_t bytes, __m256i pixels)
{
    uint8_t both[32];
    _mm256_storeu_si256((void *)both, pixels);
    memcpy(pair->rows[0] + at, both, bytes);
    memcpy(pair->rows[1] + at, both + 16, bytes);
}

/* Four bytes more than four pixels have are put where the row goes on, which are those of the next four. */
AVX512_INLINE void add_all(const struct scale_four *fours, const struct scale_pair *pair, uint32_t count,
                           uint32_t pairs)
{
    const struct scale_pair two = *pair;
    const size_t row_bytes = (size_t)count * 3;
    size_t at = 0;
    for (; at + 16 <= row_bytes; at += 3 * FOUR, fours++) {
        const __m256i pixels = make_four(fours, &two, pairs);
        _mm_storeu_si128((void *)(two.rows[0] + at), _mm256_castsi256_si128(pixels));
        _mm_storeu_si128((void *)(two.rows[1] + at), _mm256_extracti128_si256(pixels, 1));
    }
    for (; at < row_bytes; at += 3 * FOUR, fours++)
        put_last(&two, at, row_bytes - at < 3 * FOUR ? row_bytes - at : 3 * FOUR, make_four(fours, &two, pairs));
}

AVX512 static void add_pixels(const struct scale_axis *axis, const struct scale_pair *pair, uint32_t count)
{
    if (axis->fours == NULL)
        scale_rows_avx2.add_pixels(axis, pair, count);
    else if (axis->weight_room == 2)
        add_all(axis->fours, pair, count, 1);
    else
        add_all(axis->fours, pair, count, 2);
}

static bool is_possible(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

const struct scale_rows scale_rows_avx512 = { is_possible, plan_pixels, add_rows, add_pixels };
#endif
