/* The memory of plans: how much they need, its allocation, and one run of each plan in it, so that libraries load their
 * kernels before the first step. All plans share one workspace, because only one plan runs at a time, and plans of the
 * same block share a part of the pool of values. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "stage/random.h"

#define PAGE_BYTES ((size_t)2 << 20) /* granularity of a GPU's memory */
#define WORKSPACE_ALIGN ((size_t)256)

/* ---- memory needed ---- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Where the workspace of the side stream begins: after that of the stream. */
static size_t side_offset(const struct backend *backend)
{
    size_t bytes = 0;
    for (const struct plan *plan = backend->plans; plan != NULL; plan = plan->next)
        bytes = larger(bytes, plan->workspace_bytes);
    return (bytes + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
}

void cuda_memory_needs(const struct backend *backend, struct backend_needs *needs_out)
{
    struct backend_needs needs = { .values = backend_pool_bytes(&backend->base) };
    size_t side = 0;
    for (const struct plan *plan = backend->plans; plan != NULL; plan = plan->next) {
        needs.workspace = larger(needs.workspace, plan->workspace_bytes);
        side = larger(side, plan->side_bytes);
    }
    if (side > 0)
        needs.workspace = side_offset(backend) + side;
    if (backend->type != VALUE_FP32)
        needs.weights = backend->arenas->trained.count * value_bytes(backend->type);
    *needs_out = needs;
}

static size_t pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t needs_pages(const struct backend_needs *needs)
{
    return pages(needs->values) + pages(needs->workspace) + pages(needs->weights);
}

/* ---- memory available ---- */

struct size_text {
    char text[24];
};

static struct size_text size_text(size_t bytes)
{
    struct size_text size;
    const bool is_large = bytes >= (size_t)1 << 30;
    snprintf(size.text, sizeof(size.text), "%.1f %s", (double)bytes / (is_large ? 1 << 30 : 1 << 20),
             is_large ? "GiB" : "MiB");
    return size;
}

static uint32_t device_towers(const struct backend *backend)
{
    return backend->spec.device_towers > 0 ? backend->spec.device_towers : 1;
}

/* The most samples that are computed in a block. Plans without an image are for samples of other towers, too. */
static uint32_t largest_count(const struct backend *backend, uint32_t block)
{
    uint32_t count = 0;
    for (const struct plan *plan = backend->plans; plan != NULL; plan = plan->next)
        if (plan->base.block == block && cuda_plan_has_image(plan) && plan->base.count > count)
            count = plan->base.count;
    return count;
}

/* The most samples of a tower whose values are in memory at once. */
static uint32_t tower_samples(const struct backend *backend)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < backend->base.block_count; block++)
        count += largest_count(backend, block);
    return count;
}

/* Other towers on the device may not have allocated their memory yet, so the hint assumes an equal share for each
 * tower. */
static void report_shortage(const struct backend *backend, const struct backend_needs *needs, size_t available)
{
    const struct backend_needs most = {
        .values = needs->values, .workspace = pages(needs->workspace) + PAGE_BYTES, .weights = pages(needs->weights)
    };
    const uint32_t count = tower_samples(backend);
    const uint32_t fitting = backend_fitting(&most, count, available / device_towers(backend));
    char hint[64] = "";
    if (fitting > 0)
        snprintf(hint, sizeof(hint), ": %u samples a tower would fit", fitting);
    log_message(LOG_ERROR,
                "%s: a tower of %u samples needs %s (activations %s, workspace %s, weights %s) and %s are free%s",
                backend->name, count, size_text(needs->values + needs->workspace + needs->weights).text,
                size_text(needs->values).text, size_text(needs->workspace).text, size_text(needs->weights).text,
                size_text(available).text, hint);
}

static int check_memory(const struct backend *backend, const struct backend_needs *needs)
{
    struct device *const device = backend->spec.device;
    const struct backend_needs current = {
        .values = backend->pool_bytes, .workspace = backend->workspace_bytes, .weights = backend->shadow_bytes
    };
    size_t available, total;
    const int rc = device->ops->memory(device, &available, &total);
    if (rc != 0)
        return rc;
    available += needs_pages(&current);
    if (needs_pages(needs) <= available)
        return 0;
    report_shortage(backend, needs, available);
    return -ENOMEM;
}

