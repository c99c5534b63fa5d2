/* Computes the plan from the settings, and prints it. */
#include "tools/lib/run/run_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/order.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/log.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/recipes.h"
#include "tools/lib/config/training.h"
#include "tools/lib/limits.h"
#include "tools/lib/run/class_weights.h"
#include "tools/lib/run/environment.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/run/run_trace.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

/* Records of an epoch of synthetic input: as many as in MNIST. */
#define SYNTHETIC_RECORDS 60000u
#define BUCKETS_LISTED 12u      /* the most sizes in the line "buckets" */
#define LINE_BYTES 1024u
#define WINDOW_BYTES (INT64_C(128) << 20)
#define ROUNDED_BYTES ((size_t)4 << 20)         /* which malloc may allocate in advance */
#define TOUCHED_BYTES ((size_t)3 << 20) /* stacks, small allocations, and memory of libraries */

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    const int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t run_plan_cores(const struct settings *settings)
{
    const uint32_t share = usable_cores() / settings->core_ranks;
    return cgroup_cores(cgroup_cpu("").cpus / settings->quota_ranks, share);
}

uint32_t run_plan_cpu(const struct settings *settings, uint32_t n)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 0;
    n = (settings->core_rank * run_plan_cores(settings) + n) % (uint32_t)CPU_COUNT(&set);
    uint32_t cpu = 0;
    while (!CPU_ISSET(cpu, &set) || n-- > 0)
        cpu++;
    return cpu;
}

/* Are samples mixed with each other? Not synthetic ones, nor in a run that only evaluates. */
static bool is_mixed(const struct run_plan *plan, const struct settings *settings)
{
    const bool is_on = settings->augment.mixup > 0 || settings->augment.cutmix > 0;
    return is_on && plan->only_evaluated == 0 && settings->input.source != INPUT_SYNTHETIC;
}

uint32_t run_plan_parts(const struct run_plan *plan, const struct settings *settings)
{
    return plan->only_evaluated == 0 && plan->devices.backend->computes ? (uint32_t)settings->model.parts : 0;
}

bool run_plan_parts_gain(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                         struct parts_gain *gain_out)
{
    const struct schedule *const schedule = &plan->schedule;
    const uint32_t parts = run_plan_parts(plan, settings);
    if (parts == 0)
        return false;
    const struct parts_step step = {
        .parts = parts, .towers = schedule->towers,
        .rows = schedule->slices * batch_part_find(schedule->batch, schedule->pairs, schedule->slices, 0).count,
    };
    return parts_gain_find(gain_out, net, &step);
}

bool run_plan_loads(const struct run_plan *plan, const struct settings *settings)
{
    return settings->input.source != INPUT_SYNTHETIC && !plan->is_fed;
}

/* Are records trained on in an order that may have lanes? */
static bool has_lanes(const struct run_plan *plan, const struct settings *settings)
{
    return plan->only_evaluated == 0 && settings->data.shuffle == SHUFFLE_BLOCK && run_plan_loads(plan, settings);
}

static uint64_t train_records(const struct dataset *const datasets[PHASE_COUNT])
{
    return datasets[PHASE_TRAIN] != NULL ? datasets[PHASE_TRAIN]->record_count : SYNTHETIC_RECORDS;
}

void run_plan_fit_epochs(struct settings *settings, const struct dataset *const datasets[PHASE_COUNT])
{
    const struct option_row *const epochs = option_find(SECTION_TRAIN, "epochs");
    const struct schedule schedule = { .records[PHASE_TRAIN] = train_records(datasets),
                                       .batch = (uint32_t)settings_global_batch(settings),
                                       .drop_last = settings->data.last_batch == LAST_BATCH_DROP };
    const int64_t per_epoch = (int64_t)schedule_steps_per_epoch(&schedule);
    if (settings->train.steps == 0 || per_epoch == 0 || settings->origins[option_index(epochs)].origin > ORIGIN_MODEL)
        return;
    const int64_t needed = (settings->train.steps - 1) / per_epoch + 1;
    settings->train.epochs = needed < epochs->most ? needed : epochs->most;
}

static void init_schedule(struct run_plan *plan, const struct settings *settings,
                          const struct dataset *const datasets[PHASE_COUNT])
{
    struct schedule *const schedule = &plan->schedule;
    schedule->batch = (uint32_t)settings_global_batch(settings);
    schedule->towers = settings_towers(settings);
    schedule->here = plan->devices.towers;
    schedule->epochs = (uint32_t)settings->train.epochs;
    schedule->steps = (uint64_t)settings->train.steps;
    schedule->drop_last = settings->data.last_batch == LAST_BATCH_DROP;
    schedule->pairs = is_mixed(plan, settings);
    schedule->lanes = has_lanes(plan, settings) ? (uint32_t)settings->data.lanes : 0;
    schedule->slices = plan->only_evaluated > 0 ? 0 : (uint32_t)settings->train.slices;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        schedule->records[phase] = datasets[phase] != NULL ? datasets[phase]->record_count : 0;
    schedule->records[PHASE_TRAIN] = train_records(datasets);
    if (plan->only_evaluated == 0)
        return;
    schedule->records[PHASE_TRAIN] = 0;
    schedule->records[PHASE_EVALUATE] = plan->only_evaluated;
}

