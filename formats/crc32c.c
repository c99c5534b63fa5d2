/* CRC-32C by ISA-L, which selects the processor's fastest instructions. Called wherever framed records are read or
 * written, from any thread. */
#include "formats/crc32c.h"

#include <isa-l.h>

/* crc32_iscsi has an int length: longer data is processed in parts. */
#define PART_BYTES ((size_t)1 << 30)
#define POLYNOMIAL 0x82f63b78u

uint32_t crc32c_more(uint32_t crc, const void *data, size_t bytes)
{
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    uint32_t state = ~crc;

    while (bytes > PART_BYTES) {
        state = crc32_iscsi(at, (int)PART_BYTES, state);
        at += PART_BYTES;
        bytes -= PART_BYTES;
    }
    if (bytes > 0)
        state = crc32_iscsi(at, (int)bytes, state);
    return ~state;
}

uint32_t crc32c(const void *data, size_t bytes)
{
    return crc32c_more(0, data, bytes);
}

/* The product of two polynomials modulo the CRC's polynomial; the highest bit is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        product ^= a >> 31 ? b : 0;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

/* CRC(whole) = CRC(front) * x^(8 bytes) xor CRC(last bytes): solved for the last one. */
uint32_t crc32c_behind(uint32_t whole, uint32_t front, uint64_t bytes)
{
    for (uint32_t power = 1u << (31 - 8); bytes > 0; bytes >>= 1) {
        if (bytes & 1)
            front = multiply(power, front);
        power = multiply(power, power);
    }
    return whole ^ front;
}

uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
