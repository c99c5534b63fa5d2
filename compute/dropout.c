/* Dropout masks. Called by the backends from the tower's threads. With AVX2, eight Philox blocks are computed at a
 * time; the mask is the same. */
#include "compute/dropout.h"

#include <math.h>
#include <string.h>

#include "compute/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

void dropout_init(struct dropout *dropout, uint64_t seed, uint32_t layer, float rate)
{
    const float threshold = fminf(rintf(rate * 0x1p16f), 0x1p16f - 1.0f);
    *dropout = (struct dropout){
        .key = random_key(seed, RANDOM_DROPOUT, layer),
        .threshold = (uint16_t)threshold,
        .scale = 0x1p16f / (0x1p16f - threshold),
    };
}

void dropout_mask_plain(const struct dropout *dropout, uint32_t epoch, uint64_t position, size_t count,
                        uint8_t *mask_out)
{
    uint32_t word[4];
    for (size_t i = 0; i < count; i++) {
        if (i % 8 == 0) {
            const uint32_t counter[4] = { (uint32_t)(i / 8), (uint32_t)position, (uint32_t)(position >> 32), epoch };
            random_block(dropout->key, counter, word);
        }
        mask_out[i] = (uint16_t)(word[i / 2 % 4] >> i % 2 * 16) >= dropout->threshold;
    }
}

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline AVX2 __attribute__((always_inline))

enum { ROUNDS = 10, GROUPS = 2, STRIDE = GROUPS * 32 };

/* Four blocks: word w of block j is the low half of 64-bit lane j of word[w]. The high halves are undefined; the
 * 32 x 32 -> 64 bit multiplication does not read them. */
struct four_blocks { __m256i word[4]; };

/* The constants of all blocks of a sample. */
struct sample {
    __m256i key[ROUNDS][2];
    __m256i counter[4];         /* all but word 0 */
    __m256i threshold;
};

AVX2 static void sample_init(struct sample *sample, const struct dropout *dropout, uint32_t epoch, uint64_t position)
{
    uint32_t key[2] = { dropout->key.word[0], dropout->key.word[1] };
    for (int round = 0; round < ROUNDS; round++) {
        sample->key[round][0] = _mm256_set1_epi64x(key[0]);
        sample->key[round][1] = _mm256_set1_epi64x(key[1]);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    sample->counter[1] = _mm256_set1_epi64x((uint32_t)position);
    sample->counter[2] = _mm256_set1_epi64x((uint32_t)(position >> 32));
    sample->counter[3] = _mm256_set1_epi64x(epoch);
    sample->threshold = _mm256_set1_epi16((short)dropout->threshold);
}

/* Ten rounds over two groups of four blocks, interleaved to keep the multipliers busy. */
AVX2_INLINE void blocks_compute(const struct sample *sample, struct four_blocks group[GROUPS])
{
    const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53u);
    const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57u);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < GROUPS; i++) {
            __m256i *word = group[i].word;
            const __m256i product0 = _mm256_mul_epu32(word[0], multiplier0);
            const __m256i product1 = _mm256_mul_epu32(word[2], multiplier1);
            word[0] = _mm256_xor_si256(_mm256_srli_epi64(product1, 32),
                                       _mm256_xor_si256(word[1], sample->key[round][0]));
            word[2] = _mm256_xor_si256(_mm256_srli_epi64(product0, 32),
                                       _mm256_xor_si256(word[3], sample->key[round][1]));
            word[1] = product1;
            word[3] = product0;
        }
}

AVX2_INLINE struct four_blocks blocks_begin(const struct sample *sample, uint32_t block)
{
    return (struct four_blocks){ { _mm256_set_epi64x(block + 3, block + 2, block + 1, block), sample->counter[1],
                                   sample->counter[2], sample->counter[3] } };
}

/* The mask of the 32 elements of four blocks. Unpacking puts blocks 0 and 2 into one
 * vector, 1 and 3 into the other; packing puts them back in order. */
AVX2_INLINE __m256i blocks_mask(const struct sample *sample, const struct four_blocks *blocks)
{
    const __m256i *word = blocks->word;
    const __m256i low = _mm256_blend_epi32(word[0], _mm256_slli_epi64(word[1], 32), 0xAA);
    const __m256i high = _mm256_blend_epi32(word[2], _mm256_slli_epi64(word[3], 32), 0xAA);
    const __m256i even = _mm256_unpacklo_epi64(low, high);
    const __m256i odd = _mm256_unpackhi_epi64(low, high);
    const __m256i kept = _mm256_packs_epi16(_mm256_cmpeq_epi16(_mm256_max_epu16(even, sample->threshold), even),
                                            _mm256_cmpeq_epi16(_mm256_max_epu16(odd, sample->threshold), odd));
    return _mm256_and_si256(kept, _mm256_set1_epi8(1));
}

/* STRIDE elements, beginning at element `first`. */
AVX2_INLINE void mask_stride(const struct sample *sample, size_t first, uint8_t *mask_out)
{
    struct four_blocks group[GROUPS];
    for (uint32_t i = 0; i < GROUPS; i++)
        group[i] = blocks_begin(sample, (uint32_t)(first / 8) + 4 * i);
    blocks_compute(sample, group);
    for (size_t i = 0; i < GROUPS; i++)
        _mm256_storeu_si256((__m256i *)(void *)(mask_out + 32 * i), blocks_mask(sample, &group[i]));
}

AVX2 static void mask_avx2(const struct dropout *dropout, uint32_t epoch, uint64_t position, size_t count,
                           uint8_t *mask_out)
{
    struct sample sample;
    sample_init(&sample, dropout, epoch, position);
    size_t i = 0;
    for (; i + STRIDE <= count; i += STRIDE)
        mask_stride(&sample, i, mask_out + i);
    if (i < count) {
        uint8_t rest[STRIDE];
        mask_stride(&sample, i, rest);
        memcpy(mask_out + i, rest, count - i);
    }
}

#endif

void dropout_mask(const struct dropout *dropout, uint32_t epoch, uint64_t position, size_t count,
                  uint8_t *mask_out)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        mask_avx2(dropout, epoch, position, count, mask_out);
        return;
    }
#endif
    dropout_mask_plain(dropout, epoch, position, count, mask_out);
}

float dropout_sample_factor(const struct dropout *dropout, uint32_t epoch, uint64_t position)
{
    uint8_t is_kept;
    dropout_mask_plain(dropout, epoch, position, 1, &is_kept);
    return is_kept ? dropout->scale : 0.0f;
}

VECTOR_LOOPS
static void apply(float scale, const uint8_t *restrict mask, const float *restrict from, float *restrict to,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float scaled = from[i] * scale;
        to[i] = mask[i] ? scaled : 0.0f;
    }
}

VECTOR_LOOPS
static void apply_in_place(float scale, const uint8_t *restrict mask, float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float scaled = values[i] * scale;
        values[i] = mask[i] ? scaled : 0.0f;
    }
}

void dropout_apply(const struct dropout *dropout, const uint8_t *mask, const float *from, float *to, size_t count)
{
    if (from == to)
        apply_in_place(dropout->scale, mask, to, count);
    else
        apply(dropout->scale, mask, from, to, count);
}