/* With train.accumulate a microbatch is a tower's share of train.batch, rounded up to an even number where samples are
 * mixed in pairs. */
static void init_microbatch(struct run_plan *plan, const struct settings *settings)
{
    const uint64_t batch = (uint64_t)settings_batch(settings), towers = plan->schedule.towers;
    const uint64_t share = (batch + towers - 1) / towers, odd = plan->schedule.pairs ? share % 2 : 0;
    plan->microbatch_max = settings->train.accumulate > 1 ? (uint32_t)(share + odd) : 0;
}

static void init_optimizer(struct run_plan *plan, const struct train_settings *train)
{
    plan->optimizer = training_optimizer(train);
    plan->learning_rate = training_rate(train, &plan->schedule);
}

/* Set the size of buckets; without a reduction there is a single bucket. */
static int init_buckets(struct run_plan *plan, int64_t bucket, const struct net *net, struct problems *problems)
{
    const size_t all = net->trainable_count * sizeof(float);
    /* 0 stands for BUCKET_AUTO */
    plan->bucket_bytes = plan->devices.reduce == &reduce_none_ops ? SIZE_MAX : (size_t)bucket;
    if ((uint64_t)bucket <= all)
        return 0;
    problems_add(problems, "[sync] bucket",
                 "%s is more than all gradients of the network, %s: use auto, or at most that",
                 number_bytes((uint64_t)bucket).text, number_bytes(all).text);
    return -EINVAL;
}

static uint64_t corrupt_limit(double max_corrupt, uint64_t records)
{
    return (uint64_t)(max_corrupt < 1 ? ceil(max_corrupt * (double)records) : max_corrupt);
}

uint32_t run_plan_threads_wanted(const struct settings *settings, uint32_t towers)
{
    const uint32_t share = run_plan_cores(settings) / towers;
    if (settings->devices.threads_per_tower > 0)
        return (uint32_t)settings->devices.threads_per_tower;
    return share > 0 ? share : 1;
}

uint32_t run_plan_threads(const struct settings *settings, uint32_t towers)
{
    return environment_threads(towers, run_plan_threads_wanted(settings, towers));
}

uint32_t run_plan_decoders(const struct settings *settings)
{
    const uint32_t cores = run_plan_cores(settings);
    if (settings->input.decode_threads > 0)
        return (uint32_t)settings->input.decode_threads;
    return cores > 4 ? cores / 2 : 2;
}

bool run_plan_has_teams(const struct settings *settings)
{
    struct run_devices devices;
    struct problems problems;
    problems_init(&problems);
    const int rc = run_devices_init(&devices, settings, &problems);
    problems_release(&problems);
    return rc == 0 && devices.backend->has_teams && run_plan_threads(settings, devices.towers.count) > 1;
}

static void init_threads(struct run_plan *plan, const struct settings *settings)
{
    plan->cores = run_plan_cores(settings);
    plan->threads_wanted = run_plan_threads_wanted(settings, plan->devices.towers.count);
    plan->threads_per_tower = run_plan_threads(settings, plan->devices.towers.count);
    plan->read_threads = settings->input.read_threads > 0 ? (uint32_t)settings->input.read_threads : 1;
    plan->decode_threads = run_plan_decoders(settings);
}

static int check_schedule(const struct run_plan *plan, struct problems *problems)
{
    const struct schedule *const schedule = &plan->schedule;
    if (plan->only_evaluated > 0)
        return 0;
    if (schedule->records[PHASE_TRAIN] == 0)
        problems_add(problems, "[data] train", "the training set has no records");
    else if (schedule_steps_per_epoch(schedule) == 0)
        problems_add(problems, "[train] batch",
                     "a batch of %u is larger than the training set of %llu records, which last_batch = drop drops: "
                     "use a smaller batch or last_batch = keep",
                     schedule->batch, (unsigned long long)schedule->records[PHASE_TRAIN]);
    else if (schedule->lanes > 1 && schedule->records[PHASE_TRAIN] < schedule->lanes)
        problems_add(problems, "[data] lanes", "%u lanes are more than the %llu records of the training set: use at "
                     "most that (--set data.lanes=%llu)", schedule->lanes,
                     (unsigned long long)schedule->records[PHASE_TRAIN],
                     (unsigned long long)schedule->records[PHASE_TRAIN]);
    return problems->count == 0 ? 0 : -EINVAL;
}

/* Address space for threads that are not started yet, alignment of batches to huge pages, and memory that malloc
 * allocates in advance. The thread of each tower already runs; its feeder does not, nor, on the host, a thread for its
 * copies. */
static size_t address_space_aside(const struct run_plan *plan, const struct settings *settings)
{
    const size_t towers = plan->devices.towers.count;
    const struct input_settings *const input = &settings->input;
    const bool is_loaded = input->source != INPUT_SYNTHETIC;
    const size_t feeding = plan->devices.ops->host_memory ? 2 * towers : towers;
    const size_t threads = feeding + (is_loaded ? (size_t)plan->read_threads + plan->decode_threads : 0);
    const size_t depth = (size_t)input->staging_depth + (is_loaded ? (size_t)input->prefetch_depth : 0);
    const size_t blocks = plan->layout.block_bytes >= HUGE_PAGE_BYTES ? towers * depth : 0;
    return threads * limits_thread_bytes() + blocks * HUGE_PAGE_BYTES + ROUNDED_BYTES;
}

