/* Memory a thread keeps from image to image, grown to what the largest image so far needed. */
#ifndef PIPETRAIN_SCRATCH_H
#define PIPETRAIN_SCRATCH_H

#include <stddef.h>

struct scratch { void *memory; size_t bytes; };     /* zeros: nothing yet */

/* At least `bytes` of memory, whose content is undefined, until the next call; NULL when there is none. */
void *scratch_need(struct scratch *scratch, size_t bytes);
void scratch_release(struct scratch *scratch);

#endif
