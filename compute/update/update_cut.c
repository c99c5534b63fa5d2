/* Which parts of the arena are updated in the same way. Called by the tower. */
#include "compute/update/update_cut.h"

#include <errno.h>
#include <stdlib.h>

/* The run goes on, or the next begins. */
static void extend_runs(struct update_cut *cut, const struct parameter *parameter, size_t offset, size_t end)
{
    if (cut->run_count > 0 && cut->runs[cut->run_count - 1].decays == parameter->decays)
        return;
    if (cut->run_count > 0)
        cut->runs[cut->run_count - 1].end = offset;
    cut->runs[cut->run_count++] = (struct update_run){ offset, end, parameter->decays };
}

/* Parameters in the order of the arena: the last layer's first. */
int update_cut_init(struct update_cut *cut, const struct net *net, const struct arena *arena)
{
    *cut = (struct update_cut){ .runs = calloc(net->parameter_count, sizeof(*cut->runs)),
                                .ranges = calloc(net->parameter_count, sizeof(*cut->ranges)) };
    if (cut->runs == NULL || cut->ranges == NULL)
        return -ENOMEM;
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
            const uint32_t parameter = net->layers[layer].parameters[kind];
            if (parameter != NET_NO_PARAMETER && net->parameters[parameter].is_trained)
                extend_runs(cut, &net->parameters[parameter], arena->ranges[parameter].offset, arena->count);
        }
    return 0;
}

void update_cut_release(struct update_cut *cut)
{
    free(cut->runs);
    free(cut->ranges);
}

static struct optimizer_range range_at(const struct optimizer_range *whole, size_t offset, size_t end, bool decays)
{
    struct optimizer_range range = {
        .weights = whole->weights + offset, .gradients = whole->gradients + offset, .count = end - offset,
        .decays = decays };
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        range.states[i] = whole->states[i] != NULL ? whole->states[i] + offset : NULL;
    return range;
}

uint32_t update_cut_at(struct update_cut *cut, const struct optimizer *optimizer, const struct optimizer_range *whole,
                       size_t offset, size_t end)
{
    uint32_t count = 0;
    if (optimizer->weight_decay == 0.0f) {
        cut->ranges[count++] = range_at(whole, offset, end, false);
        return count;
    }
    for (uint32_t i = 0; i < cut->run_count; i++) {
        const struct update_run *const run = &cut->runs[i];
        const size_t first = run->offset > offset ? run->offset : offset, last = run->end < end ? run->end : end;
        if (first < last)
            cut->ranges[count++] = range_at(whole, first, last, run->decays);
    }
    return count;
}
