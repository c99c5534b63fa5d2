/* MD5 of a block of memory, after RFC 1321. Called by converters that know the sums of the
 * files they are given; it protects nothing. */
#include "formats/md5.h"

#include <string.h>

#define BLOCK_BYTES 64u

struct md5 {
    uint32_t word[4];
};

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static uint32_t load_le32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t rotate_left(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

/* The function of round i / 16, and which of the block's words it takes. */
static uint32_t round_term(unsigned i, const uint32_t w[4], unsigned *take_out)
{
    switch (i / 16) {
    case 0:
        *take_out = i;
        return (w[1] & w[2]) | (~w[1] & w[3]);
    case 1:
        *take_out = (5 * i + 1) % 16;
        return (w[3] & w[1]) | (~w[3] & w[2]);
    case 2:
        *take_out = (3 * i + 5) % 16;
        return w[1] ^ w[2] ^ w[3];
    default:
        *take_out = (7 * i) % 16;
        return w[2] ^ (w[1] | ~w[3]);
    }
}

static void add_block(struct md5 *md5, const uint8_t *block)
{
    static const uint8_t shifts[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
    uint32_t w[4];

    memcpy(w, md5->word, sizeof(w));
    for (unsigned i = 0; i < 64; i++) {
        unsigned take;
        const uint32_t term = round_term(i, w, &take);
        const uint32_t sum = w[0] + term + sines[i] + load_le32(block + 4 * take);
        w[0] = w[3];
        w[3] = w[2];
        w[2] = w[1];
        w[1] += rotate_left(sum, shifts[i / 16][i % 4]);
    }
    for (int i = 0; i < 4; i++)
        md5->word[i] += w[i];
}

/* The rest of the data, a 1 bit, zeros, and the length in bits: one or two blocks. */
static void add_end(struct md5 *md5, const uint8_t *rest, size_t rest_bytes, uint64_t bits)
{
    uint8_t end[2 * BLOCK_BYTES] = { 0 };
    const size_t end_bytes = rest_bytes < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES;

    if (rest_bytes > 0)
        memcpy(end, rest, rest_bytes);
    end[rest_bytes] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        end[end_bytes - 8 + i] = (uint8_t)(bits >> (8 * i));
    for (size_t at = 0; at < end_bytes; at += BLOCK_BYTES)
        add_block(md5, end + at);
}

void md5_text(const uint8_t *data, size_t bytes, char text_out[MD5_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    struct md5 md5 = { { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 } };
    const size_t whole = bytes / BLOCK_BYTES * BLOCK_BYTES;

    for (size_t at = 0; at < whole; at += BLOCK_BYTES)
        add_block(&md5, data + at);
    add_end(&md5, bytes > whole ? data + whole : NULL, bytes - whole, (uint64_t)bytes * 8);
    for (unsigned i = 0; i < 16; i++) {
        const unsigned byte = md5.word[i / 4] >> (8 * (i % 4)) & 0xff;
        text_out[2 * i] = digits[byte >> 4];
        text_out[2 * i + 1] = digits[byte & 15];
    }
    text_out[MD5_TEXT_BYTES - 1] = '\0';
}
