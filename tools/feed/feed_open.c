/* Opens the data set of a feed and plans its batches, as run_data.c and run_plan.c do for a run. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset_shards.h"
#include "loader/images/image_memory.h"
#include "loader/label_table.h"
#include "loader/shards/text.h"
#include "stage/log.h"
#include "tools/feed/feed_parts.h"
#include "tools/lib/config/data_options.h"
#include "tools/lib/config/feed_settings.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/limits.h"

#define PROBLEM_BYTES sizeof(((struct pipetrain_feed_problem *)0)->message)
#define CHANNELS_DEFAULT 3u
#define BATCH_MAX (1u << 20)    /* as train.batch */
#define SIDE_MAX 65535u         /* of a JPEG */
#define THREADS_MAX 1024u       /* as input.decode_threads */
#define ALIGN 64u

/* ---- results and problems ---- */

int feed_fail(struct pipetrain_feed_problem *problem, int result, const char *format, ...)
{
    if (problem == NULL)
        return result;
    va_list arguments;
    va_start(arguments, format);
    problem->record = PIPETRAIN_FEED_NO_RECORD;
    problem->file[0] = '\0';
    vsnprintf(problem->message, sizeof(problem->message), format, arguments);
    va_end(arguments);
    return result;
}

int feed_result_of(int rc, int otherwise)
{
    return exit_code_of(rc, EXIT_CODE_OK) == EXIT_CODE_MEMORY ? PIPETRAIN_FEED_MEMORY : otherwise;
}

/* ---- the settings ---- */

static void join_lines(const struct problems *problems, struct pipetrain_feed_problem *problem)
{
    struct text text;
    if (problem == NULL)
        return;
    (void)feed_fail(problem, PIPETRAIN_FEED_OPTION, "%s", "");
    text_init(&text, problem->message, sizeof(problem->message));
    for (size_t i = 0; i < problems->count; i++)
        text_add(&text, "%s%s", i > 0 ? "\n" : "", problems->lines[i]);
}

static int read_settings(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                         struct pipetrain_feed_problem *problem)
{
    struct problems problems;
    const struct feed_facts facts = {
        .height = options->height, .width = options->width, .channels = options->channels, .batch = options->batch,
        .ranks = options->world, .is_evaluation = options->is_evaluation, .is_raw = options->is_raw,
    };
    problems_init(&problems);
    const int rc = feed_settings_read(&plan->settings, options->settings, &facts, &problems);
    plan->has_settings = rc == 0;
    if (rc != 0)
        join_lines(&problems, problem);
    problems_release(&problems);
    return rc == 0 ? PIPETRAIN_FEED_OK : feed_result_of(rc, PIPETRAIN_FEED_OPTION);
}

/* ---- the options ---- */

static int check_sizes(const struct pipetrain_feed_options *options, struct pipetrain_feed_problem *problem)
{
    if (options->batch == 0 || options->batch > BATCH_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "batch is %" PRIu32 ": use 1 to %u samples of a step",
                         options->batch, BATCH_MAX);
    const uint32_t shorter = options->height < options->width ? options->height : options->width;
    const uint32_t longer = options->height < options->width ? options->width : options->height;
    if (!options->is_raw && (shorter == 0 || longer > SIDE_MAX))
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "height and width are %" PRIu32 " and %" PRIu32
                         ": use 1 to %u pixels", options->height, options->width, SIDE_MAX);
    if (!options->is_raw && options->channels > AUGMENT_CHANNELS_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "channels is %" PRIu32 ": use 1 for grey, 3 for colour, at "
                         "most %u", options->channels, AUGMENT_CHANNELS_MAX);
    if (options->depth > OPTIONS_DEPTH_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "depth is %" PRIu32 ": use at most %d batches", options->depth,
                         OPTIONS_DEPTH_MAX);
    if (options->threads > THREADS_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "threads is %" PRIu32 ": use at most %u", options->threads,
                         THREADS_MAX);
    if (options->epochs > UINT32_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "epochs is %" PRIu64 ": use at most %" PRIu32
                         ", or 0 for no end", options->epochs, UINT32_MAX);
    return PIPETRAIN_FEED_OK;
}

