/* Adds up the memory needs, and reports those that are too large, with a batch that would fit. */
#include "tools/lib/run/memory_needs.h"

#include <errno.h>
#include <string.h>

#include "loader/images/image_memory.h"
#include "tools/lib/limits.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define TEXT_BYTES 512u
#define SMALL_BYTES ((size_t)1 << 20)   /* smaller parts are left out of the printed plan */
#define PLANNED_BYTES ((size_t)32 << 20)        /* margin for differences between the plans of two batches */
/* the least bytes for decoding large images, even if little memory is available */
#define IMAGES_LEAST ((size_t)16 << 20)
#define TOWER_BLOCKS 6u         /* large blocks of a tower: weights, gradients, two states, statistics, values */
#define TOWER_TOUCHED_BYTES ((size_t)1 << 20)   /* stacks, generated kernels, small allocations */

/* grows: the memory is proportional to the batch. */
static const struct {
    const char *name;
    bool grows;
} purposes[MEMORY_PURPOSE_COUNT] = {
    [MEMORY_BATCHES] = { "batches", true },
    [MEMORY_LOADER] = { "loader", false },
    [MEMORY_IMAGES] = { "large images", false },
    [MEMORY_SLOTS] = { "slots", true },
    [MEMORY_ARENAS] = { "weights and states", false },
    [MEMORY_VALUES] = { "activations", true },
    [MEMORY_WORKSPACE] = { "workspace", false },
    [MEMORY_WEIGHT_COPIES] = { "copies of weights", false },
    [MEMORY_SNAPSHOTS] = { "snapshots", false },
    [MEMORY_REDUCTION] = { "reduction", false },
    [MEMORY_RESULTS] = { "results", false },
    [MEMORY_TRACE] = { "trace", false },
};

struct memory_share *memory_needs_on(struct memory_needs *memory, uint32_t device)
{
    return memory->device_count > 0 ? &memory->devices[device] : &memory->host;
}

static size_t subtract(size_t bytes, size_t aside)
{
    return bytes == SIZE_MAX ? bytes : bytes > aside ? bytes - aside : 0;
}

static size_t add(size_t a, size_t b)
{
    return a < SIZE_MAX - b ? a + b : SIZE_MAX;
}

void memory_share_add(struct memory_share *share, enum memory_purpose purpose, size_t bytes)
{
    share->bytes[purpose] = add(share->bytes[purpose], bytes);
}

static void add_needs(struct memory_share *device, struct memory_share *host, const struct trainer_needs *needs)
{
    memory_share_add(device, MEMORY_ARENAS, needs->tower.arenas);
    memory_share_add(device, MEMORY_VALUES, needs->tower.backend.values);
    memory_share_add(device, MEMORY_WORKSPACE, needs->tower.backend.workspace);
    memory_share_add(device, MEMORY_WEIGHT_COPIES, needs->tower.backend.weights);
    memory_share_add(device, MEMORY_REDUCTION, needs->exchange);
    memory_share_add(host, MEMORY_WEIGHT_COPIES, needs->tower.initial);
    memory_share_add(host, MEMORY_SNAPSHOTS, needs->snapshots);
    memory_share_add(host, MEMORY_REDUCTION, needs->reduction);
    memory_share_add(host, MEMORY_BATCHES, needs->outputs);
}

void memory_needs_add_tower(struct memory_needs *memory, uint32_t device, const struct trainer_needs *needs)
{
    add_needs(memory_needs_on(memory, device), &memory->host, needs);
    memory->samples += needs->samples;
    memory->aside = add(memory->aside, add(needs->tower.backend.room, TOWER_BLOCKS * HUGE_PAGE_BYTES));
    memory->touched = add(memory->touched, TOWER_TOUCHED_BYTES);
}

static size_t share_bytes(const struct memory_share *share)
{
    size_t bytes = 0;
    for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++)
        bytes = add(bytes, share->bytes[purpose]);
    return bytes;
}

