/* The layout of a tower's flat arenas. Made once by the tower; constant afterwards. */
#include "compute/arena.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGNMENT 16u       /* floats: 64 bytes */

static size_t aligned(size_t count)
{
    return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Parameters are numbered in layer order, weight before bias; the arena holds the
 * last layer first and inside a layer keeps that order. */
int arena_init(struct arena *arena, const struct net *net, const size_t *stored_counts)
{
    struct arena_range *ranges = calloc(net->parameter_count ? net->parameter_count : 1, sizeof(*ranges));
    if (ranges == NULL)
        return -ENOMEM;
    size_t offset = 0;
    for (uint32_t layer = net->layer_count; layer-- > 0;) {
        const uint32_t of_layer[] = { net->layers[layer].weight, net->layers[layer].bias };
        for (size_t i = 0; i < sizeof(of_layer) / sizeof(of_layer[0]); i++) {
            if (of_layer[i] == NET_NO_PARAMETER)
                continue;
            ranges[of_layer[i]] = (struct arena_range){ offset, stored_counts[of_layer[i]] };
            offset += aligned(stored_counts[of_layer[i]]);
        }
    }
    *arena = (struct arena){ net->parameter_count, ranges, offset };
    return 0;
}

void arena_release(struct arena *arena)
{
    free(arena->ranges);
    *arena = (struct arena){ 0 };
}

size_t arena_ready(const struct arena *arena, const struct net *net, uint32_t layer)
{
    size_t ready = arena->count;
    for (uint32_t i = 0; i < arena->parameter_count; i++)
        if (net->parameters[i].layer < layer && arena->ranges[i].offset < ready)
            ready = arena->ranges[i].offset;
    return ready;
}