static int check_ranks(const struct pipetrain_feed_options *options, struct pipetrain_feed_problem *problem)
{
    if (options->world > RUN_TOWERS_MAX)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "world is %" PRIu32 ": use at most %u", options->world,
                         RUN_TOWERS_MAX);
    if (options->rank >= options->world)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "rank is %" PRIu32 ": with world %" PRIu32
                         " it is from 0 to %" PRIu32, options->rank, options->world, options->world - 1);
    if (options->batch < options->world)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "batch is %" PRIu32 ", which %" PRIu32
                         " ranks cannot share: it counts the samples of all ranks", options->batch, options->world);
    return PIPETRAIN_FEED_OK;
}

/* Copy the options of a caller that may be of another version, and replace zeros by the defaults. */
static int take_options(struct pipetrain_feed_options *taken, const struct pipetrain_feed_options *options,
                        struct pipetrain_feed_problem *problem)
{
    if (options->struct_bytes < offsetof(struct pipetrain_feed_options, batch) + sizeof(options->batch))
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "struct_bytes is %zu: set it to sizeof(struct "
                         "pipetrain_feed_options)", options->struct_bytes);
    for (size_t i = sizeof(*taken); i < options->struct_bytes; i++)
        if (((const uint8_t *)options)[i] != 0)
            return feed_fail(problem, PIPETRAIN_FEED_OPTION, "an option is set that this version of the library does "
                             "not know: the program was compiled for a newer one");
    memset(taken, 0, sizeof(*taken));
    memcpy(taken, options, options->struct_bytes < sizeof(*taken) ? options->struct_bytes : sizeof(*taken));
    if (taken->shards == NULL || *taken->shards == '\0')
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "shards is empty: name files, directories or globs");
    if ((taken->allocate == NULL) != (taken->release == NULL))
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "set both allocate and release, or neither");
    taken->world = taken->world > 0 ? taken->world : 1;
    taken->channels = taken->channels > 0 ? taken->channels : CHANNELS_DEFAULT;
    const int result = check_sizes(taken, problem);
    return result == PIPETRAIN_FEED_OK ? check_ranks(taken, problem) : result;
}

/* ---- the data set ---- */

/* What a raw record takes of a batch. */
static const struct image_shape raw_shape = { 1, 1, sizeof(struct raw_record) };

static struct dataset_options dataset_options_of(const struct feed_plan *plan,
                                                 const struct pipetrain_feed_options *options)
{
    const struct data_settings *const data = &plan->settings.data;
    const uint64_t said = options->is_raw ? 0 : dataset_shards_classes(options->shards, data->label_key);
    const int64_t described = said > 0 && said <= DATASET_CLASSES_MAX ? (int64_t)said + data->label_offset : 0;
    const int64_t classes = data->classes > 0 ? data->classes : described;
    struct dataset_options made = data_options(data);
    made.what = options->is_evaluation ? "validation" : "train";
    made.pattern = options->shards;
    made.shape = options->is_raw ? raw_shape : (struct image_shape){ options->height, options->width, options->channels };
    made.is_raw = options->is_raw;
    made.classes = classes > 0 ? (uint32_t)classes : DATASET_CLASSES_MAX;
    made.classes_are_unknown = classes <= 0;
    made.may_lack_classes = true;
    made.is_unwanted = (const atomic_bool *)options->is_unwanted;
    made.part = data->validation_split <= 0 ? DATASET_ALL : options->is_evaluation ? DATASET_HELD_OUT : DATASET_REST;
    made.held_out = data->validation_split;
    return made;
}

