/* Parameter groups. See param_groups.h. */
#include "compute/param_groups.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Start a new group at `next`, or continue the last group when both are updated alike. */
static void add_parameter(struct param_groups *groups, struct param_group next)
{
    struct param_group *const last = groups->group_count > 0 ? &groups->groups[groups->group_count - 1] : NULL;
    if (last != NULL && last->decays == next.decays && !last->adapts && !next.adapts)
        return;
    if (last != NULL)
        last->end = next.offset;
    groups->groups[groups->group_count++] = next;
}

static bool decays(const struct optimizer *optimizer, const struct parameter *parameter)
{
    if (optimizer->decay_scope == DECAY_WEIGHTS)
        return parameter->kind == PARAMETER_WEIGHT;
    return optimizer->decay_scope == DECAY_ALL || parameter->decays;
}

/* Visit the parameters in arena order: those of the last layer first. */
static void find_groups(struct param_groups *groups, const struct net *net, const struct arena *arena,
                        const struct optimizer *optimizer)
{
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
            const uint32_t parameter = net->layers[layer].parameters[kind];
            if (parameter != NET_NO_PARAMETER && parameter_is_updated(&net->parameters[parameter]))
                add_parameter(groups, (struct param_group){
                                          .offset = arena->ranges[parameter].offset, .end = arena->updated,
                                          .decays = decays(optimizer, &net->parameters[parameter]),
                                          .adapts = optimizer_adapts(optimizer->kind) && kind == PARAMETER_WEIGHT });
        }
}

int param_groups_init(struct param_groups *groups, const struct net *net, const struct arena *arena,
                      const struct optimizer *optimizer)
{
    *groups = (struct param_groups){
        .groups = calloc(net->parameter_count, sizeof(*groups->groups)),
        .are_alike = optimizer->weight_decay == 0.0f && !optimizer_adapts(optimizer->kind),
        .clips = optimizer->clip_norm > 0,
        .ranges = calloc(net->parameter_count, sizeof(*groups->ranges)),
        .squares = calloc(2 * (size_t)net->parameter_count + 1, sizeof(*groups->squares)),
    };
    if (groups->groups == NULL || groups->ranges == NULL || groups->squares == NULL)
        return -ENOMEM;
    find_groups(groups, net, arena, optimizer);
    return 0;
}

void param_groups_release(struct param_groups *groups)
{
    free(groups->groups);
    free(groups->ranges);
    free(groups->squares);
}

size_t param_groups_bytes(const struct param_groups *groups)
{
    size_t sums = groups->clips;
    for (uint32_t i = 0; i < groups->group_count; i++)
        sums += groups->groups[i].adapts ? 2 : 0;
    return sums * SQUARES_ROOM * sizeof(double);
}

void param_groups_bind(struct param_groups *groups, double *sums)
{
    for (uint32_t i = 0; i < groups->group_count; i++)
        if (groups->groups[i].adapts) {
            groups->groups[i].sums = sums;
            sums += 2 * SQUARES_ROOM;
        }
    groups->all_sums = groups->clips ? sums : NULL;
}

static struct optimizer_range *add_range(struct param_groups *groups, const struct optimizer_range *arena,
                                         size_t offset, size_t end)
{
    struct optimizer_range *const range = &groups->ranges[groups->range_count++];
    *range = (struct optimizer_range){
        .weights = arena->weights + offset, .gradients = arena->gradients + offset, .count = end - offset,
        .all_squares = groups->all_sums };
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        range->states[i] = arena->states[i] != NULL ? arena->states[i] + offset : NULL;
    return range;
}

static void add_squares(struct param_groups *groups, const float *floats, size_t count, double *sum)
{
    groups->squares[groups->squares_count++] = (struct squares){ floats, count, sum };
}

void param_groups_select(struct param_groups *groups, const struct optimizer_range *arena, size_t offset, size_t end)
{
    groups->range_count = 0;
    groups->squares_count = 0;
    if (groups->clips)
        add_squares(groups, arena->gradients + offset, end - offset, groups->all_sums);
    if (groups->are_alike) {
        add_range(groups, arena, offset, end);
        return;
    }
    for (uint32_t i = 0; i < groups->group_count; i++) {
        const struct param_group *const group = &groups->groups[i];
        const size_t first = group->offset > offset ? group->offset : offset;
        const size_t last = group->end < end ? group->end : end;
        if (first >= last)
            continue;
        struct optimizer_range *const range = add_range(groups, arena, first, last);
        range->decays = group->decays;
        assert(!group->adapts || (first == group->offset && last == group->end));
        if (!group->adapts)
            continue;
        range->weight_squares = group->sums;
        range->gradient_squares = group->sums + SQUARES_ROOM;
        add_squares(groups, range->weights, range->count, group->sums);
        add_squares(groups, range->gradients, range->count, group->sums + SQUARES_ROOM);
    }
}