static struct memory_share all_of(const struct memory_needs *memory)
{
    struct memory_share all = memory->host;
    for (uint32_t device = 0; device < memory->device_count; device++)
        for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++)
            memory_share_add(&all, purpose, memory->devices[device].bytes[purpose]);
    return all;
}

size_t memory_needs_bytes(const struct memory_needs *memory)
{
    const struct memory_share all = all_of(memory);
    return share_bytes(&all);
}

/* The parts of at least `least` bytes that are not 0: "batches 1.0 KiB, slots 2.0 MiB". */
struct share_text { char text[TEXT_BYTES]; };

static struct share_text share_text(const struct memory_share *share, size_t kept_bytes, size_t least)
{
    struct share_text text = { "" };
    size_t used = 0;
    for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++) {
        if (share->bytes[purpose] == 0 || share->bytes[purpose] < least)
            continue;
        used += (size_t)snprintf(text.text + used, TEXT_BYTES - used, "%s%s %s", used > 0 ? ", " : "",
                                 purposes[purpose].name, number_bytes(share->bytes[purpose]).text);
        if (purpose == MEMORY_LOADER && kept_bytes > 0)
            used += (size_t)snprintf(text.text + used, TEXT_BYTES - used, " (shards %s)",
                                     number_bytes(kept_bytes).text);
    }
    return text;
}

/* The number of samples that would fit, estimated from the sums for `samples` samples; 0: none. */
static uint32_t fitting(const struct memory_share *share, uint32_t samples, size_t there)
{
    struct backend_needs needs = { .values = 0 };
    for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++) {
        size_t *const part = purposes[purpose].grows ? &needs.values : &needs.weights;
        *part = add(*part, share->bytes[purpose]);
    }
    return needs.values > 0 ? backend_fitting(&needs, samples, there) : 0;
}

/* A memory of limited size. */
struct limit {
    const char *where, *verb;   /* for the message: "pipetrain: memory", "available are" */
    char of[32];
    size_t bytes, margin;
};

/* Write both sizes rounded, or exactly if the rounded ones would look equal. */
static void write_sizes(size_t needed, size_t there, struct number *needed_out, struct number *there_out)
{
    *needed_out = number_bytes(needed);
    *there_out = number_bytes(there);
    if (strcmp(needed_out->text, there_out->text) != 0)
        return;
    snprintf(needed_out->text, sizeof(needed_out->text), "%.28s B", number_grouped(needed).text);
    snprintf(there_out->text, sizeof(there_out->text), "%.28s B", number_grouped(there).text);
}

static size_t numbers_from(const struct net *net, uint32_t first_layer)
{
    size_t numbers = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].is_trained && net->parameters[i].layer >= first_layer)
            numbers += net->parameters[i].count;
    return numbers;
}

/* What as many parts of the dense layers as there are towers would save. */
static size_t saved_by_parts(const struct memory_share *share, const struct settings *settings, const struct net *net)
{
    const uint32_t towers = settings_towers(settings);
    struct unsupported_reason reason;
    struct head head;
    if (settings->model.parts > 0 || settings->sync.mode != SYNC_REPLICATED || head_find(&head, net, towers, &reason) != 0)
        return 0;
    const double divided = (double)numbers_from(net, head.first) / (double)net->trainable_count;
    return (size_t)((double)share->bytes[MEMORY_ARENAS] * divided * (towers - 1) / towers);
}

