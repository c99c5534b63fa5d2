/* Little-endian numbers at any address, also unaligned ones. */
#ifndef PIPETRAIN_LITTLE_ENDIAN_H
#define PIPETRAIN_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t little_endian_get16(const uint8_t *at)
{
    uint16_t stored;
    memcpy(&stored, at, sizeof(stored));
    return le16toh(stored);
}

static inline uint32_t little_endian_get32(const uint8_t *at)
{
    uint32_t stored;
    memcpy(&stored, at, sizeof(stored));
    return le32toh(stored);
}

static inline uint64_t little_endian_get64(const uint8_t *at)
{
    uint64_t stored;
    memcpy(&stored, at, sizeof(stored));
    return le64toh(stored);
}

/* Both return the address after the number. */
static inline uint8_t *little_endian_put32(uint8_t *at, uint32_t value)
{
    const uint32_t stored = htole32(value);
    memcpy(at, &stored, sizeof(stored));
    return at + sizeof(stored);
}

static inline uint8_t *little_endian_put64(uint8_t *at, uint64_t value)
{
    const uint64_t stored = htole64(value);
    memcpy(at, &stored, sizeof(stored));
    return at + sizeof(stored);
}

#endif
