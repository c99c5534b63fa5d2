/* The shuffle of Fisher and Yates, from the inside out. Pure; any thread. */
#include "tools/convert/sample_order.h"

#include <stddef.h>
#include <stdlib.h>

/* A number below `bound`: the high half of a product, which is even enough for any real count. */
static uint64_t random_below(struct random_key key, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_u64(key, index) * bound) >> 64);
}

uint64_t *sample_order(uint64_t count, struct random_key key)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    if (order == NULL)
        return NULL;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t j = random_below(key, i, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

uint64_t *sample_order_stored(uint64_t count)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    for (uint64_t i = 0; order != NULL && i < count; i++)
        order[i] = i;
    return order;
}