/* For a message: the settings that can save enough memory, each of them alone. */
static struct share_text other_hints(const struct memory_needs *memory, const struct memory_share *share, size_t excess,
                                     const struct settings *settings, const struct memory_fit *fit)
{
    char parts[64];
    snprintf(parts, sizeof(parts), "model.parts = %u with train.slices = %u", settings_towers(settings),
             settings_towers(settings));
    const int64_t prefetch = settings->input.prefetch_depth, staging = settings->input.staging_depth;
    const struct { size_t saved; const char *text; } hints[] = {
        { share->bytes[MEMORY_BATCHES] / (size_t)prefetch * (size_t)(prefetch - 1), "a smaller input.prefetch_depth" },
        { share->bytes[MEMORY_SLOTS] / (size_t)staging * (size_t)(staging - 1), "a smaller input.staging_depth" },
        { share->bytes[MEMORY_LOADER] > 0 ? memory->kept_bytes : 0,
          settings->input.source == INPUT_CACHED ? "input.source = real with input.keep_shards = 0"
                                                 : "input.keep_shards = 0" },
        { share->bytes[MEMORY_LOADER] > 0 ? memory->window_spare_bytes : 0, "a smaller data.shuffle_window" },
        { settings->input.max_pixels > 0 ? share->bytes[MEMORY_IMAGES] : 0, "a smaller input.max_pixels" },
        { fit != NULL ? saved_by_parts(share, settings, fit->net) : 0, parts },
    };
    struct share_text text = { "" };
    size_t used = 0;
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        if (hints[i].saved >= excess)
            used += (size_t)snprintf(text.text + used, TEXT_BYTES - used, ", or use %s", hints[i].text);
    return text;
}

/* The smallest batch, which has a sample for each slice. */
static uint32_t least_batch(const struct settings *settings)
{
    return settings->train.slices > 0 ? (uint32_t)settings->train.slices : 1;
}

static int add_problem(const struct memory_needs *memory, const struct memory_share *share, const struct limit *limit,
                  const struct settings *settings, const struct memory_fit *fit, struct problems *problems)
{
    const size_t needed = share_bytes(share), there = subtract(limit->bytes, limit->margin);
    const uint32_t summed = settings->ranks * fitting(share, memory->samples, limit->bytes);
    const uint32_t least = least_batch(settings);
    const uint32_t batch = fit != NULL && memory->device_count == 0 ? memory_fit(fit, there) : summed;
    char hint[64];
    snprintf(hint, sizeof(hint), summed >= least ? "a smaller batch may fit" : "no batch fits");
    if (batch >= least)
        snprintf(hint, sizeof(hint), "a batch of %u would fit", batch);
    struct number needs, leaves;
    write_sizes(needed, limit->bytes, &needs, &leaves);
    const struct share_text parts = share_text(share, memory->kept_bytes, 0);
    problems_add(problems, limit->where, "the run needs %s%s (%s), %s %s: %s%s", needs.text, limit->of, parts.text,
                 limit->verb, leaves.text, hint, other_hints(memory, share, needed - limit->bytes, settings, fit).text);
    return -ENOMEM;
}

static struct limit host_limit(const struct settings *settings, const struct memory_there *there)
{
    const uint64_t budget = (uint64_t)settings->input.ram_budget;
    if (budget > 0 && budget < there->host)
        return (struct limit){
            .where = "pipetrain: [input] ram_budget", .verb = "the budget is", .bytes = (size_t)budget };
    return (struct limit){
        .where = "pipetrain: memory",
        .verb = there->host_says != NULL ? there->host_says : "available are",
        .bytes = there->host,
        .margin = there->margin,
    };
}

void memory_host_there(const struct memory_needs *memory, const struct settings *settings,
                       struct memory_there *there_out)
{
    size_t available = SIZE_MAX, total;
    const uint32_t ranks = settings->local_ranks;
    device_host_ops.memory(NULL, &available, &total);
    const struct limits_left limits = limits_left();
    const struct { size_t bytes, margin; const char *says; } rooms[] = {
        { subtract(available / ranks, memory->touched), 0,
          ranks > 1 ? "a rank's share of what is available is" : "available are" },
        { subtract(cgroup_memory_left("") / ranks, memory->touched), 0,
          ranks > 1 ? "a rank's share of what the control group leaves is" : "the control group leaves" },
        { subtract(limits.address_space, memory->aside), PLANNED_BYTES,
          "the limit of the address space (ulimit -v) leaves" },
        { subtract(limits.data, memory->aside), PLANNED_BYTES, "the limit of data (ulimit -d) leaves" },
    };
    there_out->host = SIZE_MAX;
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
        if (rooms[i].bytes < there_out->host) {
            there_out->host = rooms[i].bytes;
            there_out->host_says = rooms[i].says;
            there_out->margin = rooms[i].margin;
        }
}

