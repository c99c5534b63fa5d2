/* CRC-32C by ISA-L, which picks the processor's fastest instructions. Called by everything
 * that reads or writes framed records, from any thread. */
#include "formats/crc32c.h"

#include <isa-l.h>

/* crc32_iscsi takes an int: longer data goes in parts. */
#define PART_BYTES ((size_t)1 << 30)

uint32_t crc32c(const void *data, size_t bytes)
{
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    uint32_t state = 0xffffffffu;

    while (bytes > PART_BYTES) {
        state = crc32_iscsi(at, (int)PART_BYTES, state);
        at += PART_BYTES;
        bytes -= PART_BYTES;
    }
    if (bytes > 0)
        state = crc32_iscsi(at, (int)bytes, state);
    return ~state;
}

uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}
