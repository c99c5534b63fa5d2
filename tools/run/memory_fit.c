/* Planning a tower for other batches until one is just small enough. */
#include "tools/run/memory_fit.h"

#include "tools/run/tower_plan.h"

#define PLANS_MAX 8u            /* that are tried; two or three do where memory grows as the batch does */
#define ROUNDING 64u            /* batches are offered to a power of two of at most this part of them */

/* What a batch takes. */
struct point { uint32_t batch; size_t bytes; };

static int plan_tower(struct tower_spec *spec, struct device *device, struct tower_needs *needs_out)
{
    spec->device = device;
    int rc = device->ops->stream_open(device, STREAM_COMPUTE, "compute", &spec->compute);
    if (rc != 0)
        return rc;
    struct tower *tower = NULL;
    rc = tower_open(&tower, spec);
    if (rc == 0)
        *needs_out = tower_needs(tower);
    tower_close(tower);
    device->ops->stream_close(spec->compute);
    return rc;
}

static int find_needs(const struct memory_fit *fit, const struct run_plan *plan, const struct settings *settings,
                      struct trainer_needs *needs_out)
{
    const struct device_spec spec = { .name = "cpu0" };
    struct device *device;
    struct tower_spec tower = tower_plan(plan, settings, plan->devices.towers.first);
    tower.net = fit->net;
    int rc = plan->devices.ops->open(&device, &spec);
    if (rc != 0)
        return rc;
    *needs_out = *fit->needs;
    rc = plan_tower(&tower, device, &needs_out->tower);
    device->ops->close(device);
    return rc;
}

/* SIZE_MAX where it cannot be planned. */
static size_t bytes_of(const struct memory_fit *fit, uint32_t batch)
{
    struct settings settings = *fit->settings;
    struct run_plan plan = *fit->plan;
    struct trainer_needs needs;
    struct problems problems;
    settings.train.batch = batch;
    settings.train.batch_per_tower = 0;
    problems_init(&problems);
    int rc = run_plan_init(&plan, &settings, fit->net, fit->datasets, &problems);
    problems_release(&problems);
    if (rc == 0)
        rc = find_needs(fit, &plan, &settings, &needs);
    for (uint32_t d = 0; d < plan.devices.towers.count && rc == 0; d++)
        memory_plan_add_tower(&plan.memory, d % plan.devices.count, &needs);
    plan.memory.host.bytes[MEMORY_IMAGES] = fit->plan->memory.host.bytes[MEMORY_IMAGES];
    memory_share_add(&plan.memory.host, MEMORY_RESULTS, fit->plan->memory.host.bytes[MEMORY_RESULTS]);
    return rc == 0 ? memory_plan_bytes(&plan.memory) : SIZE_MAX;
}

/* What convolutions need beside the values jumps where their work has no divisors that suit a cache; batches that
 * divide well seldom meet that. */
static uint32_t round_down(uint32_t batch)
{
    uint32_t unit = 1;
    while (unit * 2 * ROUNDING <= batch)
        unit *= 2;
    return batch / unit * unit;
}

/* On the line between two batches, or, where memory jumps and the line leads nowhere, in the middle. */
static uint32_t batch_between(struct point low, struct point high, size_t there, bool on_line)
{
    const double share = on_line ? (double)(there - low.bytes) / (double)(high.bytes - low.bytes) : 0.5;
    return round_down(low.batch + (uint32_t)(share * (double)(high.batch - low.batch)));
}

uint32_t memory_fit(const struct memory_fit *fit, size_t there)
{
    struct point high = { (uint32_t)settings_batch(fit->settings), memory_plan_bytes(&fit->plan->memory) };
    struct point low = { 1, bytes_of(fit, 1) };
    if (low.bytes > there)
        return 0;
    for (uint32_t i = 0; i < PLANS_MAX && there - low.bytes > there / 100; i++) {
        const uint32_t batch = batch_between(low, high, there, i < PLANS_MAX / 2 || i % 2 == 0);
        if (batch <= low.batch || batch >= high.batch)
            break;
        const struct point point = { batch, bytes_of(fit, batch) };
        *(point.bytes <= there ? &low : &high) = point;
    }
    return low.batch;
}
