/* Pixels copied to a place that is read by nobody soon. */
#ifndef PIPETRAIN_LARGE_COPY_H
#define PIPETRAIN_LARGE_COPY_H

#include <stddef.h>
#include <stdint.h>

/* As memcpy. From LARGE_COPY_BYTES on the bytes go past the caches: a batch of such images does not fit there, and what
 * is written through them is read from memory first. */
#define LARGE_COPY_BYTES ((size_t)64 << 10)
void large_copy(uint8_t *to, const uint8_t *from, size_t bytes);

#endif
