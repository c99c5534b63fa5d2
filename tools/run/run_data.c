/* From settings to data sets. */
#include "tools/run/run_data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "loader/dataset.h"
#include "loader/dataset_shards.h"
#include "loader/dataset_survey.h"
#include "loader/shard_counts.h"
#include "stage/log.h"
#include "tools/config/number.h"
#include "tools/config/options.h"
#include "tools/config/settings_model.h"
#include "tools/results/named_classes.h"
#include "tools/results/tensor_file.h"
#include "tools/results/tensor_match.h"
#include "tools/run/signals.h"
#include "tools/text/wrapped.h"

#define ONE_LABEL_RECORDS 8u    /* fewer may have one label by chance */
#define PROBLEM_BYTES 16384u
#define NAME_TEXT_BYTES 1024u
#define NAMES_COLUMNS 70u       /* of 80, behind those of what the line is about */

static const char *const what[PHASE_COUNT] = { [PHASE_TRAIN] = "train", [PHASE_EVALUATE] = "validation" };

/* The model that is meant by name, NULL where a file describes it. */
static const struct model *named_model(struct settings *settings)
{
    const enum origin name = settings_origin(settings, SECTION_MODEL, "name")->origin;
    const enum origin file = settings_origin(settings, SECTION_MODEL, "file")->origin;
    return *settings->model.file != '\0' && name <= file ? NULL : model_find(settings->model.name);
}

/* The classes that model.weights fixes, as its last layer is taken, too; 0: none, or the file does not say. What is
 * wrong with it is told when it is opened to be read. */
static uint32_t classes_of_weights(const struct model_settings *settings, const struct model *model)
{
    char problem[256];
    struct tensor_file file;
    if (*settings->weights == '\0' || *settings->skip != '\0' ||
        tensor_file_open(&file, AT_FDCWD, settings->weights, problem, sizeof(problem)) != 0)
        return 0;
    const uint32_t classes = tensor_match_classes(&file.index, model);
    tensor_file_close(&file);
    return classes;
}

void run_data_take_classes(struct settings *settings)
{
    const struct model *const model = named_model(settings);
    struct option_origin *const origin = settings_origin(settings, SECTION_DATA, "classes");
    if (model == NULL || origin->origin > ORIGIN_MODEL)
        return;
    const uint64_t said = dataset_shards_classes(settings->data.train);
    const int64_t classes = said <= DATASET_CLASSES_MAX ? (int64_t)said + settings->data.label_offset : 0;
    if (said == 0 || classes < 2 || classes > DATASET_CLASSES_MAX || classes == model->classes)
        return;
    const uint32_t fixed = classes_of_weights(&settings->model, model);
    if (fixed != 0 && fixed != classes)
        return;
    settings->data.classes = classes;
    origin->origin = ORIGIN_DATA;
}

/* A problem for each line of `text`, which is cut up. */
static void add_lines(struct problems *problems, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        problems_add(problems, "pipetrain", "%s", line);
}

static struct dataset_options options_of(const struct data_settings *data, const struct net *net)
{
    const struct shape image = net->input;
    return (struct dataset_options){
        .image_key = data->image_key,
        .label_key = data->label_key,
        .shape = { image.height, image.width, image.channels },
        .classes = net->classes,
        .label_offset = data->label_offset,
        .class_names = data->class_names,
        .layout = data->image_layout,
        .range = data->image_range,
        .limit = (uint64_t)data->limit,
        .skip_damage = data->on_corrupt == ON_CORRUPT_SKIP,
        .use_index_cache = data->index_cache,
        .is_unwanted = signals_requested(),
    };
}

static int open_set(struct dataset **dataset_out, const struct dataset_options *options, struct problems *problems)
{
    if (options->pattern[0] == '\0')
        return 0;
    char *const text = calloc(1, PROBLEM_BYTES);
    const int rc = text == NULL ? -ENOMEM : dataset_open(dataset_out, options, text, PROBLEM_BYTES);
    if (rc != 0 && text != NULL && text[0] != '\0')
        add_lines(problems, text);
    else if (rc != 0 && rc != -ECANCELED)
        problems_add(problems, "pipetrain", "%s: %s", options->pattern, strerror(-rc));
    free(text);
    return rc;
}

static void report_overlap(const struct dataset *validation, const struct dataset_overlap *overlap,
                           struct problems *problems)
{
    char path[NAME_TEXT_BYTES], more[64] = "";
    const char *const first = validation->paths[overlap->first];
    log_escape(first, strlen(first), path, sizeof(path));
    if (overlap->count > 1)
        snprintf(more, sizeof(more), ", as %" PRIu32 " of these %" PRIu32 " shards are", overlap->count,
                 validation->shard_count);
    problems_add(problems, "pipetrain",
                 "validation: %.500s is a training shard too%s: name other files, or set data.allow_overlap = yes to "
                 "evaluate on what is trained on",
                 path, more);
}

