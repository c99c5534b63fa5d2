/* CRC-32C (Castagnoli) and the TFRecord mask (doc/formats.md). */
#ifndef PIPETRAIN_CRC32C_H
#define PIPETRAIN_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);
/* Of what has `crc`, followed by `data`; the CRC of nothing is 0. */
uint32_t crc32c_more(uint32_t crc, const void *data, size_t bytes);
/* Of the last `bytes` bytes of what has the CRC `whole`, where all in front of them has `front`. */
uint32_t crc32c_behind(uint32_t whole, uint32_t front, uint64_t bytes);
/* rotate right by 15, add 0xa282ead8 */
uint32_t crc32c_mask(uint32_t crc);
static inline uint32_t crc32c_masked(const void *data, size_t bytes) { return crc32c_mask(crc32c(data, bytes)); }

#endif
