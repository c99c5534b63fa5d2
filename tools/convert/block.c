/* Growing memory. Called by the threads that write shards, each for its own blocks. */
#include "tools/convert/block.h"

#include <errno.h>
#include <stdlib.h>

int block_reserve(struct block *block, size_t bytes)
{
    if (bytes <= block->room)
        return 0;
    uint8_t *const grown = realloc(block->bytes, bytes);
    if (grown == NULL)
        return -ENOMEM;
    *block = (struct block){ grown, bytes };
    return 0;
}

void block_release(struct block *block)
{
    free(block->bytes);
    *block = (struct block){ 0 };
}