/* If records are not in memory, use two readers: one reads while the other one waits for the disk. */
static void choose_readers(struct run_plan *plan, const struct settings *settings,
                           const struct dataset *const datasets[PHASE_COUNT])
{
    const struct loader_spec spec = run_plan_loader(plan, settings, datasets);
    if (settings->input.read_threads == 0 && loader_memory(&spec).is_read)
        plan->read_threads = 2;
}

/* Set the memory needs that do not depend on the towers. */
static int init_memory(struct run_plan *plan, const struct settings *settings,
                       const struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    const struct run_devices *const devices = &plan->devices;
    struct memory_needs *const memory = &plan->memory;
    *memory = (struct memory_needs){ .device_count = devices->ops->host_memory ? 0 : devices->count, .names = devices };
    for (uint32_t d = 0; d < devices->towers.count; d++)
        memory_share_add(memory_needs_on(memory, d % devices->count), MEMORY_SLOTS,
                         (size_t)settings->input.staging_depth * plan->layout.block_bytes);
    memory->aside = address_space_aside(plan, settings);
    memory->touched = TOUCHED_BYTES;
    memory_share_add(&memory->host, MEMORY_TRACE, run_trace_bytes(settings, plan));
    if (settings->input.source == INPUT_SYNTHETIC)
        return 0;
    memory_share_add(&memory->host, MEMORY_BATCHES,
                     devices->towers.count * (size_t)settings->input.prefetch_depth * plan->layout.block_bytes);
    if (plan->is_fed) {
        memory_needs_add_images(memory, settings);
        return 0;
    }
    const struct loader_spec spec = run_plan_loader(plan, settings, datasets);
    const struct loader_memory loader = loader_memory(&spec);
    memory_share_add(&memory->host, MEMORY_LOADER, loader.bytes);
    if (loader.takes_large)
        memory_needs_add_images(memory, settings);
    memory->kept_bytes = loader.kept_bytes;
    memory->window_spare_bytes = loader.window_spare_bytes;
    if (loader.bytes != SIZE_MAX)
        return 0;
    problems_add(problems, "[input]", "the loader's memory does not fit into the address space");
    return -EINVAL;
}

/* Can the backend compute the network? Other reasons were checked when it was chosen. */
static int check_net(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                     struct problems *problems)
{
    const struct backend_spec spec = { .net = net, .layout = settings->devices.layout,
                                       .precision = settings->devices.precision,
                                       .convolution = settings->devices.convolution };
    struct unsupported_reason reason;
    if (plan->devices.backend->supports(&spec, &reason) == 0)
        return 0;
    problems_add(problems, "[model]", "%s", reason.why);
    return -EINVAL;
}

/* Can the backend fuse statistics, in a run that trains? Its precision was checked when it was chosen. */
static int check_statistics(const struct run_plan *plan, const struct settings *settings, struct problems *problems)
{
    const struct backend_spec spec = { .precision = settings->devices.precision,
                                       .batch_statistics = settings->devices.batch_statistics };
    struct unsupported_reason reason;
    if (plan->only_evaluated > 0 || plan->devices.backend->supports(&spec, &reason) == 0)
        return 0;
    problems_add(problems, "[devices] batch_statistics", "%s", reason.why);
    return -EINVAL;
}

int run_plan_init(struct run_plan *plan, const struct settings *settings, const struct net *net,
                  const struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    init_schedule(plan, settings, datasets);
    init_microbatch(plan, settings);
    init_threads(plan, settings);
    init_optimizer(plan, &settings->train);
    plan->augment = pixels_augment(settings, net);
    const int bucket_rc = init_buckets(plan, settings->sync.bucket, net, problems);
    const int net_rc = check_net(plan, settings, net, problems);
    const int statistics_rc = check_statistics(plan, settings, problems);
    if (check_schedule(plan, problems) != 0 || bucket_rc != 0 || net_rc != 0 || statistics_rc != 0)
        return -EINVAL;
    const uint64_t records = plan->schedule.records[PHASE_TRAIN] + plan->schedule.records[PHASE_EVALUATE];
    plan->corrupt_max = corrupt_limit(settings->data.max_corrupt, records);
    const struct shape image = net->input, train = run_plan_train_net(plan, net)->input;
    int rc = batch_layout_init(&plan->layout, image.height, image.width, image.channels,
                               schedule_local_max(&plan->schedule));
    if (rc == 0)
        rc = batch_layout_resize_training(&plan->layout, train.height, train.width);
    if (rc == 0 && plan->schedule.pairs)
        rc = batch_layout_add_mixes(&plan->layout);
    if (rc != 0) {
        problems_add(problems, "[train] batch", "%u images do not fit into the address space", plan->schedule.batch);
        return -EINVAL;
    }
    if (run_plan_loads(plan, settings))
        choose_readers(plan, settings, datasets);
    return init_memory(plan, settings, datasets, problems);
}

/* Bytes of shards to keep in memory: every rank of a host keeps its own copy, in a share of the limit. */
static size_t keep_bytes(const struct settings *settings)
{
    const struct input_settings *const input = &settings->input;
    const int64_t kept = input->keep_shards / settings->local_ranks;
    if (input->source == INPUT_CACHED)
        return LOADER_KEEP_ALL;
    return kept > 0 ? (size_t)kept : LOADER_KEEP_NONE;
}

