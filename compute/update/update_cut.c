/* Which parts of the arena are updated in the same way. Called by the tower. */
#include "compute/update/update_cut.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The run goes on, or the next begins. */
static void extend_runs(struct param_groups *cut, struct param_group next)
{
    struct param_group *const last = cut->run_count > 0 ? &cut->runs[cut->run_count - 1] : NULL;
    if (last != NULL && last->decays == next.decays && !last->adapts && !next.adapts)
        return;
    if (last != NULL)
        last->end = next.offset;
    cut->runs[cut->run_count++] = next;
}

static bool decays(const struct optimizer *optimizer, const struct parameter *parameter)
{
    if (optimizer->decay_scope == DECAY_WEIGHTS)
        return parameter->kind == PARAMETER_WEIGHT;
    return optimizer->decay_scope == DECAY_ALL || parameter->decays;
}

/* Parameters in the order of the arena: the last layer's first. */
static void find_runs(struct param_groups *cut, const struct net *net, const struct arena *arena,
                      const struct optimizer *optimizer)
{
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
            const uint32_t parameter = net->layers[layer].parameters[kind];
            if (parameter != NET_NO_PARAMETER && parameter_is_updated(&net->parameters[parameter]))
                extend_runs(cut, (struct param_group){
                                     .offset = arena->ranges[parameter].offset, .end = arena->updated,
                                     .decays = decays(optimizer, &net->parameters[parameter]),
                                     .adapts = optimizer_adapts(optimizer->kind) && kind == PARAMETER_WEIGHT });
        }
}

int param_groups_init(struct param_groups *cut, const struct net *net, const struct arena *arena,
                      const struct optimizer *optimizer)
{
    *cut = (struct param_groups){
        .runs = calloc(net->parameter_count, sizeof(*cut->runs)),
        .is_whole = optimizer->weight_decay == 0.0f && !optimizer_adapts(optimizer->kind),
        .clips = optimizer->clip_norm > 0,
        .ranges = calloc(net->parameter_count, sizeof(*cut->ranges)),
        .squares = calloc(2 * (size_t)net->parameter_count + 1, sizeof(*cut->squares)),
    };
    if (cut->runs == NULL || cut->ranges == NULL || cut->squares == NULL)
        return -ENOMEM;
    find_runs(cut, net, arena, optimizer);
    return 0;
}

void param_groups_release(struct param_groups *cut)
{
    free(cut->runs);
    free(cut->ranges);
    free(cut->squares);
}

size_t param_groups_bytes(const struct param_groups *cut)
{
    size_t sums = cut->clips;
    for (uint32_t i = 0; i < cut->run_count; i++)
        sums += cut->runs[i].adapts ? 2 : 0;
    return sums * SQUARES_ROOM * sizeof(double);
}

void param_groups_bind(struct param_groups *cut, double *sums)
{
    for (uint32_t i = 0; i < cut->run_count; i++)
        if (cut->runs[i].adapts) {
            cut->runs[i].sums = sums;
            sums += 2 * SQUARES_ROOM;
        }
    cut->all_sums = cut->clips ? sums : NULL;
}

static struct optimizer_range *add_range(struct param_groups *cut, const struct optimizer_range *whole, size_t offset,
                                         size_t end)
{
    struct optimizer_range *const range = &cut->ranges[cut->range_count++];
    *range = (struct optimizer_range){
        .weights = whole->weights + offset, .gradients = whole->gradients + offset, .count = end - offset,
        .all_squares = cut->all_sums };
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        range->states[i] = whole->states[i] != NULL ? whole->states[i] + offset : NULL;
    return range;
}

static void add_squares(struct param_groups *cut, struct optimizer_range *range, double *sums)
{
    range->weight_squares = sums;
    range->gradient_squares = sums + SQUARES_ROOM;
    cut->squares[cut->squares_count++] = (struct squares){ range->weights, range->count, sums };
    cut->squares[cut->squares_count++] = (struct squares){ range->gradients, range->count, sums + SQUARES_ROOM };
}

void param_groups_select(struct param_groups *cut, const struct optimizer_range *whole, size_t offset, size_t end)
{
    cut->range_count = 0;
    cut->squares_count = 0;
    if (cut->clips)
        cut->squares[cut->squares_count++] =
            (struct squares){ whole->gradients + offset, end - offset, cut->all_sums };
    if (cut->is_whole) {
        add_range(cut, whole, offset, end);
        return;
    }
    for (uint32_t i = 0; i < cut->run_count; i++) {
        const struct param_group *const run = &cut->runs[i];
        const size_t first = run->offset > offset ? run->offset : offset, last = run->end < end ? run->end : end;
        if (first >= last)
            continue;
        struct optimizer_range *const range = add_range(cut, whole, first, last);
        range->decays = run->decays;
        assert(!run->adapts || (first == run->offset && last == run->end));
        if (run->adapts)
            add_squares(cut, range, run->sums);
    }
}