/* What is evaluated on must not have been trained on, unless that is asked for. */
static int check_overlap(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    struct dataset_overlap overlap;
    const struct dataset *const validation = datasets[PHASE_EVALUATE];
    if (datasets[PHASE_TRAIN] == NULL || validation == NULL)
        return 0;
    const int rc = dataset_overlap_find(&overlap, validation, datasets[PHASE_TRAIN]);
    if (rc < 0)
        problems_add(problems, "pipetrain", "not enough memory to compare the sets' files");
    else if (overlap.count > 0)
        report_overlap(validation, &overlap, problems);
    return rc;
}

/* The same label must mean the same class in both sets, as far as they say. 0, with a problem where it does not, or
 * -ENOMEM. */
static int check_classes(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    char train[NAME_TEXT_BYTES], validation[NAME_TEXT_BYTES];
    if (datasets[PHASE_TRAIN] == NULL || datasets[PHASE_EVALUATE] == NULL)
        return 0;
    const int rc = datasets_name_differently(datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE], train, validation,
                                             NAME_TEXT_BYTES);
    if (rc < 0)
        problems_add(problems, "pipetrain", "the names of the classes, beside the data: %s", strerror(-rc));
    if (rc <= 0)
        return rc;
    problems_add(problems, "pipetrain", "validation: its classes are not those of train: %s; train has %s: convert "
                 "both sets together, or name the classes of both with data.class_names = FILE", validation, train);
    return 0;
}

/* Numbers of one type mean the same in both sets. */
static void check_images(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    const struct dataset *const train = datasets[PHASE_TRAIN], *const validation = datasets[PHASE_EVALUATE];
    char of_train[128], of_validation[128];
    if (train == NULL || validation == NULL)
        return;
    const struct pixel_reading *const a = &train->format.reading, *const b = &validation->format.reading;
    const bool have_channels = a->has_channels && b->has_channels;
    if (a->type != b->type || (a->range == b->range && (a->layout == b->layout || !have_channels)))
        return;
    sample_describe_images(&train->format, of_train, sizeof(of_train));
    sample_describe_images(&validation->format, of_validation, sizeof(of_validation));
    problems_add(problems, "pipetrain", "validation: its images are read as %s, those of train as %s: set "
                 "data.image_range and data.image_layout to what both are", of_validation, of_train);
}

/* What the directories that are named hold besides the sets. */
static int tell_left_out(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    struct shard_list lists[PHASE_COUNT] = { 0 };
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *const dataset = datasets[phase];
        if (dataset != NULL)
            lists[phase] = (struct shard_list){ .paths = dataset->paths, .count = dataset->shard_count,
                                               .left_out = dataset->left_out,
                                               .left_out_count = dataset->left_out_count };
    }
    const int rc = left_out_report(lists, PHASE_COUNT);
    if (rc < 0)
        problems_add(problems, "pipetrain", "not enough memory to look at the sets' directories");
    return rc;
}

/* What of the files is which set: one of the two that are named, or a part of the one that is shared out. */
static struct dataset_options options_of_pass(const struct data_settings *data, const struct net *net, enum phase phase)
{
    const bool is_shared = data->validation_split > 0;
    struct dataset_options options = options_of(data, net);
    options.what = what[is_shared ? PHASE_TRAIN : phase];
    options.may_lack_classes = phase != PHASE_TRAIN;
    options.part = !is_shared ? DATASET_ALL : phase == PHASE_TRAIN ? DATASET_REST : DATASET_HELD_OUT;
    options.held_out = data->validation_split;
    options.pattern = phase == PHASE_TRAIN || is_shared ? data->train : data->validation;
    return options;
}

int run_data_open_validation(struct dataset **dataset_out, const struct settings *settings, const struct net *net,
                             bool is_any_label_taken, struct problems *problems)
{
    struct dataset_options options = options_of_pass(&settings->data, net, PHASE_EVALUATE);
    options.is_any_label_taken = is_any_label_taken;
    const int rc = open_set(dataset_out, &options, problems);
    return rc == 0 || rc == -ENOMEM ? rc : -EINVAL;
}