/* Bytes of a shuffle window. Two of them, the current and the next one, are in memory: together at most half of
 * input.ram_budget. */
static size_t window_bytes(const struct settings *settings)
{
    const int64_t window = settings->data.shuffle_window, share = settings->input.ram_budget / 4;
    if (window > 0)
        return (size_t)window;
    return share > 0 && share < WINDOW_BYTES ? (size_t)share : WINDOW_BYTES;
}

bool run_plan_uses_cores(const struct run_plan *plan)
{
    return plan->devices.ops->host_memory && plan->devices.backend->computes;
}

struct loader_spec run_plan_loader(const struct run_plan *plan, const struct settings *settings,
                                   const struct dataset *const datasets[PHASE_COUNT])
{
    return (struct loader_spec){
        .datasets = { datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE] },
        .schedule = &plan->schedule,
        .layout = &plan->layout,
        .shuffle = plan->only_evaluated > 0 ? SHUFFLE_NONE : settings->data.shuffle,
        .classes = plan->only_evaluated == 0 && plan->classes.count > 0 ? &plan->classes : NULL,
        .block_bytes = (size_t)settings->input.read_block,
        .window_bytes = window_bytes(settings),
        .seed = (uint64_t)settings->run.seed,
        .augment = &plan->augment,
        .read_threads = plan->read_threads,
        .decode_threads = plan->decode_threads,
        .gives_way = run_plan_uses_cores(plan),
        .chunk_records = (uint32_t)settings->input.chunk,
        .keep_bytes = keep_bytes(settings),
        .skip_corrupt = settings->data.on_corrupt == ON_CORRUPT_SKIP,
        .corrupt_max = plan->corrupt_max,
    };
}

static void print_blocks(const struct order_shape *shape, uint64_t seed, FILE *out)
{
    char lanes[64] = "";
    if (order_lanes(shape) > 1)
        snprintf(lanes, sizeof(lanes), " in %s lanes", number_grouped(order_lanes(shape)).text);
    wrapped_print(out, "order     %s blocks of %s records%s, windows of %s; mixing %.2f (full shuffle: 1)",
                  number_grouped(order_shape_blocks(shape)).text, number_grouped(shape->block_records).text, lanes,
                  number_grouped(shape->window_blocks).text, order_mixing(shape, seed));
}

/* Print how well a block shuffle mixes, and check the labels of the order. For a full shuffle labels are checked only
 * if random access is fast, so not in compressed shards. */
static void print_order(const struct run_plan *plan, const struct settings *settings,
                        const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    if (plan->classes.count > 0)
        wrapped_print(out, "order     balanced: each of %" PRIu32 " classes about %s times an epoch",
                      plan->classes.count,
                      number_grouped(plan->schedule.records[PHASE_TRAIN] / plan->classes.count).text);
    if (settings->input.source == INPUT_SYNTHETIC ||
        (settings->data.shuffle == SHUFFLE_FULL && !dataset_is_plain(datasets[PHASE_TRAIN])))
        return;
    const struct loader_spec spec = run_plan_loader(plan, settings, datasets);
    const struct order_shape shape = loader_order(&spec);
    if (shape.shuffle == SHUFFLE_BLOCK)
        print_blocks(&shape, spec.seed, out);
    if (settings->rank == 0)
        run_data_warn(datasets[PHASE_TRAIN], &shape, spec.seed);
}

struct backend_text run_plan_backend(const struct run_plan *plan)
{
    const struct backend_ops *const backend = plan->devices.backend;
    const struct environment_text limit = environment_of_instructions();
    struct backend_text text;
    if (backend->instructions == NULL)
        snprintf(text.text, sizeof(text.text), "%s", backend->name);
    else
        snprintf(text.text, sizeof(text.text), "%s with %s%s%s%s", backend->name,
                 instructions_name(backend->instructions()), *limit.text != '\0' ? " (" : "", limit.text,
                 *limit.text != '\0' ? ")" : "");
    return text;
}

static void print_devices(const struct run_plan *plan, const struct settings *settings, FILE *out)
{
    const struct run_devices *const devices = &plan->devices;
    char line[LINE_BYTES];
    struct text text;
    text_init(&text, line, sizeof(line));
    text_add(&text, "devices   %s", devices->ops->kind);
    if (!devices->ops->host_memory)
        for (uint32_t i = 0; i < devices->count; i++)
            text_add(&text, "%s%u", i == 0 ? " " : ", ", devices->index[i]);
    if (settings->ranks > 1 && !devices->ops->host_memory)
        text_add(&text, " in rank 0");
    if (devices->idle > 0)
        text_add(&text, " (%u more: devices.towers = %u uses all)", devices->idle, devices->count + devices->idle);
    if (run_plan_uses_cores(plan))
        text_add(&text, ", %s", run_plan_backend(plan).text);
    if (devices->backend->computes)
        text_add(&text, ", %s", precision_name(settings->devices.precision));
    if (devices->note[0] != '\0')
        text_add(&text, " (no CUDA: %s)", devices->note);
    wrapped_write(out, line);
}

