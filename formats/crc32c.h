/* CRC-32C (Castagnoli) and the TFRecord mask (doc/formats.md). */
#ifndef PIPETRAIN_CRC32C_H
#define PIPETRAIN_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);
/* The CRC of data that was processed so far (its CRC is `crc`; 0 for none) followed by `data`. */
uint32_t crc32c_more(uint32_t crc, const void *data, size_t bytes);
/* The CRC of the last `bytes` bytes of some data, from the CRC of the whole and the CRC of the part before the last
 * bytes. */
uint32_t crc32c_behind(uint32_t whole, uint32_t front, uint64_t bytes);
/* TFRecord's mask: rotate right by 15, add 0xa282ead8. */
uint32_t crc32c_mask(uint32_t crc);
static inline uint32_t crc32c_masked(const void *data, size_t bytes) { return crc32c_mask(crc32c(data, bytes)); }

#endif
