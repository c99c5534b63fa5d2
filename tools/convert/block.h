/* A memory block that grows and keeps its content. */
#ifndef PIPETRAIN_BLOCK_H
#define PIPETRAIN_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block { uint8_t *bytes; size_t room; };      /* zeros: empty */

/* Make room for `bytes` bytes; the content is kept. 0 or -ENOMEM. */
int block_reserve(struct block *block, size_t bytes);
/* Accepts a struct of zeros. */
void block_release(struct block *block);

#endif