static void warn_of_threads(const struct run_plan *plan)
{
    if (run_plan_uses_cores(plan) && plan->threads_per_tower > plan->cores)
        log_message(LOG_RUN, "devices.threads_per_tower: %u threads of a tower share %u core%s and wait for each "
                    "other: use at most %u", plan->threads_per_tower, plan->cores,
                    plan->cores == 1 ? "" : "s", plan->cores);
}

/* Warn of towers and slices without samples. Samples that are mixed are distributed in pairs. */
static void warn_of_towers(const struct run_plan *plan, const struct settings *settings)
{
    const struct schedule *const schedule = &plan->schedule;
    const uint64_t records = schedule->records[PHASE_TRAIN];
    const uint32_t batch = schedule->batch < records ? schedule->batch : (uint32_t)records;
    const uint32_t most = schedule->pairs ? (batch + 1) / 2 : batch;
    const uint32_t towers = plan->devices.towers.count;
    if (schedule->slices > most)
        log_message(LOG_RUN, "train.slices: a step has only %u sample%s for %u slices, so some are always empty: use "
                    "at most %u", batch, batch == 1 ? "" : "s", schedule->slices, most);
    else if (schedule->towers > most)
        log_message(LOG_RUN, "devices.towers: a step has only %u sample%s for %u towers, so some never get any: use at "
                    "most %u", batch, batch == 1 ? "" : "s", schedule->towers, most);
    if (run_plan_uses_cores(plan) && schedule->slices > 0 && settings->devices.threads_per_tower == 0)
        log_message(LOG_RUN, "train.slices: weights depend on the threads of a tower (here %u), and the default "
                    "changes with the number of towers: set devices.threads_per_tower, to the same in all runs",
                    plan->threads_per_tower);
    if (schedule->slices > 0 && settings->train.batch_per_tower > 0)
        log_message(LOG_RUN, "train.slices: weights depend on the batch (here %u), and with train.batch_per_tower it "
                    "changes with the number of towers: set train.batch = %u instead", schedule->batch,
                    schedule->batch);
    if (schedule->slices > 0 && schedule->towers > 1 && settings->input.source == INPUT_SYNTHETIC)
        log_message(LOG_RUN, "train.slices: with input.source = synthetic every tower draws its own images, so weights "
                    "depend on the number of towers");
    if (run_plan_uses_cores(plan) && towers > plan->cores)
        log_message(LOG_RUN, "devices.towers: %u towers share %u core%s and take turns: use at most %u",
                    towers, plan->cores, plan->cores == 1 ? "" : "s", plan->cores);
}

/* Warn of a process bound to a single core: mpirun -n 2 of Open MPI binds each process to one. */
static void warn_of_binding(const struct settings *settings)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const bool is_limited = *environment_of_cpus().text != '\0';
    if (settings->ranks > 1 && usable_cores() == 1 && online > 1 && !is_limited)
        log_message(LOG_RUN, "cores: this process is bound to 1 of %ld cores, on which its towers, readers and "
                    "decoders take turns: use mpirun --bind-to none, or srun --cpu-bind=none", online);
}

static void warn_of_quota(const struct run_plan *plan, const struct settings *settings)
{
    const struct cgroup_cpu group = cgroup_cpu("");
    if (plan->cores < usable_cores() / settings->core_ranks)
        log_message(LOG_RUN, "cores: the control group %s permits the time of %g CPU%s: %u of %u cores are used%s",
                    group.name, group.cpus, group.cpus == 1 ? "" : "s", plan->cores,
                    usable_cores() / settings->core_ranks, settings->quota_ranks > 1 ? " by each rank" : "");
}

static void print_towers(const struct run_plan *plan, const struct settings *settings, FILE *out)
{
    const uint32_t towers = plan->devices.towers.count;
    const struct sync_ops *const mode = plan->devices.mode;
    const char *const as = settings->sync.wire == WIRE_BF16 ? " as bf16" : "";
    char line[LINE_BYTES];
    struct text text;
    text_init(&text, line, sizeof(line));
    text_add(&text, "towers    ");
    if (settings->ranks > 1)
        text_add(&text, "%u ranks, each with ", settings->ranks);
    if (plan->devices.ops->host_memory)
        text_add(&text, "%u x %u thread%s on %u core%s, ", towers, plan->threads_per_tower,
                 plan->threads_per_tower == 1 ? "" : "s", plan->cores, plan->cores == 1 ? "" : "s");
    else
        text_add(&text, "%u%s on %u device%s, ", towers,
                 settings->ranks == 1 ? "" : towers == 1 ? " tower" : " towers", plan->devices.count,
                 plan->devices.count == 1 ? "" : "s");
    if (!plan->devices.backend->computes)
        text_add(&text, "nothing computed");
    else if (plan->schedule.towers == 1)
        text_add(&text, "no reduction needed");
    else if (mode->sum == NULL)
        text_add(&text, "%s", mode->name);
    else if (mode->has_period)
        text_add(&text, "%s every %lld step%s, %s summed by %s", mode->name, (long long)settings->sync.every,
                 settings->sync.every == 1 ? "" : "s", mode->sum, plan->devices.reduce->name);
    else if (mode->serves == SERVES_EACH)
        text_add(&text, "%s, at most %lld step%s stale%s", mode->name, (long long)settings->sync.max_staleness,
                 settings->sync.max_staleness == 1 ? "" : "s", *as != '\0' ? ", gradients as bf16" : "");
    else if (mode->place != NULL && mode->serves == SERVES_NOBODY)
        text_add(&text, "%s%s %s, %s%s summed by %s", mode->name, mode->defers ? "," : "", mode->place, mode->sum, as,
                 plan->devices.reduce->name);
    else if (mode->place != NULL)
        text_add(&text, "%s%s %s%s", mode->name, mode->defers ? "," : "", mode->place,
                 *as != '\0' ? ", gradients as bf16" : "");
    else
        text_add(&text, "%s, %s%s summed by %s", mode->name, mode->sum, as, plan->devices.reduce->name);
    if (plan->devices.group > 1)
        text_add(&text, ", first in groups of %u ranks", plan->devices.group);
    wrapped_write(out, line);
}