/* ---- allocating ---- */

/* Frees the old memory before it allocates the new, because the contents are not needed and both might not fit. The
 * caller has waited for the steps that used the memory. */
static int resize(struct backend *backend, size_t bytes, void **memory, size_t *bytes_of)
{
    struct device *const device = backend->spec.device;
    if (bytes == *bytes_of)
        return 0;
    device->ops->free(device, *memory);
    *memory = NULL;
    *bytes_of = 0;
    if (bytes == 0)
        return 0;
    const int rc = device->ops->alloc(device, bytes, memory);
    if (rc == 0)
        *bytes_of = bytes;
    return rc;
}

/* Fills the shadow with the current weights. */
static int fill_shadow(struct backend *backend)
{
    if (backend->shadow == NULL)
        return 0;
    return CUDA_CALL(backend->name, kernel_narrow(backend->stream, backend->type, backend->arenas->trained.count,
                                                  backend->memory.weights, backend->shadow));
}

static int allocate_memory(struct backend *backend, const struct backend_needs *needs)
{
    int rc = cuda_store_wait(backend);
    if (rc == 0)
        rc = resize(backend, needs->values, &backend->base.pool, &backend->pool_bytes);
    if (rc == 0)
        rc = resize(backend, needs->workspace, &backend->workspace, &backend->workspace_bytes);
    if (rc == 0)
        rc = resize(backend, needs->weights, &backend->shadow, &backend->shadow_bytes);
    return rc == 0 ? fill_shadow(backend) : rc;
}

static void mark_not_ready(struct backend *backend)
{
    for (struct plan *plan = backend->plans; plan != NULL; plan = plan->next)
        plan->is_ready = false;
}

static int grow_memory(struct backend *backend)
{
    struct backend_needs needs;
    cuda_memory_needs(backend, &needs);
    backend->side.workspace_at = side_offset(backend);
    if (needs.values == backend->pool_bytes && needs.workspace == backend->workspace_bytes &&
        needs.weights == backend->shadow_bytes)
        return 0;
    int rc = check_memory(backend, &needs);
    if (rc == 0)
        rc = allocate_memory(backend, &needs);
    if (rc == 0)
        mark_not_ready(backend);
    return rc;
}

/* ---- the first run ---- */

/* Temporary memory, all zeros, that replaces a slot, the statistics and memory outside of the plan in the first run. */
struct warm_run {
    uint8_t *pixels;            /* NULL: the plan does not read the image */
    int32_t *label;
    float *statistics;
    struct outside outside;
    void *memory;
};

/* Bytes of the pieces of the memory. */
struct warm_bytes { size_t pixels, label, statistics, outside, labels, stats; };

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The numbers of a sample that the plan of a share sends, or receives, outside. */
static size_t outside_numbers(const struct plan *plan)
{
    size_t numbers = 0;
    for (uint32_t i = plan->base.range.first; i < plan->base.range.end; i++)
        if (plan_layer(plan, i)->kind == LAYER_SEND || plan_layer(plan, i)->kind == LAYER_RECEIVE)
            numbers = larger(numbers, shape_count(plan_layer(plan, i)->out));
    return numbers;
}

static struct warm_bytes warm_bytes_of(const struct plan *plan)
{
    const size_t rows = plan_net(plan)->share != NULL ? plan->base.count : 0;
    return (struct warm_bytes){
        .pixels = cuda_plan_has_image(plan) ? rounded(shape_count(plan_net(plan)->input)) : 0,
        .label = rounded(sizeof(int32_t)),
        .statistics = rounded(plan->base.backend->arenas->statistics.count * sizeof(float)),
        .outside = rounded(rows * outside_numbers(plan) * sizeof(float)),
        .labels = rounded(rows * sizeof(struct mixed_label)),
        .stats = rounded(rows * sizeof(struct part_stats)),
    };
}

/* What is received, its gradient and what is sent share memory, as nobody reads the result. Statistics are those of one
 * part. */
