/* The head of a network in a tower. See head.h. */
#include "compute/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/mixing.h"

#define ALIGNMENT 16u           /* floats */
#define LABEL_FLOATS (sizeof(struct mixed_label) / sizeof(float))
#define STATS_FLOATS (sizeof(struct part_stats) / sizeof(float))
#define SUMS_MAX 6u             /* levels of a tree of SHARE_PARTS_MAX parts */

/* The part of the region that is exchanged at once. */
struct area { size_t offset, count; };

struct head_run {
    struct head_spec spec;
    struct area features, labels, statistics, norms, outputs[HEAD_STAGES_MAX];
    size_t region_count;
    float *region;
    /* Sums of gradients over own parts, in pairs (stage/pairwise.h): sums[n] is one of 2^n parts. */
    float *sums[SUMS_MAX];
    size_t sums_count;          /* floats of each */
    struct plan **plans[2];     /* [training][stage * own.count + part]; NULL: not open */
    uint32_t plan_count;        /* of each */
};

/* ---- opening ---- */

static uint32_t row_count(const struct head_run *run)
{
    return run->spec.slices * run->spec.slice_max;
}

static struct area add_area(struct head_run *run, size_t count)
{
    const struct area area = { run->region_count, count };
    run->region_count += (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return area;
}

static void lay_out(struct head_run *run)
{
    const struct head *const head = run->spec.head;
    const size_t rows = row_count(run);
    run->features = add_area(run, rows * head->features);
    run->labels = add_area(run, rows * LABEL_FLOATS);
    for (uint32_t s = 0; s + 1 < head->stage_count; s++)
        run->outputs[s] = add_area(run, rows * head->stages[s].units);
    run->statistics = add_area(run, rows * head->parts * STATS_FLOATS);
    run->norms = add_area(run, head->parts * run->spec.norm_floats);
    for (uint32_t s = 0; s < head->stage_count; s++)
        if (head->stages[s].sends_gradient && rows * head->stages[s].inputs > run->sums_count)
            run->sums_count = rows * head->stages[s].inputs;
}

/* The levels of sums that own parts need, except the last part. */
static uint32_t sum_levels(const struct head_run *run)
{
    uint32_t levels = 0;
    while (run->sums_count > 0 && (run->spec.own.count - 1) >> levels > 0)
        levels++;
    return levels;
}

static int open_plans(struct head_run *run, bool training)
{
    const struct head_spec *const spec = &run->spec;
    struct plan **const plans = calloc(run->plan_count, sizeof(struct plan *));
    int rc = plans == NULL ? -ENOMEM : 0;
    run->plans[training] = plans;
    for (uint32_t i = 0; i < run->plan_count && rc == 0; i++) {
        const struct plan_spec plan = {
            .count = row_count(run), .training = training, .block = spec->first_block + i,
            .range = share_stage(spec->head, spec->own, i / spec->own.count, i % spec->own.count),
        };
        rc = spec->ops->plan(spec->backend, &plan, &plans[i]);
    }
    return rc;
}

int head_open(struct head_run **run_out, const struct head_spec *spec)
{
    struct head_run *const run = calloc(1, sizeof(*run));
    if (run == NULL)
        return -ENOMEM;
    *run_out = run;
    run->spec = *spec;
    run->plan_count = spec->head->stage_count * spec->own.count;
    lay_out(run);
    const int rc = spec->trains ? open_plans(run, true) : 0;
    return rc == 0 && spec->evaluates ? open_plans(run, false) : rc;
}

void head_close(struct head_run *run)
{
    if (run == NULL)
        return;
    struct device *const device = run->spec.device;
    for (int training = 0; training < 2; training++) {
        for (uint32_t i = 0; run->plans[training] != NULL && i < run->plan_count; i++)
            if (run->plans[training][i] != NULL)
                run->spec.ops->plan_close(run->plans[training][i]);
        free(run->plans[training]);
    }
    for (uint32_t level = 0; level < SUMS_MAX; level++)
        if (run->sums[level] != NULL)
            device->ops->free(device, run->sums[level]);
    if (run->region != NULL)
        device->ops->free(device, run->region);
    free(run);
}

void head_describe(const struct head_run *run, void (*write)(void *arg, const char *line), void *arg)
{
    const struct head_spec *const spec = &run->spec;
    char line[80];
    snprintf(line, sizeof(line), "dense layers in %u parts, %u of them on this tower; each:", spec->head->parts,
             spec->own.count);
    write(arg, line);
    for (uint32_t i = 0; i < run->plan_count; i += spec->own.count)
        spec->ops->plan_describe(run->plans[spec->trains][i], write, arg);
}

/* ---- memory ---- */

size_t head_bytes(const struct head_run *run)
{
    return (run->region_count + (run->spec.trains ? sum_levels(run) * run->sums_count : 0)) * sizeof(float);
}

static int alloc_floats(struct head_run *run, size_t count, float **floats_out)
{
    void *memory;
    const int rc = run->spec.device->ops->alloc(run->spec.device, count * sizeof(float), &memory);
    if (rc == 0)
        *floats_out = memory;
    return rc;
}

static float *at(const struct head_run *run, const struct area *area)
{
    return run->region + area->offset;
}

/* What a stage reads. */
static const struct area *inputs_of(const struct head_run *run, uint32_t stage)
{
    return stage == 0 ? &run->features : &run->outputs[stage - 1];
}

static void connect(const struct head_run *run, struct plan *plan, uint32_t stage, uint32_t part)
{
    const struct head *const head = run->spec.head;
    const struct head_stage *const made = &head->stages[stage];
    const bool is_last = stage + 1 == head->stage_count;
    float *const inputs = at(run, inputs_of(run, stage));
    ((struct plan_base *)plan)->outside = (struct outside){
        .received = inputs,
        .received_gradient = made->sends_gradient ? inputs : NULL,
        .received_parts = stage == 0 ? 1 : head->parts,
        .sent = is_last ? NULL
                        : at(run, &run->outputs[stage]) + (size_t)part * row_count(run) * (made->units / head->parts),
        .labels = is_last ? (struct mixed_label *)(void *)at(run, &run->labels) : NULL,
        .stats = is_last ? (struct part_stats *)(void *)at(run, &run->statistics) : NULL,
        .part = part,
        .stat_parts = head->parts,
    };
}

int head_allocate(struct head_run *run)
{
    const uint32_t own = run->spec.own.count;
    int rc = alloc_floats(run, run->region_count, &run->region);
    for (uint32_t level = 0; level < sum_levels(run) && run->spec.trains && rc == 0; level++)
        rc = alloc_floats(run, run->sums_count, &run->sums[level]);
    for (int training = 0; training < 2 && rc == 0; training++)
        for (uint32_t i = 0; run->plans[training] != NULL && i < run->plan_count; i++)
            connect(run, run->plans[training][i], i / own, run->spec.own.first + i % own);
    return rc;
}

float *head_region(const struct head_run *run)
{
    return run->region;
}

size_t head_region_count(const struct head_run *run)
{
    return run->region_count;
}

float *head_norms(const struct head_run *run)
{
    return at(run, &run->norms);
}

static struct head_exchange exchange_of(const struct head_run *run, const struct area *area, bool sums)
{
    const uint32_t towers = run->spec.head->parts / run->spec.own.count;
    return (struct head_exchange){ .offset = area->offset, .count = area->count / towers, .sums = sums };
}

uint32_t head_exchanges(const struct head_run *run, struct head_exchange exchanges_out[HEAD_EXCHANGES_MAX])
{
    const struct head *const head = run->spec.head;
    exchanges_out[HEAD_FEATURES] = exchange_of(run, &run->features, false);
    exchanges_out[HEAD_LABELS] = exchange_of(run, &run->labels, false);
    for (uint32_t s = 0; s < head->stage_count; s++) {
        const bool is_last = s + 1 == head->stage_count;
        exchanges_out[head_exchange_after(s)] = exchange_of(run, is_last ? &run->statistics : &run->outputs[s], false);
        exchanges_out[head_exchange_of_gradients(head, s)] =
            head->stages[s].sends_gradient && run->spec.trains ? exchange_of(run, inputs_of(run, s), true)
                                                               : (struct head_exchange){ .count = 0 };
    }
    exchanges_out[head_exchange_of_norms(head)] = exchange_of(run, &run->norms, false);
    return head_exchange_of_norms(head) + 1;
}

uint32_t head_row(const struct head_run *run, uint32_t slice)
{
    return slice * run->spec.slice_max;
}

static struct mixed_label *labels_at(const struct head_run *run, uint32_t row)
{
    return (struct mixed_label *)(void *)at(run, &run->labels) + row;
}

struct outside head_outside(const struct head_run *run, uint32_t slice)
{
    const uint32_t row = head_row(run, slice);
    return (struct outside){ .sent = at(run, &run->features) + (size_t)row * run->spec.head->features,
                             .labels = labels_at(run, row) };
}

/* ---- a step ---- */

int head_send_nothing(struct head_run *run, uint32_t slice, uint32_t count)
{
    const uint32_t row = head_row(run, slice) + count, rows = run->spec.slice_max - count;
    const size_t features = run->spec.head->features;
    if (rows == 0)
        return 0;
    return run->spec.ops->send_nothing(run->spec.backend, at(run, &run->features) + row * features, rows * features,
                                       labels_at(run, row), rows);
}

static struct plan *plan_at(const struct head_run *run, bool training, uint32_t stage, uint32_t part)
{
    return run->plans[training][stage * run->spec.own.count + part];
}

int head_forward(struct head_run *run, uint32_t stage, const struct head_batch *batch)
{
    const struct backend_ops *const ops = run->spec.ops;
    const struct backend_input input = { .first_position = batch->position, .epoch = batch->epoch };
    int rc = 0;
    for (uint32_t part = 0; part < run->spec.own.count && rc == 0; part++) {
        struct plan *const plan = plan_at(run, batch->training, stage, part);
        rc = ops->input(plan, &input);
        if (rc == 0)
            rc = ops->forward(plan);
    }
    return rc;
}

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg, (void)layer;
}