int run_data_open(struct dataset *datasets[PHASE_COUNT], const struct settings *settings, const struct net *net,
                  bool is_check, struct problems *problems)
{
    const struct data_settings *const data = &settings->data;
    const bool is_shared = data->validation_split > 0;
    struct shard_counts counts = { 0 };
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc != -ENOMEM && !(is_shared && rc != 0); phase++) {
        struct dataset_options options = options_of_pass(data, net, phase);
        options.counts = &counts;
        options.is_any_label_taken = is_check;
        rc = open_set(&datasets[phase], &options, problems);
    }
    shard_counts_release(&counts);
    if (!data->allow_overlap && !is_shared && rc != -ENOMEM)
        rc = check_overlap(datasets, problems);
    if (problems->count == 0 && !is_shared)
        rc = check_classes(datasets, problems);
    if (problems->count == 0)
        check_images(datasets, problems);
    if (problems->count == 0)
        rc = tell_left_out(datasets, problems);
    return problems->count == 0 ? 0 : rc == -ENOMEM ? -ENOMEM : -EINVAL;
}

static void escape_name(const char *path, char name_out[NAME_TEXT_BYTES])
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    log_escape(name, strlen(name), name_out, NAME_TEXT_BYTES);
}

/* The first and the last file, on a line each where they do not fit on one. */
static void print_names(const struct dataset *dataset, FILE *out)
{
    char first[NAME_TEXT_BYTES], last[NAME_TEXT_BYTES];
    escape_name(dataset->paths[0], first);
    escape_name(dataset->paths[dataset->shard_count - 1], last);
    if (dataset->shard_count == 1)
        fprintf(out, "%10s%s\n", "", first);
    else if (strlen(first) + strlen(last) + 5 <= NAMES_COLUMNS)
        fprintf(out, "%10s%s ... %s\n", "", first, last);
    else
        fprintf(out, "%10s%s ...\n%10s%s\n", "", first, "", last);
}

/* What was found of the features that are read. */
static void print_format(const struct dataset *dataset, FILE *out)
{
    const struct sample_format *const format = &dataset->format;
    char names[64] = "", images[128];
    if (dataset->class_names.count > 0)
        snprintf(names, sizeof(names), "; %u class names in ", dataset->class_names.count);
    sample_describe_images(format, images, sizeof(images));
    wrapped_print(out, "%*simage '%s': %s; label '%s': %s%s%s", (int)WRAPPED_INDENT, "",
                  format->keys[SAMPLE_IMAGE], images, format->keys[SAMPLE_LABEL], format->label.ops->name, names,
                  names[0] != '\0' ? dataset->class_names_path : "");
}

/* How many records there are, and where they were said to be. */
static void print_set(const struct dataset *dataset, const char *name, FILE *out)
{
    char lost[64] = "", held_out[64] = "";
    if (dataset->lost_records > 0)
        snprintf(lost, sizeof(lost), ", %s lost", number_grouped(dataset->lost_records).text);
    if (dataset->options.part == DATASET_HELD_OUT)
        snprintf(held_out, sizeof(held_out), "%g held out of ", dataset->options.held_out);
    wrapped_print(out, "data      %-10s %s records in %u shard%s%s (%s%s)", name,
                  number_grouped(dataset->record_count).text, dataset->shard_count,
                  dataset->shard_count == 1 ? "" : "s", lost, held_out, dataset->options.pattern);
}

void run_data_print(const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *const dataset = datasets[phase];
        if (dataset == NULL)
            continue;
        print_set(dataset, what[phase], out);
        print_names(dataset, out);
        print_format(dataset, out);
    }
}

void run_data_warn(const struct dataset *dataset, const struct order_shape *shape, uint64_t seed)
{
    static const char *const advice[] = {
        [SHUFFLE_NONE] = "use data.shuffle = full or block, or shuffle the set when it is written",
        [SHUFFLE_FULL] = "look at the set",
        [SHUFFLE_BLOCK] = "use a larger data.shuffle_window or a smaller input.read_block",
    };
    struct label_order look;
    if (label_order_look(&look, dataset, shape, seed) < 0)
        return;
    if (look.is_one_label && dataset->options.classes > 1 && dataset->record_count >= ONE_LABEL_RECORDS)
        log_message(LOG_RUN,
                    "%s: every label that was looked at is %" PRId64 ", and the network has %" PRIu32 " classes: is "
                    "'%s' the right feature (data.label_key)?", dataset->options.what, look.label,
                    dataset->options.classes, dataset->format.keys[SAMPLE_LABEL]);
    if (!label_order_is_sorted(&look))
        return;
    log_message(LOG_RUN,
                "%s: of %" PRIu32 " pairs of records that follow each other %" PRIu32 " have the same label, where "
                "%.0f would by chance: the order mixes classes badly: %s",
                dataset->options.what, look.pairs, look.equal, look.expected, advice[shape->shuffle]);
}