static void place_warm_run(const struct warm_bytes *bytes, char *memory, struct warm_run *warm_run)
{
    char *const label = memory + bytes->pixels, *const statistics = label + bytes->label;
    char *const outside = statistics + bytes->statistics, *const labels = outside + bytes->outside;
    float *const numbers = (float *)(void *)outside;
    *warm_run = (struct warm_run){
        .pixels = bytes->pixels > 0 ? (uint8_t *)memory : NULL,
        .label = (int32_t *)(void *)label,
        .statistics = (float *)(void *)statistics,
        .outside = {
            .received = numbers, .received_gradient = numbers, .received_parts = 1, .sent = numbers,
            .labels = (struct mixed_label *)(void *)labels,
            .stats = (struct part_stats *)(void *)(labels + bytes->labels), .stat_parts = 1,
        },
        .memory = memory,
    };
}

static int open_warm_run(const struct plan *plan, struct warm_run *warm_run)
{
    const struct backend *const backend = plan->base.backend;
    struct device *const device = backend->spec.device;
    const struct warm_bytes bytes = warm_bytes_of(plan);
    const size_t all = bytes.pixels + bytes.label + bytes.statistics + bytes.outside + bytes.labels + bytes.stats;
    void *memory;
    const int rc = device->ops->alloc(device, all, &memory);
    if (rc != 0)
        return rc;
    place_warm_run(&bytes, memory, warm_run);
    return 0;
}

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg;
    (void)layer;
}

static int clear_gradients(struct backend *backend)
{
    return CUDA_CALL(backend->name, cudaMemsetAsync(backend->memory.gradients, 0,
                                                    backend->arenas->trained.count * sizeof(float), backend->stream));
}

/* Only the first sample is converted from pixels; the values of the others are zero, as all memory of the plan is. */
static int queue_run(struct plan *plan, const struct warm_run *warm_run)
{
    struct backend *const backend = plan->base.backend;
    const struct backend_input input = { .pixels = warm_run->pixels,
                                         .labels = warm_run->pixels != NULL ? warm_run->label : NULL };
    int rc = CUDA_CALL(backend->name, cudaMemsetAsync(plan_block(&plan->base), 0, plan->base.values.bytes,
                                                      backend->stream));
    if (rc == 0)
        rc = cuda_input(plan, 1, &input);
    if (rc == 0)
        rc = cuda_plan_forward(plan);
    if (rc == 0 && plan->base.training)
        rc = cuda_plan_backward(plan, ignore_layer, NULL);
    if (rc == 0 && plan->base.training)
        rc = clear_gradients(backend);
    return rc;
}

/* Runs the plan once, on temporary pixels, labels, statistics and memory outside; clears the gradients afterwards. */
static int run_once(struct plan *plan)
{
    struct backend *const backend = plan->base.backend;
    float *const statistics = backend->memory.statistics;
    const struct outside outside = plan->base.outside;
    struct warm_run warm_run;
    int rc = open_warm_run(plan, &warm_run);
    if (rc != 0)
        return rc;
    plan->base.poisoned = backend->spec.poison ? plan_block(&plan->base) : NULL;
    backend->memory.statistics = warm_run.statistics;
    plan->base.outside = warm_run.outside;
    rc = queue_run(plan, &warm_run);
    backend->memory.statistics = statistics;
    plan->base.outside = outside;
    const int waited = cuda_store_wait(backend); /* also for work queued before a failure */
    backend->spec.device->ops->free(backend->spec.device, warm_run.memory);
    plan->is_ready = rc == 0 && waited == 0;
    return rc != 0 ? rc : waited;
}

int cuda_memory_allocate(struct backend *backend)
{
    assert(backend->memory.weights != NULL);
    assert(backend->ends == NULL); /* recorded steps contain addresses */
    int rc = cuda_enter(backend->spec.device);
    if (rc == 0)
        rc = grow_memory(backend);
    for (struct plan *plan = backend->plans; plan != NULL && rc == 0; plan = plan->next)
        if (!plan->is_ready)
            rc = run_once(plan);
    return rc;
}

/* ---- measuring convolutions and dense layers while a plan is made ---- */

