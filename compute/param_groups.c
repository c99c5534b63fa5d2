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

/* Visit the parameters in arena order: those of the last layer first, and parts after all others. */
static void find_groups(struct param_groups *groups, const struct net *net, const struct arena *arena,
                        const struct optimizer *optimizer, bool is_part)
{
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
            const uint32_t parameter = net->layers[layer].parameters[kind];
            if (parameter == NET_NO_PARAMETER || !parameter_is_updated(&net->parameters[parameter]) ||
                parameter_is_part(net, parameter) != is_part)
                continue;
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
    find_groups(groups, net, arena, optimizer, false);
    find_groups(groups, net, arena, optimizer, true);
    return 0;
}

/* ---- parts ---- */

/* List the sums that part `part` (from 0) needs: first those of gradients, then those of weights. */
static void add_part(struct param_groups *groups, const struct net *net, const struct arena *arena, bool adapts,
                     uint32_t part)
{
    struct part_norms *const norms = &groups->norms;
    struct part_squares *const added = groups->part_squares + groups->part_squares_count;
    uint32_t count = 0, sums = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        const bool has_rate = adapts && parameter->kind == PARAMETER_WEIGHT;
        if (!parameter_is_part(net, i) || !parameter_is_updated(parameter) ||
            net->share->parts[parameter->layer] != norms->first + part || !(groups->clips || has_rate))
            continue;
        added[count++] = (struct part_squares){ arena->ranges[i].offset, arena->ranges[i].count, part, sums++,
                                                has_rate ? 0 : PART_NO_SUM };
    }
    norms->gradient_sums = sums;
    for (uint32_t i = 0; i < count; i++)
        if (added[i].weights != PART_NO_SUM)
            added[i].weights = sums++;
    norms->sums = sums;
    groups->part_squares_count += count;
}

int param_groups_divide(struct param_groups *groups, const struct net *net, const struct arena *arena,
                        uint32_t parts, struct part_range own, bool skips_nonfinite)
{
    bool adapts = false;
    for (uint32_t i = 0; i < groups->group_count; i++)
        adapts = adapts || groups->groups[i].adapts;
    if (!groups->clips && !adapts && !skips_nonfinite)
        return 0;
    groups->shared = arena->shared;
    groups->norms = (struct part_norms){ .parts = parts, .first = own.first, .count = own.count };
    groups->part_squares = calloc(net->parameter_count + 1, sizeof(*groups->part_squares));
    if (groups->part_squares == NULL)
        return -ENOMEM;
    for (uint32_t part = 0; part < own.count; part++)
        add_part(groups, net, arena, adapts, part);
    return 0;
}

size_t param_groups_part_floats(const struct param_groups *groups)
{
    return groups->norms.parts > 0 ? part_norms_numbers(&groups->norms) * sizeof(double) / sizeof(float) : 0;
}

void param_groups_bind_exchange(struct param_groups *groups, float *exchanged)
{
    groups->norms.exchanged = (double *)exchanged;
}

/* ---- memory ---- */

/* Is it a part of a parameter? */
static bool is_divided(const struct param_groups *groups, const struct param_group *group)
{
    return groups->norms.parts > 0 && group->offset >= groups->shared;
}

void param_groups_release(struct param_groups *groups)
{
    free(groups->groups);
    free(groups->ranges);
    free(groups->squares);
    free(groups->part_squares);
}

size_t param_groups_bytes(const struct param_groups *groups)
{
    const struct part_norms *const norms = &groups->norms;
    size_t sums = groups->clips + (size_t)norms->count * norms->sums;
    for (uint32_t i = 0; i < groups->group_count; i++)
        sums += groups->groups[i].adapts && !is_divided(groups, &groups->groups[i]) ? 2 : 0;
    return (sums * SQUARES_ROOM + norms->sums) * sizeof(double);
}

/* The rates of parts follow from the sums over all parts. */
static void bind_totals(struct param_groups *groups)
{
    for (uint32_t i = 0; i < groups->group_count; i++)
        for (uint32_t k = 0; k < groups->part_squares_count; k++) {
            const struct part_squares *const part = &groups->part_squares[k];
            if (!groups->groups[i].adapts || part->offset != groups->groups[i].offset)
                continue;
            groups->groups[i].weight_sums = groups->norms.totals + part->weights;
            groups->groups[i].gradient_sums = groups->norms.totals + part->gradients;
        }
}

void param_groups_bind(struct param_groups *groups, double *sums)
{
    struct part_norms *const norms = &groups->norms;
    for (uint32_t i = 0; i < groups->group_count; i++)
        if (groups->groups[i].adapts && !is_divided(groups, &groups->groups[i])) {
            groups->groups[i].weight_sums = sums;
            groups->groups[i].gradient_sums = sums + SQUARES_ROOM;
            sums += 2 * SQUARES_ROOM;
        }
    norms->own = sums;
    norms->totals = sums + (size_t)norms->count * norms->sums * SQUARES_ROOM;
    bind_totals(groups);
    groups->all_sums = groups->clips ? norms->totals + norms->sums : NULL;
    norms->all_squares = groups->all_sums;
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

/* Of every own part of a parameter, a sum of its own. */
static void add_part_squares(struct param_groups *groups, const struct optimizer_range *arena)
{
    const struct part_norms *const norms = &groups->norms;
    for (uint32_t i = 0; i < groups->part_squares_count; i++) {
        const struct part_squares *const part = &groups->part_squares[i];
        add_squares(groups, arena->gradients + part->offset, part->count,
                    part_norms_own(norms, part->part, part->gradients));
        if (part->weights != PART_NO_SUM)
            add_squares(groups, arena->weights + part->offset, part->count,
                        part_norms_own(norms, part->part, part->weights));
    }
}

void param_groups_select(struct param_groups *groups, const struct optimizer_range *arena, size_t offset, size_t end)
{
    groups->range_count = 0;
    groups->squares_count = 0;
    const bool has_norms = groups->norms.parts > 0;
    if (groups->clips)
        add_squares(groups, arena->gradients + offset, (has_norms ? groups->shared : end) - offset, groups->all_sums);
    add_part_squares(groups, arena);
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
        range->weight_squares = group->weight_sums;
        range->gradient_squares = group->gradient_sums;
        if (is_divided(groups, group))
            continue;
        add_squares(groups, range->weights, range->count, group->weight_sums);
        add_squares(groups, range->gradients, range->count, group->gradient_sums);
    }
}