/* Print how the towers divide the dense layers at the end, and what that saves. */
static void print_parts(const struct run_plan *plan, const struct settings *settings, const struct net *net, FILE *out)
{
    struct parts_gain gain;
    char layers[PARTS_TEXT_SIZE], sent[PARTS_TEXT_SIZE];
    if (!run_plan_parts_gain(plan, settings, net, &gain))
        return;
    const uint32_t parts = gain.head.parts, towers = plan->schedule.towers;
    parts_gain_layers(&gain.head, net, layers);
    parts_gain_describe(&gain, sent);
    if (towers == 1)
        wrapped_print(out, "parts     %s in %u part%s, all on one tower", layers, parts, parts == 1 ? "" : "s");
    else
        wrapped_print(out, "parts     %s in %u parts, %u on a tower: %s", layers, parts, parts / towers, sent);
}

static void print_steps(const struct schedule *schedule, const struct settings *settings, FILE *out)
{
    const uint64_t per_epoch = schedule_steps_per_epoch(schedule), records = schedule->records[PHASE_TRAIN];
    const bool is_accumulated = settings->train.accumulate > 1 && settings_batch(settings) <= (int64_t)records;
    char pieces[64] = "";
    if (settings->train.accumulate > 1)
        snprintf(pieces, sizeof(pieces), " (%lld of %lld, accumulated)", (long long)settings->train.accumulate,
                 (long long)settings_batch(settings));
    else if (schedule->slices > 0)
        snprintf(pieces, sizeof(pieces), " in %u slice%s, %u on a tower", schedule->slices,
                 schedule->slices == 1 ? "" : "s", schedule->slices / schedule->towers);
    wrapped_print(out, "steps     batch %u%s, %s step%s an epoch, %s in all", schedule->batch, pieces,
                  number_grouped(per_epoch).text, per_epoch == 1 ? "" : "s",
                  number_grouped(schedule_step_count(schedule)).text);
    if (schedule->batch > records)
        log_message(LOG_RUN, "train.%s: a batch of %u is more than the %s records of an epoch: every step uses all "
                    "%s of them, and an epoch is one step",
                    is_accumulated ? "accumulate" : settings->train.batch > 0 ? "batch" : "batch_per_tower",
                    schedule->batch, number_grouped(records).text, number_grouped(records).text);
}

static void print_training(const struct run_plan *plan, const struct settings *settings, FILE *out)
{
    char text[TRAINING_TEXT_SIZE], recipe[RECIPE_TEXT_SIZE];
    training_describe_optimizer(&settings->train, text, sizeof(text));
    wrapped_print(out, "optimizer %s", text);
    training_describe_rate(&settings->train, &plan->learning_rate, text, sizeof(text));
    wrapped_print(out, "rate      %s", text);
    if (recipe_describe_used(settings, recipe))
        wrapped_print(out, "defaults  of the model, because you set none: %s", recipe);
}