static int open_dataset(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                        struct pipetrain_feed_problem *problem)
{
    char *const text = calloc(1, PROBLEM_BYTES);
    const struct dataset_options wanted = dataset_options_of(plan, options);
    image_memory_limit_thread((uint64_t)plan->settings.input.max_pixels);       /* some images are decoded */
    const int rc = text != NULL ? dataset_open(&plan->dataset, &wanted, text, PROBLEM_BYTES) : -ENOMEM;
    image_memory_limit_thread(0);
    int result = PIPETRAIN_FEED_OK;
    if (rc == -ECANCELED)
        result = PIPETRAIN_FEED_INTERRUPTED;
    else if (rc != 0)
        result = feed_fail(problem, feed_result_of(rc, PIPETRAIN_FEED_DATA), "%s",
                           text != NULL && *text != '\0' ? text : exit_cause(rc));
    if (rc != 0 && rc != -ECANCELED && problem != NULL)
        problem_find_record(problem);
    free(text);
    return result;
}

/* ---- the plan ---- */

static void init_schedule(struct feed_plan *plan, const struct pipetrain_feed_options *options)
{
    const struct settings *const settings = &plan->settings;
    const bool is_training = plan->phase == PHASE_TRAIN;
    plan->is_endless = options->epochs == 0;
    plan->epochs = plan->is_endless ? UINT32_MAX : options->epochs;
    plan->schedule = (struct schedule){
        .batch = options->batch,
        .towers = options->world,
        .here = { options->rank, 1 },
        .epochs = (uint32_t)plan->epochs,
        .evaluations = (uint32_t)plan->epochs,
        .drop_last = is_training && (options->drop_last || settings->data.last_batch == LAST_BATCH_DROP),
        .pairs = is_training && !plan->is_raw && mixing_is_on(&plan->augment),
        .lanes = is_training && settings->data.shuffle == SHUFFLE_BLOCK ? (uint32_t)settings->data.lanes : 0,
    };
    plan->schedule.records[plan->phase] = plan->dataset->record_count;
    plan->steps_per_epoch = is_training ? schedule_steps_per_epoch(&plan->schedule)
                                        : schedule_batches_per_evaluation(&plan->schedule);
}

static int check_schedule(struct feed_plan *plan, struct pipetrain_feed_problem *problem)
{
    const struct schedule *const schedule = &plan->schedule;
    const uint64_t records = plan->dataset->record_count;
    if (records == 0)
        return feed_fail(problem, PIPETRAIN_FEED_DATA, "%s: there are no records", plan->dataset->options.pattern);
    if (plan->steps_per_epoch == 0)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "a batch of %" PRIu32 " is larger than the set of %" PRIu64
                         " records, which drop_last leaves out: use a smaller batch", schedule->batch, records);
    if (schedule->pairs && (schedule->batch + 1) / 2 < schedule->towers)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "batch is %" PRIu32 ", whose pairs %" PRIu32 " ranks cannot "
                         "share: augment.mixup and cutmix mix two samples of one rank, so use a batch of at least "
                         "%" PRIu32, schedule->batch, schedule->towers, 2 * schedule->towers);
    if (!schedule_lanes_fit(schedule->lanes, schedule->towers))
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "data.lanes is %" PRIu32 ", which %" PRIu32
                         " ranks cannot share: use a multiple of world", schedule->lanes, schedule->towers);
    if (schedule->lanes > 1 && records < schedule->lanes)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "data.lanes is %" PRIu32 ", more than the %" PRIu64
                         " records of the set", schedule->lanes, records);
    /* The number of a batch in the run has to fit into 64 bits, of which one is left for sums. */
    const uint64_t most = (UINT64_MAX >> 1) / plan->steps_per_epoch;
    if (plan->epochs <= most)
        return PIPETRAIN_FEED_OK;
    if (!plan->is_endless)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "%" PRIu64 " epochs of %" PRIu64 " steps cannot be counted",
                         plan->epochs, plan->steps_per_epoch);
    plan->epochs = most;
    plan->schedule.epochs = plan->schedule.evaluations = (uint32_t)most;
    return PIPETRAIN_FEED_OK;
}