static uint64_t pixels_of(const struct settings *settings)
{
    return settings->input.max_pixels > 0 ? (uint64_t)settings->input.max_pixels : IMAGE_PIXELS_MAX;
}

void memory_bound_images(const struct settings *settings)
{
    const struct memory_needs memory = { .device_count = 0 };
    struct memory_there there;
    memory_host_there(&memory, settings, &there);
    image_memory_limit((struct image_limits){ pixels_of(settings), host_limit(settings, &there).bytes });
}

void memory_needs_add_images(struct memory_needs *memory, const struct settings *settings)
{
    memory_share_add(&memory->host, MEMORY_IMAGES, image_memory_need(pixels_of(settings)));
}

void memory_needs_fit_images(struct memory_needs *memory, const struct settings *settings,
                             const struct memory_there *there)
{
    size_t *const images = &memory->host.bytes[MEMORY_IMAGES];
    const size_t rest = share_bytes(&memory->host) - *images;
    const struct limit limit = host_limit(settings, there);
    const size_t left = subtract(subtract(limit.bytes, limit.margin), rest);
    const size_t kept = left > IMAGES_LEAST ? left : IMAGES_LEAST;
    if (*images == 0)
        return;
    if (settings->input.max_pixels == 0 && *images > kept)
        *images = kept;
    image_memory_limit((struct image_limits){ pixels_of(settings), *images });
}

int memory_needs_check(const struct memory_needs *memory, const struct settings *settings,
                       const struct memory_there *there, const struct memory_fit *fit, struct problems *problems)
{
    int rc = 0;
    const struct limit host = host_limit(settings, there);
    if (share_bytes(&memory->host) > host.bytes)
        rc = add_problem(memory, &memory->host, &host, settings, fit, problems);
    for (uint32_t device = 0; device < memory->device_count; device++) {
        struct limit limit = { .where = "pipetrain: memory", .verb = "free are", .bytes = there->devices[device] };
        snprintf(limit.of, sizeof(limit.of), " of %s%u", memory->names->ops->kind, memory->names->index[device]);
        if (share_bytes(&memory->devices[device]) > limit.bytes)
            rc = add_problem(memory, &memory->devices[device], &limit, settings, fit, problems);
    }
    return rc;
}

void memory_needs_print_images(const struct memory_needs *memory, const struct settings *settings, FILE *out)
{
    const size_t bytes = memory->host.bytes[MEMORY_IMAGES], all = image_memory_need(pixels_of(settings));
    char limit_text[96] = "";
    if (bytes == 0)
        return;
    if (bytes < all)
        snprintf(limit_text, sizeof(limit_text), ", all that is left: the largest may need %s",
                 number_bytes(all).text);
    wrapped_print(out, "decoding  images of up to %s pixels (input.max_pixels); memory for large ones, all decoders "
                       "together, %s%s", number_grouped(pixels_of(settings)).text, number_bytes(bytes).text,
                  limit_text);
}

void memory_needs_print(const struct memory_needs *memory, const struct settings *settings, FILE *out)
{
    const struct memory_share all = all_of(memory);
    const bool is_short = share_bytes(&all) >= MEMORY_PURPOSE_COUNT * SMALL_BYTES;
    wrapped_print(out, "memory    %s%s: %s%s%s; %s", number_bytes(share_bytes(&all)).text,
                  settings->ranks > 1 ? " in rank 0" : "",
                  share_text(&all, memory->kept_bytes, is_short ? SMALL_BYTES : 0).text,
                  is_short ? " (parts under 1 MiB left out)" : "",
                  memory->device_count > 0 ? " (slots and towers on the devices)" : "",
                  memory->samples > 0 ? "plus the program itself"
                                   : "plus the towers, which --dry-run plans");
}