void run_plan_print(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                    const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    char classes[256] = "", in_training[96] = "";
    const bool is_of_data =
        settings->origins[option_index(option_find(SECTION_DATA, "classes"))].origin == ORIGIN_DATA;
    const long long offset = settings->data.label_offset;
    const struct dataset *const first = datasets[PHASE_TRAIN] != NULL ? datasets[PHASE_TRAIN]
                                                                      : datasets[PHASE_EVALUATE];
    const char *const said_in = first != NULL && first->classes_said_in != NULL
                                    ? shard_base_name(first->classes_said_in)
                                    : MANIFEST_FILE;
    if (is_of_data && offset == 0)
        snprintf(classes, sizeof(classes), ", %u classes as %.80s says", net->classes, said_in);
    else if (is_of_data)
        snprintf(classes, sizeof(classes), ", %u classes: %.80s says %lld, data.label_offset is %lld", net->classes,
                 said_in, net->classes - offset, offset);
    if (plan->train_net != NULL)
        snprintf(in_training, sizeof(in_training), " (%.2f M in training, at %ux%u)",
                 (double)plan->train_net->macs / 1e6, plan->train_net->input.height, plan->train_net->input.width);
    wrapped_print(out, "model     %s, %s parameters%s%s%s, %.2f M multiply-accumulates an image%s%s", net->model,
                  number_grouped(net->trainable_count).text, net->frozen_count > 0 ? ", of which " : "",
                  net->frozen_count > 0 ? number_grouped(net->frozen_count).text : "",
                  net->frozen_count > 0 ? " are frozen" : "", (double)net->macs / 1e6, in_training, classes);
    run_data_print(datasets, out);
    if (settings->input.source == INPUT_SYNTHETIC)
        fprintf(out, "data      synthetic, generated once on each device\n");
    pixels_print(settings, net, out);
    print_order(plan, settings, datasets, out);
    print_devices(plan, settings, out);
    print_towers(plan, settings, out);
    print_parts(plan, settings, net, out);
    warn_of_threads(plan);
    warn_of_towers(plan, settings);
    warn_of_binding(settings);
    warn_of_quota(plan, settings);
    environment_warn(plan);
    print_steps(&plan->schedule, settings, out);
    print_training(plan, settings, out);
    class_weights_print(plan, settings, net, datasets[PHASE_TRAIN], out);
    if (settings->input.source != INPUT_SYNTHETIC)
        wrapped_print(
                out, "feed      %u reader%s, %u decoder%s%s; queues for each tower: %lld batches on the host, "
                     "%lld on the device%s",
                plan->read_threads, plan->read_threads == 1 ? "" : "s", plan->decode_threads,
                plan->decode_threads == 1 ? "" : "s", settings->ranks > 1 ? " in each rank" : "",
                (long long)settings->input.prefetch_depth,
                (long long)settings->input.staging_depth, plan->memory.kept_bytes > 0 ? ", shards kept in memory" : "");
    memory_needs_print_images(&plan->memory, settings, out);
    memory_needs_print(&plan->memory, settings, out);
}

/* Print the buckets of gradients, or of weights if the mode sums weights. */
void run_plan_print_buckets(const struct buckets *buckets, FILE *out)
{
    const bool has_gradients = buckets->of[REGION_GRADIENTS].count > 0;
    const struct bucket_run run = buckets->of[has_gradients ? REGION_GRADIENTS : REGION_WEIGHTS];
    char line[LINE_BYTES];
    struct text text;
    if (run.count == 0)
        return;
    text_init(&text, line, sizeof(line));
    text_add(&text, "buckets   %u of %s: ", run.count, has_gradients ? "gradients" : "weights");
    for (uint32_t i = 0; i < run.count && i < BUCKETS_LISTED; i++)
        text_add(&text, "%s%s", i == 0 ? "" : ", ",
                 number_bytes(buckets->bucket[run.first + i].count * sizeof(float)).text);
    if (run.count > BUCKETS_LISTED)
        text_add(&text, " ...");
    wrapped_write(out, line);
}

int run_plan_check_losses(const struct run_plan *plan, const struct settings *settings,
                          const struct dataset *const *datasets, struct stop *stop)
{
    struct loader_spec spec = run_plan_loader(plan, settings, datasets);
    spec.stop = stop;
    const int rc = loader_check(&spec);
    if (rc == -ENOMEM)
        log_message(LOG_ERROR, "out of memory for the list of damaged records");
    return rc == 0 ? 0 : rc == -ENOMEM ? EXIT_CODE_MEMORY : (int)stop_code(stop);
}

/* ---- towers ---- */

/* The sizes of microbatches, for the sizes of a full local batch and of the last one of an epoch. */
static void find_microbatches(uint32_t full, uint32_t last, uint32_t microbatch_max, uint32_t counts[TOWER_COUNTS])
{
    const bool is_cut = microbatch_max > 0 && full > microbatch_max;
    counts[0] = is_cut ? microbatch_max : full;
    counts[1] = is_cut ? full % microbatch_max : 0;
    counts[2] = is_cut && last > microbatch_max ? last % microbatch_max : last;
}

/* Add the sizes of the tower's slices that are not in `counts` yet. */
static void add_slices(const struct tower_slices *slices, uint32_t batch, uint32_t counts[TOWER_COUNTS])
{
    for (uint32_t i = slices->first; i < slices->first + slices->count; i++) {
        const uint32_t count = batch_part_find(batch, slices->pairs, slices->all, i).count;
        uint32_t at = 0;
        while (counts[at] != 0 && counts[at] != count)
            at++;
        counts[at] = count;
    }
}

static void add_counts(const struct tower_spec *spec, const struct local_batch *full, const struct local_batch *last,
                       uint32_t counts[TOWER_COUNTS])
{
    if (spec->slices.all == 0) {
        find_microbatches(full->count, last->count, spec->microbatch_max, counts);
        return;
    }
    add_slices(&spec->slices, full->global_count, counts);
    add_slices(&spec->slices, last->global_count, counts);
}

/* Find the sizes in which the tower computes samples: in full batches and in the last one, of training and of
 * evaluation. */
static void find_counts(const struct schedule *schedule, uint32_t tower, struct tower_spec *spec)
{
    const uint64_t train_last = schedule_steps_per_epoch(schedule) - 1;
    const uint64_t steps = schedule_step_count(schedule);
    struct local_batch full = { .count = 0 }, last = { .count = 0 };
    if (steps > 0)
        schedule_find(schedule, 0, tower, &full);
    if (train_last < steps)
        schedule_find(schedule, train_last, tower, &last);
    add_counts(spec, &full, &last, spec->train_counts);
    const uint64_t evaluations = schedule_batches_per_evaluation(schedule);
    if (evaluations == 0)
        return;
    const uint64_t first = schedule_batch_count(schedule) - evaluations;
    schedule_find(schedule, first, tower, &full);
    schedule_find(schedule, first + evaluations - 1, tower, &last);
    add_counts(spec, &full, &last, spec->evaluate_counts);
}

