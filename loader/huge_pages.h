/* Memory in huge pages, which saves TLB misses for data that is accessed in random order. */
#ifndef PIPETRAIN_HUGE_PAGES_H
#define PIPETRAIN_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Round bytes up to whole pages; SIZE_MAX if that overflows. */
static inline size_t huge_pages_round(size_t bytes)
{
    if (bytes > SIZE_MAX - HUGE_PAGE_BYTES)
        return SIZE_MAX;
    return (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

/* Allocate at least `bytes`, to be released with free; NULL when out of memory. */
static inline void *huge_pages_alloc(size_t bytes)
{
    const size_t room = huge_pages_round(bytes);
    void *const memory = room < SIZE_MAX ? aligned_alloc(HUGE_PAGE_BYTES, room) : NULL;
    if (memory != NULL)
        (void)madvise(memory, room, MADV_HUGEPAGE);
    return memory;
}

#endif
