/* A buffer that a thread reuses for all images. It grows to the size that the largest image so far needed. */
#ifndef PIPETRAIN_SCRATCH_H
#define PIPETRAIN_SCRATCH_H

#include <stddef.h>
#include <stdlib.h>

struct scratch { void *memory; size_t bytes; };     /* all zeros: nothing is allocated yet */

static inline void scratch_release(struct scratch *scratch)
{
    free(scratch->memory);
    *scratch = (struct scratch){ NULL, 0 };
}

/* Get at least `bytes` of memory with undefined content, valid until the next call; NULL when out of memory. */
static inline void *scratch_need(struct scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return scratch->memory;
    scratch_release(scratch);
    scratch->memory = malloc(bytes);
    scratch->bytes = scratch->memory != NULL ? bytes : 0;
    return scratch->memory;
}

#endif
