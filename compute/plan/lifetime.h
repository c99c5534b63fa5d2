/* Buffers that are needed at different times share memory: each has a size and the
 * span of time in which it holds something; the plan gives offsets in one block. */
#ifndef PIPETRAIN_LIFETIME_H
#define PIPETRAIN_LIFETIME_H

#include <stddef.h>
#include <stdint.h>

#define LIFETIME_ALIGN 64u

struct lifetime {
    size_t bytes;
    uint32_t first, last;       /* inclusive; first > last: never used */
    size_t offset;              /* result, a multiple of LIFETIME_ALIGN */
};

/* Place `count` buffers so that no two alive at the same time overlap. Returns the
 * bytes of the block, or 0 when memory is short (or nothing is used). Deterministic. */
size_t lifetime_plan(struct lifetime *buffers, uint32_t count);

#endif
