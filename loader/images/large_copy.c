/* Long copies. Called by decoders for raw images. */
#include "loader/images/large_copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define PART_BYTES sizeof(__m128i)

/* `to` is aligned. Returns the bytes copied, all but less than a part. */
static size_t copy_parts(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t i = 0;
    for (; i + PART_BYTES <= bytes; i += PART_BYTES)
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
    _mm_sfence();       /* before it is said that they are there */
    return i;
}

void large_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t done = 0;
    if (bytes >= LARGE_COPY_BYTES) {
        done = -(uintptr_t)to % PART_BYTES;
        memcpy(to, from, done);
        done += copy_parts(to + done, from + done, bytes - done);
    }
    memcpy(to + done, from + done, bytes - done);
}
#else
void large_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