#define SAMPLE_WORDS 32768u

/* GPUs compute faster with zeros, which need less power, and engines differ in how much faster. So plans are timed on
 * 16-bit words that are small numbers of either sign with random digits in every type: 0.5 to 1 as fp16, 3e-5 to 8e-3
 * as bf16 and fp32. */
static void draw_numbers(uint16_t words[SAMPLE_WORDS])
{
    const struct random_key key = random_key(0, RANDOM_DRAW, 0);
    for (uint32_t i = 0; i < SAMPLE_WORDS; i += 4) {
        uint32_t drawn[4] = { i, 0, 0, 0 };
        random_mix(key, drawn);
        for (uint32_t k = 0; k < 4; k++)
            words[i + k] = (uint16_t)(0x3800 | (drawn[k] & 0x83ff));
    }
}

/* Fills the scratch memory with copies of the numbers. */
static int fill_scratch(struct backend *backend, char *scratch, size_t bytes)
{
    const size_t drawn = SAMPLE_WORDS * sizeof(uint16_t);
    size_t filled = bytes < drawn ? bytes : drawn;
    uint16_t *const words = malloc(drawn);
    if (words == NULL)
        return -ENOMEM;
    draw_numbers(words);
    int rc = CUDA_CALL(backend->name, cudaMemcpyAsync(scratch, words, filled, cudaMemcpyHostToDevice, backend->stream));
    while (rc == 0 && filled < bytes) {
        const size_t more = bytes - filled < filled ? bytes - filled : filled;
        rc = CUDA_CALL(backend->name, cudaMemcpyAsync(scratch + filled, scratch, more, cudaMemcpyDeviceToDevice,
                                                      backend->stream));
        filled += more;
    }
    const int waited = cuda_store_wait(backend);
    free(words);
    return rc != 0 ? rc : waited;
}

/* The bytes of workspace that any convolution or dense layer may want. */
static size_t scratch_workspace(const struct plan *plan)
{
    return larger(plan->planner.workspace_max, plan->base.backend->dense != NULL ? DENSE_WORKSPACE : 0);
}

static int allocate_scratch(struct plan *plan, size_t scratch)
{
    struct device *const device = plan->base.backend->spec.device;
    struct conv_planner *const planner = &plan->planner;
    int rc = device->ops->alloc(device, scratch, &planner->scratch);
    if (rc == 0)
        rc = device->ops->alloc(device, scratch_workspace(plan), &planner->workspace);
    return rc;
}

/* If the scratch memory does not fit, nothing is measured and the heuristics choose, because the plan itself may need
 * less memory. */
static int open_scratch(struct plan *plan)
{
    const struct backend *const backend = plan->base.backend;
    struct device *const device = backend->spec.device;
    plan->is_measuring = true;
    const size_t scratch = cuda_weighted_scratch(plan), wanted = pages(scratch) + pages(scratch_workspace(plan));
    size_t available, total;
    const int rc = device->ops->memory(device, &available, &total);
    if (rc != 0 || wanted <= available / device_towers(backend))
        return rc != 0 ? rc : allocate_scratch(plan, scratch);
    log_message(LOG_RUN, "%s: plans for %u samples are not measured: that takes %s and %s are free",
                backend->name, plan->base.count, size_text(wanted).text, size_text(available).text);
    return 0;
}

/* Fills the scratch memory for every shape, because results of earlier shapes are stored where the next shape has its
 * inputs. */
int cuda_measuring_begin(struct plan *plan, size_t bytes)
{
    struct backend *const backend = plan->base.backend;
    const int rc = backend->spec.time_plans && !plan->is_measuring ? open_scratch(plan) : 0;
    return rc != 0 || plan->planner.scratch == NULL
               ? rc : fill_scratch(backend, plan->planner.scratch, bytes);
}

void cuda_measuring_end(struct plan *plan)
{
    struct device *const device = plan->base.backend->spec.device;
    struct conv_planner *const planner = &plan->planner;
    device->ops->free(device, planner->workspace);
    device->ops->free(device, planner->scratch);
    planner->scratch = planner->workspace = NULL;
}