static size_t align(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* The layout of a block: that of a run, then the labels as int64. */
static int init_layout(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                       struct pipetrain_feed_problem *problem)
{
    const uint32_t most = schedule_local_max(&plan->schedule);
    const struct image_shape shape = plan->dataset->options.shape;
    int rc = batch_layout_init(&plan->layout, shape.height, shape.width, shape.channels, most);
    if (rc == 0 && plan->schedule.pairs)
        rc = batch_layout_add_mixes(&plan->layout);
    const size_t label_bytes = (size_t)most * sizeof(int64_t);
    if (rc != 0 || plan->layout.block_bytes > (SIZE_MAX >> 1) - label_bytes)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "%" PRIu32 " images of %" PRIu32 " x %" PRIu32 " do not fit "
                         "into the address space: use a smaller batch", most, options->height, options->width);
    plan->labels_offset = align(plan->layout.block_bytes);
    plan->block_bytes = align(plan->labels_offset + label_bytes);
    return PIPETRAIN_FEED_OK;
}

static uint64_t corrupt_limit(double max_corrupt, uint64_t records)
{
    return (uint64_t)(max_corrupt < 1 ? ceil(max_corrupt * (double)records) : max_corrupt);
}

static size_t keep_bytes(const struct input_settings *input)
{
    if (input->source == INPUT_CACHED)
        return LOADER_KEEP_ALL;
    return input->keep_shards > 0 ? (size_t)input->keep_shards : LOADER_KEEP_NONE;
}

static uint32_t decoders_of(const struct settings *settings, const struct pipetrain_feed_options *options)
{
    if (options->threads > 0)
        return options->threads;
    return settings->input.decode_threads > 0 ? (uint32_t)settings->input.decode_threads : limits_cores();
}

/* The bytes that this rank reads for an epoch: all for an evaluation of all records, else its share. */
static uint64_t epoch_bytes(const struct feed_plan *plan)
{
    struct schedule schedule = plan->schedule;
    struct loader_spec spec = plan->spec;
    schedule.records[PHASE_TRAIN] = plan->dataset->record_count;
    spec.schedule = &schedule;
    spec.datasets[PHASE_TRAIN] = plan->dataset;
    return loader_epoch_bytes(&spec);
}

static int check_labels(const struct feed_plan *plan, const int32_t *labels, struct pipetrain_feed_problem *problem)
{
    const struct dataset *const dataset = plan->dataset;
    const struct record_problem what = { .text = "cannot be read, or its label is out of range" };
    char text[DAMAGE_TEXT_BYTES];
    uint64_t lost = 0, first = 0;
    for (uint64_t id = dataset->record_count; id-- > 0;)
        if (labels[id] == LABEL_UNKNOWN) {
            first = id;
            lost++;
        }
    if (lost == 0)
        return PIPETRAIN_FEED_OK;
    record_describe(dataset, first, &what, text, sizeof(text));
    if (plan->settings.data.on_corrupt == ON_CORRUPT_SKIP) {
        log_message(LOG_RUN, "data.balance leaves out %" PRIu64 " of %" PRIu64 " records, the first: %s", lost,
                    dataset->record_count, text);
        return PIPETRAIN_FEED_OK;
    }
    (void)feed_fail(problem, PIPETRAIN_FEED_DATA, "%s; %" PRIu64 " records in all: data.balance leaves them out with "
                    "data.on_corrupt = skip", text, lost);
    if (problem != NULL)
        problem_find_record(problem);
    return PIPETRAIN_FEED_DATA;
}

