/* The layout of a tower's arenas. See arena.h. */
#include "compute/arena.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGNMENT 16u       /* floats: 64 bytes */

static size_t aligned(size_t count)
{
    return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Append ranges for the parameters of the last layer first, and within a layer in the order of enum parameter_kind. */
static void append(struct arena *arena, const struct net *net, const size_t *stored_counts, bool is_trained,
                   bool is_frozen, bool is_part)
{
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
            const uint32_t parameter = net->layers[layer].parameters[kind];
            if (parameter == NET_NO_PARAMETER || net->parameters[parameter].is_trained != is_trained ||
                net->parameters[parameter].is_frozen != is_frozen || parameter_is_part(net, parameter) != is_part)
                continue;
            arena->ranges[parameter] = (struct arena_range){ arena->count, stored_counts[parameter] };
            arena->count += aligned(stored_counts[parameter]);
        }
}

static int lay_out(struct arena *arena, const struct net *net, const size_t *stored_counts, bool is_trained,
                   size_t lead)
{
    struct arena_range *const ranges = calloc(net->parameter_count > 0 ? net->parameter_count : 1, sizeof(*ranges));
    if (ranges == NULL)
        return -ENOMEM;
    *arena = (struct arena){ .lead = lead, .parameter_count = net->parameter_count, .ranges = ranges, .count = lead };
    for (uint32_t i = 0; i < net->parameter_count; i++)
        ranges[i].offset = ARENA_ELSEWHERE;
    append(arena, net, stored_counts, is_trained, false, false);
    arena->shared = arena->count;
    append(arena, net, stored_counts, is_trained, false, true);
    arena->updated = arena->count;
    append(arena, net, stored_counts, is_trained, true, false);
    append(arena, net, stored_counts, is_trained, true, true);
    return 0;
}

int arenas_init(struct arenas *arenas, const struct net *net, const size_t *stored_counts, size_t lead)
{
    *arenas = (struct arenas){ .trained = { .count = 0 } };
    int rc = lay_out(&arenas->trained, net, stored_counts, true, lead);
    if (rc == 0)
        rc = lay_out(&arenas->statistics, net, stored_counts, false, 0);
    if (rc != 0)
        arenas_release(arenas);
    return rc;
}

void arenas_release(struct arenas *arenas)
{
    free(arenas->trained.ranges);
    free(arenas->statistics.ranges);
    *arenas = (struct arenas){ .trained = { .count = 0 } };
}

const struct arena *arenas_of(const struct arenas *arenas, const struct net *net, uint32_t parameter)
{
    return net->parameters[parameter].is_trained ? &arenas->trained : &arenas->statistics;
}

size_t arena_ready(const struct arena *arena, const struct net *net, uint32_t layer)
{
    size_t ready = arena->shared;
    for (uint32_t i = 0; i < arena->parameter_count; i++)
        if (net->parameters[i].layer < layer && arena->ranges[i].offset < ready)
            ready = arena->ranges[i].offset;
    return ready;
}

void arena_segment_ends(const struct arena *arena, const struct net *net, const size_t *ends, uint32_t count,
                        bool *is_end_out)
{
    uint32_t next = 0;
    for (uint32_t layer = net->layer_count; layer-- > 0;) {
        if (!layer_is_trained(&net->layers[layer]))
            continue;
        const size_t ready = arena_ready(arena, net, layer);
        is_end_out[layer] = next < count && ready >= ends[next];
        while (next < count && ready >= ends[next])
            next++;
    }
}