/* The sizes in which batches of any size are computed. Powers of 4 are few plans, which take time to make, and at most
 * three microbatches of a size. */
static void find_pieces(uint32_t full, uint32_t counts[TOWER_COUNTS])
{
    uint32_t size = 1, i = 0;
    counts[i++] = full;
    while (size * 4 < full)
        size *= 4;
    for (; size > 0 && size < full; size /= 4)
        counts[i++] = size;
}

/* Measuring the times of cuDNN's plans takes a second or two for ResNet-50, too long for a short run. Without a plan
 * cache another run with the same settings might choose other plans and get other bits. */
#define STEPS_TO_MEASURE_FOR 5000u

static bool is_worth_planning(const struct run_plan *plan)
{
    return plan->devices.keeps_plans && plan->only_evaluated == 0 &&
           schedule_step_count(&plan->schedule) >= STEPS_TO_MEASURE_FOR;
}

static bool measures_plans(const struct run_plan *plan, const struct settings *settings)
{
    return settings->devices.time_plans == PLAN_TIMES_AUTO ? is_worth_planning(plan)
                                                           : settings->devices.time_plans == PLAN_TIMES_YES;
}

/* cuDNN compiles plans that fuse, which takes 2 to 12 s each; threads compile them side by side. */
static bool fuses_gradients(const struct run_plan *plan, const struct settings *settings)
{
    return settings->devices.fuse == FUSE_AUTO ? is_worth_planning(plan) : settings->devices.fuse == FUSE_YES;
}

static struct tower_slices slices_of(const struct schedule *schedule, uint32_t tower)
{
    const uint32_t each = schedule->slices / schedule->towers;
    return (struct tower_slices){ .all = schedule->slices, .first = tower * each, .count = each,
                                  .pairs = schedule->pairs };
}

static struct tower_parts parts_of(const struct run_plan *plan, const struct settings *settings, uint32_t tower)
{
    const uint32_t parts = run_plan_parts(plan, settings);
    const struct part_range own = head_own_parts(parts, plan->schedule.towers, tower);
    if (parts == 0)
        return (struct tower_parts){ 0 };
    return (struct tower_parts){ .all = parts, .first = own.first, .count = own.count, .batch = plan->schedule.batch,
                                 .evaluates = schedule_batches_per_evaluation(&plan->schedule) > 0 };
}

/* The most samples that a tower computes at once. */
static uint32_t computed_at_once(const struct run_plan *plan)
{
    const struct schedule *const schedule = &plan->schedule;
    if (schedule->slices > 0)
        return batch_part_find(schedule->batch, schedule->pairs, schedule->slices, 0).count;
    return plan->microbatch_max > 0 ? plan->microbatch_max : plan->layout.capacity;
}

struct tower_spec run_plan_tower(const struct run_plan *plan, const struct settings *settings, uint32_t tower)
{
    const struct run_devices *const devices = &plan->devices;
    struct tower_spec spec = {
        .index = tower,
        .train_net = plan->train_net,
        .backend = devices->backend,
        .defers = devices->mode->defers,
        .has_bf16_grads = settings_use_bf16_grads(settings) && devices->backend->computes,
        .backend_spec = { .threads = plan->threads_per_tower,
                         .local_max = computed_at_once(plan),
                         .keeps_embedding = plan->keeps_embedding,
                         .layout = settings->devices.layout,
                         .convolution = settings->devices.convolution,
                         .batch_statistics = plan->only_evaluated > 0 ? BATCH_STATISTICS_EXACT
                                                                      : settings->devices.batch_statistics,
                         .seed = (uint64_t)settings->run.seed,
                         .label_smoothing = (float)settings->train.label_smoothing,
                         .class_weights = plan->class_weights,
                         .skips_nonfinite = settings->train.on_nan == ON_NAN_SKIP,
                         .allow_ref = settings->devices.allow_ref,
                         .precision = settings->devices.precision,
                         .graph = settings->devices.graph,
                         .device_towers = (devices->towers.count + devices->count - 1) / devices->count *
                                          devices->sharing,
                         .workspace_max = (size_t)settings->devices.workspace,
                         .fuses = fuses_gradients(plan, settings),
                         .time_plans = measures_plans(plan, settings),
                         .plan_cache = devices->plan_cache[0] != '\0' ? devices->plan_cache : NULL },
        .microbatch_max = plan->microbatch_max,
        .slices = slices_of(&plan->schedule, tower),
        .parts = parts_of(plan, settings, tower),
        .optimizer = plan->optimizer,
        .average_decay = plan->only_evaluated > 0 ? 0 : settings->train.ema,
        .seed = (uint64_t)settings->run.seed,
        .evaluates_only = plan->only_evaluated > 0,
        .in_pieces = plan->takes_any_count,
    };
    if (plan->takes_any_count)
        find_pieces(plan->schedule.batch, spec.evaluate_counts);
    else
        find_counts(&plan->schedule, tower, &spec);
    return spec;
}
