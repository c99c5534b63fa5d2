/* Greedy placing by size: the largest buffer first, each at the lowest offset where
 * it fits between those placed before that live at the same time. Called when plans
 * are made. */
#include "compute/plan/lifetime.h"

#include <stdbool.h>
#include <stdlib.h>

static size_t rounded(size_t bytes)
{
    return (bytes + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
}

static bool is_used(const struct lifetime *buffer)
{
    return buffer->first <= buffer->last && buffer->bytes > 0;
}

static bool live_together(const struct lifetime *a, const struct lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int larger_first(const void *left, const void *right)
{
    const struct lifetime *a = *(struct lifetime *const *)left, *b = *(struct lifetime *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b;
}

static int lower_first(const void *left, const void *right)
{
    const struct lifetime *a = *(struct lifetime *const *)left, *b = *(struct lifetime *const *)right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* `beside` are those that live at the same time, by offset. */
static size_t lowest_offset(size_t bytes, struct lifetime *const *beside, uint32_t count)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (offset + bytes <= beside[i]->offset)
            break;
        const size_t end = beside[i]->offset + rounded(beside[i]->bytes);
        if (end > offset)
            offset = end;
    }
    return offset;
}

size_t lifetime_plan(struct lifetime *buffers, uint32_t count)
{
    struct lifetime **order = calloc((size_t)count * 2 + 1, sizeof(*order));
    if (order == NULL)
        return 0;
    struct lifetime **beside = order + count;
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_used(&buffers[i]))
            order[used++] = &buffers[i];
    qsort(order, used, sizeof(*order), larger_first);
    size_t total = 0;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t beside_count = 0;
        for (uint32_t j = 0; j < i; j++)
            if (live_together(order[i], order[j]))
                beside[beside_count++] = order[j];
        qsort(beside, beside_count, sizeof(*beside), lower_first);
        const size_t bytes = rounded(order[i]->bytes);
        order[i]->offset = lowest_offset(bytes, beside, beside_count);
        if (order[i]->offset + bytes > total)
            total = order[i]->offset + bytes;
    }
    free(order);
    return total;
}