/* The records by class, for data.balance. A record without a label would not be handed out. */
static int find_classes(struct feed_plan *plan, struct pipetrain_feed_problem *problem)
{
    const struct dataset *const dataset = plan->dataset;
    int32_t *labels;
    if (!plan->settings.data.balance || plan->phase != PHASE_TRAIN)
        return PIPETRAIN_FEED_OK;
    if (plan->is_raw)
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "data.balance needs labels, and raw records have none");
    int rc = label_table_make(&labels, dataset, plan->spec.decode_threads);
    if (rc == -ECANCELED)
        return PIPETRAIN_FEED_INTERRUPTED;
    if (rc != 0)
        return feed_fail(problem, feed_result_of(rc, PIPETRAIN_FEED_DATA), "the labels cannot be read: %s",
                         exit_cause(rc));
    const int result = check_labels(plan, labels, problem);
    rc = result == PIPETRAIN_FEED_OK ? order_classes_make(&plan->classes, labels, dataset->record_count) : 0;
    free(labels);
    if (rc == -ENODATA)
        return feed_fail(problem, PIPETRAIN_FEED_DATA, "data.balance: no record has a label in range");
    if (rc != 0)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "%s", exit_cause(rc));
    if (plan->classes.count > 0)
        plan->spec.classes = &plan->classes;
    return result;
}

static void init_loader(struct feed_plan *plan, const struct pipetrain_feed_options *options)
{
    const struct settings *const settings = &plan->settings;
    plan->spec = (struct loader_spec){
        .schedule = &plan->schedule,
        .layout = &plan->layout,
        .shuffle = plan->phase == PHASE_TRAIN ? settings->data.shuffle : SHUFFLE_NONE,
        .block_bytes = (size_t)settings->input.read_block,
        .window_bytes = (size_t)settings->data.shuffle_window,
        .seed = options->seed,
        .augment = plan->is_raw ? NULL : &plan->augment,
        .read_threads = settings->input.read_threads > 0 ? (uint32_t)settings->input.read_threads : 1,
        .decode_threads = decoders_of(settings, options),
        .max_pixels = (uint64_t)settings->input.max_pixels,
        .chunk_records = (uint32_t)settings->input.chunk,
        .keep_bytes = keep_bytes(&settings->input),
        .skip_corrupt = settings->data.on_corrupt == ON_CORRUPT_SKIP,
        .corrupt_max = corrupt_limit(settings->data.max_corrupt, plan->dataset->record_count),
    };
    plan->spec.datasets[plan->phase] = plan->dataset;
    if (settings->input.read_threads == 0 && loader_memory(&plan->spec).kept_bytes == 0)
        plan->spec.read_threads = 2;
    plan->epoch_bytes = epoch_bytes(plan);
}

static int open_plan(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                     struct pipetrain_feed_problem *problem)
{
    plan->phase = options->is_evaluation ? PHASE_EVALUATE : PHASE_TRAIN;
    plan->is_raw = options->is_raw;
    plan->allocate = options->allocate;
    plan->release = options->release;
    plan->memory_arg = options->memory_arg;
    int result = read_settings(plan, options, problem);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    plan->augment = pixels_augment(&plan->settings, NULL);
    plan->augment.seed = options->seed;
    plan->depth = options->depth > 0 ? options->depth : (uint32_t)plan->settings.input.prefetch_depth;
    result = open_dataset(plan, options, problem);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    init_schedule(plan, options);
    result = check_schedule(plan, problem);
    if (result == PIPETRAIN_FEED_OK)
        result = init_layout(plan, options, problem);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    init_loader(plan, options);
    result = find_classes(plan, problem);
    plan->order = loader_order(&plan->spec);
    return result;
}

int feed_plan_open(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                   struct pipetrain_feed_problem *problem)
{
    struct pipetrain_feed_options taken;
    int result = take_options(&taken, options, problem);
    memset(plan, 0, sizeof(*plan));
    if (result == PIPETRAIN_FEED_OK)
        result = open_plan(plan, &taken, problem);
    if (result != PIPETRAIN_FEED_OK)
        feed_plan_close(plan);
    return result;
}

void feed_plan_end(struct feed_plan *plan)
{
    dataset_close(plan->dataset);
    plan->dataset = NULL;
}

void feed_plan_close(struct feed_plan *plan)
{
    feed_plan_end(plan);
    order_classes_release(&plan->classes);
    if (plan->has_settings)
        settings_release(&plan->settings);
}