/* The gradients of own part `part` are in the region: add those of parts before it that complete a pair with it, and
 * keep the sum unless it is that of all own parts. */
static int add_in_pairs(struct head_run *run, float *gradients, size_t count, uint32_t part)
{
    const struct head_spec *const spec = &run->spec;
    const bool is_last = part + 1 == spec->own.count;
    uint32_t level = 0;
    int rc = 0;
    for (; part >> level > 0 && (is_last || (part >> level & 1)) && rc == 0; level++)
        if (part >> level & 1)
            rc = spec->ops->axpby(spec->backend, gradients, run->sums[level], count, 1, 0);
    if (rc != 0 || is_last)
        return rc;
    return spec->device->ops->copy(spec->compute, run->sums[level], gradients, count * sizeof(float), COPY_ON_DEVICE);
}

int head_backward(struct head_run *run, uint32_t stage)
{
    const struct area *const inputs = inputs_of(run, stage);
    const bool sends_gradient = run->spec.head->stages[stage].sends_gradient;
    int rc = 0;
    for (uint32_t part = 0; part < run->spec.own.count && rc == 0; part++) {
        rc = run->spec.ops->backward(plan_at(run, true, stage, part), ignore_layer, NULL);
        if (rc == 0 && sends_gradient)
            rc = add_in_pairs(run, at(run, inputs), inputs->count, part);
    }
    return rc;
}

struct plan *head_loss_plan(const struct head_run *run, bool training)
{
    return plan_at(run, training, run->spec.head->stage_count - 1, 0);
}
