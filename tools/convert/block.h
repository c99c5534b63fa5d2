/* A memory block that can grow and keeps its content. */
#ifndef PIPETRAIN_BLOCK_H
#define PIPETRAIN_BLOCK_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct block { uint8_t *bytes; size_t room; };      /* initialised with zeros */

/* Make room for `bytes` bytes; the content is kept. 0 or -ENOMEM. */
static inline int block_reserve(struct block *block, size_t bytes)
{
    if (bytes <= block->room)
        return 0;
    uint8_t *const grown = realloc(block->bytes, bytes);
    if (grown == NULL)
        return -ENOMEM;
    *block = (struct block){ grown, bytes };
    return 0;
}

/* Accepts a struct of zeros. */
static inline void block_release(struct block *block)
{
    free(block->bytes);
    *block = (struct block){ 0 };
}

#endif