void memory_needs_print_tower(const struct trainer_needs *needs, uint32_t number, FILE *out)
{
    struct memory_share share = { { 0 } };
    add_needs(&share, &share, needs);
    wrapped_print(out, "%*stower %u: %u samples, %s: %s", (int)WRAPPED_INDENT, "", number, needs->samples,
                  number_bytes(share_bytes(&share)).text, share_text(&share, 0, 0).text);
}

/* ---- the batch that would fit ---- */

#define PLANS_MAX 8u            /* the most plans to try; two or three suffice if memory is linear in the batch */
/* a batch is rounded down to a multiple of a power of two, the largest that is at most batch / ROUNDING */
#define ROUNDING 64u

/* A batch and the bytes that it needs. */
struct point { uint32_t batch; size_t bytes; };

static int find_tower_needs(struct tower_spec *spec, struct tower_needs *needs_out)
{
    struct device *const device = spec->device;
    struct tower *tower = NULL;
    int rc = device->ops->stream_open(device, STREAM_COMPUTE, "compute", &spec->compute);
    if (rc != 0)
        return rc;
    rc = tower_open(&tower, spec);
    if (rc == 0)
        *needs_out = tower_needs(tower);
    tower_close(tower);
    device->ops->stream_close(spec->compute);
    return rc;
}

int memory_needs_tower(struct tower_spec *spec, const struct device_ops *ops, struct tower_needs *needs_out)
{
    const struct device_spec device_spec = { .name = "cpu0" };
    int rc = ops->open(&spec->device, &device_spec);
    if (rc != 0)
        return rc;
    rc = find_tower_needs(spec, needs_out);
    spec->device->ops->close(spec->device);
    return rc;
}

static int find_needs(const struct memory_fit *fit, const struct run_plan *plan, const struct settings *settings,
                      struct trainer_needs *needs_out)
{
    struct tower_spec tower = run_plan_tower(plan, settings, plan->devices.towers.first);
    tower.net = fit->net;
    *needs_out = *fit->needs;
    return memory_needs_tower(&tower, plan->devices.ops, &needs_out->tower);
}

/* The bytes that a batch needs; SIZE_MAX if it cannot be planned. */
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
        memory_needs_add_tower(&plan.memory, d % plan.devices.count, &needs);
    plan.memory.host.bytes[MEMORY_IMAGES] = fit->plan->memory.host.bytes[MEMORY_IMAGES];
    memory_share_add(&plan.memory.host, MEMORY_RESULTS, fit->plan->memory.host.bytes[MEMORY_RESULTS]);
    return rc == 0 ? memory_needs_bytes(&plan.memory) : SIZE_MAX;
}

/* Round a batch: the workspace of convolutions is much larger for some batches, those without a divisor that suits the
 * cache, which round batches usually have. */
static uint32_t round_down(uint32_t batch)
{
    uint32_t unit = 1;
    while (unit * 2 * ROUNDING <= batch)
        unit *= 2;
    return batch / unit * unit;
}

/* A batch between two batches: by linear interpolation, or in the middle where memory is not linear in the batch and
 * interpolation does not help. */
static uint32_t batch_between(struct point low, struct point high, size_t there, bool on_line)
{
    const double share = on_line ? (double)(there - low.bytes) / (double)(high.bytes - low.bytes) : 0.5;
    return round_down(low.batch + (uint32_t)(share * (double)(high.batch - low.batch)));
}

uint32_t memory_fit(const struct memory_fit *fit, size_t there)
{
    struct point high = { (uint32_t)settings_batch(fit->settings), memory_needs_bytes(&fit->plan->memory) };
    const uint32_t least = least_batch(fit->settings);
    struct point low = { least, bytes_of(fit, least) };
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
