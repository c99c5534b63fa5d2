/* Memory that grows to what is needed and stays. */
#ifndef PIPETRAIN_BLOCK_H
#define PIPETRAIN_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct block { uint8_t *bytes; size_t room; };      /* zeros: nothing yet */

/* Have room for so many bytes; what was in the block stays in it. 0 or -ENOMEM. */
int block_reserve(struct block *block, size_t bytes);
/* Accepts a struct of zeros. */
void block_release(struct block *block);

#endif
