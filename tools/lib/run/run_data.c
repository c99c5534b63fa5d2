/* Opens the data sets that the settings name, and checks them for --check. */
#include "tools/lib/run/run_data.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "loader/damage.h"
#include "loader/dataset.h"
#include "loader/dataset_shards.h"
#include "loader/dataset_survey.h"
#include "loader/duplicates.h"
#include "loader/index_share.h"
#include "loader/shard_counts.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/program_folder.h"
#include "tools/lib/config/data_options.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/results/checkpoint_reader.h"
#include "tools/lib/results/earlier_run.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/results/weights_agree.h"
#include "tools/lib/run/run_identity.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

/* ---- opening ---- */

#define ONE_LABEL_RECORDS 8u    /* fewer records may all have the same label by chance */
#define PROBLEM_BYTES 16384u
/* the texts of train count as class names only if its census has more `right` records than this for each `wrong` one */
#define SAID_RIGHT 4u
#define NAME_TEXT_BYTES 1024u
#define NAMES_COLUMNS 70u       /* 80 columns without the indentation */

static const char *const what[PHASE_COUNT] = { [PHASE_TRAIN] = "train", [PHASE_EVALUATE] = "validation" };

/* The model that model.name selects; NULL if model.file describes the model. */
static const struct model *named_model(struct settings *settings)
{
    const enum origin name = settings_origin(settings, SECTION_MODEL, "name")->origin;
    const enum origin file = settings_origin(settings, SECTION_MODEL, "file")->origin;
    return *settings->model.file != '\0' && name <= file ? NULL : model_find(settings->model.name);
}

static bool is_identity_value(const char *identity, const char *key, const char *value)
{
    const char *const theirs = run_identity_value(identity, key);
    return theirs != NULL && strcspn(theirs, "\n") == strlen(value) && strncmp(theirs, value, strlen(value)) == 0;
}

/* Read the label offset of a run that began with the same weights. False if there is none. */
static bool read_begun_offset(const struct settings *settings, const char *identity, int64_t *offset_out)
{
    const char *const offset = run_identity_value(identity, "data.label_offset");
    if (offset == NULL || !is_identity_value(identity, "model.weights", settings->model.weights) ||
        !is_identity_value(identity, "model.skip", settings->model.skip))
        return false;
    *offset_out = strtoll(offset, NULL, 10);
    return true;
}

/* Read the label offset of the run at `path`: its directory, or a checkpoint. */
static bool find_begun_offset(const struct settings *settings, const char *path, int64_t *offset_out)
{
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem = { "" };
    struct earlier_run ended = { .identity = NULL };
    bool is_found = false;
    if (checkpoint_reader_find(&reader, path, UINT64_MAX, &problem) == 0 ||
        checkpoint_reader_open(&reader, path, &problem) == 0)
        is_found = read_begun_offset(settings, reader->settings, offset_out);
    else if (earlier_run_read(&ended, path) == 0)
        is_found = read_begun_offset(settings, ended.identity, offset_out);
    checkpoint_reader_close(reader);
    earlier_run_release(&ended);
    return is_found;
}

/* Find the label offset in earlier checkpoints of the run: a resumed run does not need the file of its initial
 * weights. */
static bool begun_label_offset(struct settings *settings, int64_t *offset_out)
{
    char folder[PATH_MAX];
    if (*settings->model.weights == '\0' || strcmp(settings->run.resume, "never") == 0 ||
        settings_fill_names(settings) != 0)
        return false;
    for (int number = run_name_was_given(settings) ? 1 : run_name_count(settings); number > 0; number--)
        if (run_name_numbered(folder, sizeof(folder), settings->run.dir, number) == 0 &&
            find_begun_offset(settings, folder, offset_out))
            return true;
    return strcmp(settings->run.resume, "auto") != 0 && find_begun_offset(settings, settings->run.resume, offset_out);
}

/* Unless the configuration sets data.label_offset, use the offset with which the initial weights were trained. */
static void take_label_offset(struct settings *settings)
{
    struct option_origin *const origin = settings_origin(settings, SECTION_DATA, "label_offset");
    int64_t offset;
    if (origin->origin > ORIGIN_MODEL ||
        (!begun_label_offset(settings, &offset) && !weights_label_offset(settings, &offset)))
        return;
    settings->data.label_offset = offset;
    origin->origin = ORIGIN_DATA;
}

uint64_t run_data_classes(const struct settings *settings)
{
    const struct data_settings *const data = &settings->data;
    const char *const shards = *data->train != '\0' ? data->train : data->validation;
    const uint64_t said = dataset_shards_classes(shards, data->label_key);
    const int64_t classes = said <= DATASET_CLASSES_MAX ? (int64_t)said + data->label_offset : 0;
    return said > 0 && classes >= 2 && classes <= DATASET_CLASSES_MAX ? (uint64_t)classes : 0;
}

static void take_classes(struct settings *settings)
{
    const struct model *const model = named_model(settings);
    struct option_origin *const origin = settings_origin(settings, SECTION_DATA, "classes");
    if (model == NULL || origin->origin > ORIGIN_MODEL)
        return;
    const uint64_t classes = run_data_classes(settings);
    if (classes == 0 || classes == model->classes)
        return;
    settings->data.classes = (int64_t)classes;
    origin->origin = ORIGIN_DATA;
}

int run_data_finish_settings(struct settings *settings, struct problems *problems)
{
    const int rc = run_name_follow(settings);
    if (rc != 0) {
        problems_add(problems, "pipetrain", "%s: %s", settings->config_path, strerror(-rc));
        return rc;
    }
    take_label_offset(settings);
    take_classes(settings);
    return settings_finish(settings, problems);
}

/* Add each line of `text`, which is modified, as a problem. */
static void add_lines(struct problems *problems, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        problems_add(problems, "pipetrain", "%s", line);
}

static struct dataset_options options_of(const struct data_settings *data, const struct net *net,
                                         const struct shape image)
{
    struct dataset_options options = data_options(data);
    options.shape = (struct image_shape){ image.height, image.width, image.channels };
    options.classes = net->classes;
    options.is_unwanted = signals_requested();
    return options;
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

static void add_overlap(const struct dataset *validation, const struct dataset_overlap *overlap,
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
                 "evaluate on training data",
                 path, more);
}

/* Only warn: a copy of a training shard may be intended, for example to try a configuration. */
static void report_copies(const struct dataset *validation, const struct dataset_overlap *copies)
{
    char path[NAME_TEXT_BYTES];
    const char *const first = validation->paths[copies->first];
    log_escape(first, strlen(first), path, sizeof(path));
    log_message(LOG_RUN, "validation: %" PRIu32 " of %" PRIu32 " shards, such as %s, hold the same records as training "
                "shards: what is evaluated was trained on", copies->count, validation->shard_count, path);
}

static void escape_name(const char *path, char name_out[NAME_TEXT_BYTES])
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    log_escape(name, strlen(name), name_out, NAME_TEXT_BYTES);
}

/* Write the name of a record: "record 3 of val-00000-of-00001". */
static void name_record(const struct dataset *dataset, uint64_t id, char *text, size_t text_size)
{
    char name[NAME_TEXT_BYTES];
    const struct dataset_place place = dataset_find(dataset, id);
    escape_name(dataset->paths[place.shard], name);
    snprintf(text, text_size, "record %" PRIu64 " of %s", dataset_number(dataset, &place), name);
}

/* Write a text such as ", 2 of them with another label (4 in record 1 of val, 7 in record 5 of train)"; "" if there are
 * none. */
static void describe_relabelled(const struct duplicates *found, const struct dataset *train,
                                const struct dataset *validation, char *text, size_t text_size)
{
    char first[NAME_TEXT_BYTES + 64], other[NAME_TEXT_BYTES + 64];
    text[0] = '\0';
    if (found->relabelled == 0)
        return;
    name_record(validation, found->relabelled_first, first, sizeof(first));
    name_record(train, found->relabelled_other, other, sizeof(other));
    snprintf(text, text_size, ", %s of them with another label (%" PRId64 " in %s, %" PRId64 " in %s)",
             number_grouped(found->relabelled).text, found->first_label, first, found->other_label, other);
}

/* Write a text such as "12 of 16 images are among 64 of train, too: record 0 of val is record 3 of train". */
static void describe_duplicates(const struct duplicates *found, const struct dataset *train,
                                const struct dataset *validation, char *text, size_t text_size)
{
    char first[NAME_TEXT_BYTES + 64], other[NAME_TEXT_BYTES + 64], relabelled[3 * NAME_TEXT_BYTES];
    name_record(validation, found->first, first, sizeof(first));
    name_record(train, found->other, other, sizeof(other));
    describe_relabelled(found, train, validation, relabelled, sizeof(relabelled));
    snprintf(text, text_size, "%s of %s %s are among %s of train, too%s: %s is %s", number_grouped(found->count).text,
             number_grouped(found->looked_at).text, found->are_images ? "images" : "records, byte for byte,",
             number_grouped(found->among).text, relabelled, first, other);
}

/* Limits of sets that are compared at the start of every run, which takes less than about 50 ms. */
#define COPIES_READ_MAX ((uint64_t)32 << 20)
#define COPIES_RECORDS_MAX UINT64_C(20000)

/* Warn if small sets have validation images that are also training images. */
static int warn_of_copies(const struct dataset *train, const struct dataset *validation, struct problems *problems)
{
    struct duplicates found;
    char text[6 * NAME_TEXT_BYTES];
    if (train == NULL || validation == NULL || train->record_count + validation->record_count > COPIES_RECORDS_MAX ||
        duplicates_bytes(train, validation) > COPIES_READ_MAX)
        return 0;
    const int rc = duplicates_find(&found, validation, train, COPIES_READ_MAX);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "not enough memory to look for validation records in train");
    if (rc < 0 || found.count == 0)
        return rc;
    describe_duplicates(&found, train, validation, text, sizeof(text));
    log_message(LOG_RUN, "validation: %s: what is trained on cannot validate (data.allow_overlap = yes: that is "
                "intended)", text);
    return 0;
}

/* Fail if validation uses training data; not called with data.allow_overlap. *are_told becomes true if copies were
 * reported. */
static int check_overlap(struct dataset *const datasets[PHASE_COUNT], bool *are_told, struct problems *problems)
{
    struct dataset_overlap overlap;
    const struct dataset *const validation = datasets[PHASE_EVALUATE];
    if (datasets[PHASE_TRAIN] == NULL || validation == NULL)
        return 0;
    struct dataset_overlap copies = { 0 };
    int rc = dataset_overlap_find(&overlap, validation, datasets[PHASE_TRAIN]);
    if (rc == 0 && overlap.count == 0)
        rc = dataset_copies_find(&copies, validation, datasets[PHASE_TRAIN]);
    if (rc < 0)
        problems_add(problems, "pipetrain", "not enough memory to compare the sets' files");
    else if (overlap.count > 0)
        add_overlap(validation, &overlap, problems);
    else if (copies.count > 0)
        report_copies(validation, &copies);
    *are_told |= copies.count > 0;
    return rc;
}

/* Check that each label is the same class in both sets, as far as names and numbers of classes show. */
static void check_classes(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
{
    char train[NAME_TEXT_BYTES], validation[NAME_TEXT_BYTES];
    if (datasets[PHASE_TRAIN] == NULL || datasets[PHASE_EVALUATE] == NULL ||
        !datasets_name_differently(datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE], train, validation, NAME_TEXT_BYTES))
        return;
    problems_add(problems, "pipetrain", "validation: its classes are not those of train: %s; train has %s: convert "
                 "both sets together, or name the classes of both with data.class_names = FILE", validation, train);
}

static void name_place(const struct dataset *dataset, uint64_t id, char text_out[NAME_TEXT_BYTES])
{
    char shown[NAME_TEXT_BYTES / 2];
    const struct dataset_place place = dataset_find(dataset, id);
    const char *const shard = dataset->paths[place.shard];
    log_escape(shard, strlen(shard), shown, sizeof(shown));
    snprintf(text_out, NAME_TEXT_BYTES, "%s: record %" PRIu64, shown, dataset_number(dataset, &place));
}

static void report_texts(const struct dataset *dataset, const struct class_texts *texts, const char *path,
                         const struct class_text_counts *tally, struct problems *problems)
{
    char text[2 * NAME_TEXT_BYTES], where[NAME_TEXT_BYTES];
    const char *const what_set = dataset->options.what;
    name_place(dataset, tally->record, where);
    class_text_counts_describe(tally, texts, (int64_t)tally->label - dataset->options.label_offset, path, where, text,
                              sizeof(text));
    if (class_text_counts_contradicts(tally))
        problems_add(problems, "pipetrain", "%s: %s: the names are in another order or of another set, or "
                     "data.label_offset is wrong: correct them", what_set, text);
    else
        log_message(LOG_RUN, "%s: %s", what_set, text);
}

static int compare_texts(const struct dataset *dataset, const struct class_names *names, const char *path,
                         struct class_text_counts *tally_out, struct problems *problems)
{
    struct class_texts texts = { .names = NULL };
    struct class_text_counts tally = { .wrong = 0 };
    *tally_out = tally;
    if (dataset == NULL || names->count == 0)
        return 0;
    int rc = class_texts_open(&texts, names);
    if (rc == 0)
        rc = class_text_survey_make(&tally, &texts, dataset);
    if (rc == 0 && tally.wrong > 0)
        report_texts(dataset, &texts, path, &tally, problems);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "not enough memory to compare the names of classes");
    class_texts_close(&texts);
    *tally_out = tally;
    return rc;
}

static void report_census(const struct dataset *dataset, const struct class_census_result *result,
                          struct problems *problems)
{
    char here[NAME_TEXT_BYTES], there[NAME_TEXT_BYTES], text[3 * NAME_TEXT_BYTES];
    if (!result->is_contradiction && !result->is_doubtful)
        return;
    name_place(dataset, result->usual->record, here);
    name_place(dataset, result->strange->record, there);
    class_census_describe(result, here, there, text, sizeof(text));
    if (result->is_contradiction)
        problems_add(problems, "pipetrain", "%s: %s: sets with other orders of classes were put together: convert them "
                     "together, or name the classes with data.class_names = FILE", dataset->options.what, text);
    else
        log_message(LOG_RUN, "%s: %s", dataset->options.what, text);
}

/* Without a list of class names: check that all records with the same label have the same image/class/text, in training
 * and validation. */
static int check_said(const struct dataset *first, const struct dataset *validation, struct problems *problems)
{
    static const char path[] = "records of train";
    struct class_census census = { .count = 0 };
    struct class_census_result result = { .right = 0 };
    struct class_names names = { .count = 0 };
    struct class_text_counts tally;
    int rc = class_census_make(&census, first);
    if (rc == 0) {
        result = class_census_end(&census);
        report_census(first, &result, problems);
    }
    if (rc == 0 && validation != NULL)
        rc = class_census_names(&names, &census, first);
    if (rc == 0 && !result.is_contradiction && result.right > SAID_RIGHT * result.wrong)
        rc = compare_texts(validation, &names, path, &tally, problems);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "not enough memory to compare the names of classes");
    class_names_release(&names);
    class_census_release(&census);
    return rc;
}

int run_data_check_texts(const struct dataset *dataset, const struct class_names *names, const char *path,
                         struct problems *problems)
{
    struct class_text_counts tally;
    return names->count == 0 ? check_said(dataset, NULL, problems)
                             : compare_texts(dataset, names, path, &tally, problems);
}

/* Compare the records' texts with the class names; a set without names uses those of the training set. */
static int check_texts(struct dataset *const datasets[PHASE_COUNT], bool is_shared, struct problems *problems)
{
    const struct dataset *const train = datasets[PHASE_TRAIN];
    const struct dataset *const validation = is_shared ? NULL : datasets[PHASE_EVALUATE];
    const bool has_own = validation != NULL && (validation->class_names.count > 0 || train == NULL);
    const struct dataset *const named = has_own ? validation : train;
    struct class_text_counts of_train = { .wrong = 0 }, tally = { .wrong = 0 };
    if (train != NULL && train->class_names.count == 0 && !has_own)
        return check_said(train, validation, problems);
    int rc = train == NULL ? 0
                           : compare_texts(train, &train->class_names, train->class_names_path, &of_train, problems);
    if (rc == 0 && validation != NULL)
        rc = compare_texts(validation, &named->class_names, named->class_names_path, &tally, problems);
    if (rc == 0 && validation != NULL && of_train.right > 0 && tally.right + tally.wrong == 0 && tally.unknown > 0)
        log_message(LOG_RUN, "validation: its records name no class of %s, as those of train do: they may be of other "
                    "classes", named->class_names_path);
    return rc;
}

static void report_untrained(const struct dataset *dataset, const struct label_survey *train,
                             const struct label_survey *held_out)
{
    uint32_t count = 0;
    int64_t first = 0;
    size_t at = 0;
    for (size_t i = 0; i < held_out->count; i++) {
        const int64_t label = held_out->labels[i];
        while (at < train->count && train->labels[at] < label)
            at++;
        if ((at < train->count && train->labels[at] == label) || (i > 0 && held_out->labels[i - 1] == label))
            continue;
        first = count++ == 0 ? label : first;
    }
    const int64_t number = first + dataset->options.label_offset;
    const bool is_named = number >= 0 && number < dataset->class_names.count;
    const char *const name = is_named ? dataset->class_names.names[number] : "";
    char shown[NAME_TEXT_BYTES];
    log_escape(name, strlen(name), shown, sizeof(shown));
    if (count > 0)
        log_message(LOG_RUN,
                    "train: data.validation_split leaves %" PRIu32 " class%s without a training record, such as "
                    "label %" PRId64 "%s%s",
                    count, count == 1 ? "" : "es", first, *shown != '\0' ? ", " : "", shown);
}

/* Warn of classes without a training record because all are held out, if all labels can be read. */
static int warn_of_untrained(const struct dataset *train, const struct dataset *held_out, struct problems *problems)
{
    struct label_survey of_train = { 0 }, of_rest = { 0 };
    if (train == NULL || held_out == NULL)
        return 0;
    int rc = label_survey_make(&of_train, train);
    if (rc == 0 && of_train.count == train->record_count)
        rc = label_survey_make(&of_rest, held_out);
    if (rc == 0)
        report_untrained(train, &of_train, &of_rest);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "not enough memory to read labels");
    label_survey_release(&of_train);
    label_survey_release(&of_rest);
    return rc;
}

/* Check that pixels of the same type are interpreted in the same way in both sets. */
static void check_formats(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
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
                 "data.image_range and data.image_layout for both", of_validation, of_train);
}

/* Warn of shards in the sets' directories that belong to no set. */
static int warn_of_left_out(struct dataset *const datasets[PHASE_COUNT], struct problems *problems)
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

/* The options of the set of a phase. With data.validation_split both sets are parts of the training set's files. */
static struct dataset_options options_of_pass(const struct settings *settings, const struct net *net, enum phase phase)
{
    const struct data_settings *const data = &settings->data;
    const bool is_shared = data->validation_split > 0;
    struct dataset_options options =
        options_of(data, net, phase == PHASE_TRAIN ? pixels_train_shape(settings, net) : net->input);
    options.what = what[is_shared ? PHASE_TRAIN : phase];
    /* The units of the last layer may have to be a multiple of the parts. */
    options.may_lack_classes = phase != PHASE_TRAIN || settings->model.parts > 0;
    options.part = !is_shared ? DATASET_ALL : phase == PHASE_TRAIN ? DATASET_REST : DATASET_HELD_OUT;
    options.held_out = data->validation_split;
    options.pattern = phase == PHASE_TRAIN || is_shared ? data->train : data->validation;
    return options;
}

void run_data_share_indexing(const struct settings *settings)
{
    const struct data_settings *const data = &settings->data;
    const struct index_share share = { .first = settings->rank, .step = settings->ranks,
                                       .skip_damage = data->on_corrupt == ON_CORRUPT_SKIP,
                                       .is_unwanted = signals_requested() };
    const struct { const char *patterns, *what; } sets[] = { { data->train, "train" },
                                                             { data->validation, "validation" } };
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]) && data->index_cache; i++)
        if (sets[i].patterns[0] != '\0')
            index_share_build(sets[i].patterns, sets[i].what, &share);
}

int run_data_open_validation(struct dataset **dataset_out, const struct settings *settings, const struct net *net,
                             bool is_any_label_taken, struct problems *problems)
{
    struct dataset_options options = options_of_pass(settings, net, PHASE_EVALUATE);
    options.is_any_label_taken = is_any_label_taken;
    options.classes_are_fixed = true;
    const int rc = open_set(dataset_out, &options, problems);
    return rc == 0 || rc == -ENOMEM ? rc : -EINVAL;
}

int run_data_open(struct dataset *datasets[PHASE_COUNT], const struct settings *settings, const struct net *net,
                  bool is_check, const struct dataset_start *const given[PHASE_COUNT], struct problems *problems)
{
    const struct data_settings *const data = &settings->data;
    const bool is_shared = data->validation_split > 0, leads = settings->rank == 0;
    bool are_told = is_check || data->allow_overlap || !leads;
    struct shard_counts counts = { 0 };
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc != -ENOMEM && !(is_shared && rc != 0); phase++) {
        struct dataset_options options = options_of_pass(settings, net, phase);
        options.counts = &counts;
        options.is_any_label_taken = is_check;
        options.keeps_start = leads && settings->ranks > 1;
        options.given = given[phase];
        rc = open_set(&datasets[phase], &options, problems);
    }
    shard_counts_release(&counts);
    if (problems->count > 0 && settings->input.source == INPUT_SYNTHETIC)
        problems_add(problems, "pipetrain", "input.source = synthetic needs no shards: data.train and data.validation may "
                     "be empty (--set data.train= --set data.validation=)");
    if (!data->allow_overlap && !is_shared && rc != -ENOMEM)
        rc = check_overlap(datasets, &are_told, problems);
    if (problems->count == 0 && !is_shared)
        check_classes(datasets, problems);
    if (problems->count == 0)
        check_formats(datasets, problems);
    if (problems->count == 0 && leads)
        rc = check_texts(datasets, is_shared, problems);
    if (problems->count == 0 && is_shared && rc == 0 && leads)
        rc = warn_of_untrained(datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE], problems);
    if (problems->count == 0 && !are_told && rc == 0)
        rc = warn_of_copies(datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE], problems);
    if (problems->count == 0)
        rc = warn_of_left_out(datasets, problems);
    return problems->count == 0 ? 0 : rc == -ENOMEM ? -ENOMEM : -EINVAL;
}

/* Print the names of the first and the last file, on one or two lines. */
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

/* Print how images and labels are stored. */
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

/* Print which shards need not be opened at the start. */
static void print_catalogs(const struct dataset *dataset, FILE *out)
{
    for (uint32_t i = 0; i < dataset->catalog_count; i++) {
        const struct dataset_catalog *const catalog = dataset->catalogs[i];
        const uint32_t shards = catalog->plain_count + catalog->packed_count;
        char packed[64] = "";
        if (catalog->packed_count > 0)
            snprintf(packed, sizeof(packed), ", %" PRIu32 " compressed one%s now", catalog->packed_count,
                     catalog->packed_count == 1 ? "" : "s");
        if (shards > 0)
            wrapped_print(out, "%*sindexes of %" PRIu32 " shard%s from %s: a shard is opened when it is first read%s%s",
                          (int)WRAPPED_INDENT, "", shards, shards == 1 ? "" : "s", catalog->path, packed,
                          dataset->options.skip_damage ? "; damaged records keep their places in the order" : "");
    }
}

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
        print_catalogs(dataset, out);
        print_names(dataset, out);
        print_format(dataset, out);
    }
}

void run_data_warn(const struct dataset *dataset, const struct order_shape *shape, uint64_t seed)
{
    static const char *const advice[] = {
        [SHUFFLE_NONE] = "use data.shuffle = full or block, or shuffle the set when it is written",
        [SHUFFLE_FULL] = "check the set",
        [SHUFFLE_BLOCK] = "use a larger data.shuffle_window or a smaller input.read_block",
    };
    struct label_order look;
    if (label_order_look(&look, dataset, shape, seed) < 0)
        return;
    if (look.is_one_label && dataset->options.classes > 1 && dataset->record_count >= ONE_LABEL_RECORDS)
        log_message(LOG_RUN,
                    "%s: every label read so far is %" PRId64 ", and the network has %" PRIu32 " classes: is '%s' the "
                    "right feature (data.label_key)?", dataset->options.what, look.label,
                    dataset->options.classes, dataset->format.keys[SAMPLE_LABEL]);
    if (!label_order_is_sorted(&look))
        return;
    log_message(LOG_RUN,
                "%s: of %" PRIu32 " pairs of successive records %" PRIu32 " have the same label, where %.0f would by "
                "chance: the order mixes classes badly: %s",
                dataset->options.what, look.pairs, look.equal, look.expected, advice[shape->shuffle]);
}

/* ---- --check ---- */

#define COLUMNS 80u
#define INDENT 8u
/* With more classes only the summary is printed, no count of each class. */
#define LISTED_MAX 100u
/* With so many records of each class, at least one record of the lowest label is expected. */
#define RECORDS_OF_CLASS 10u

/* A sequence of equal labels in a sorted survey. */
struct stretch {
    int64_t label;
    size_t count;
};

static struct stretch stretch_at(const struct label_survey *survey, size_t first)
{
    size_t end = first;
    while (end < survey->count && survey->labels[end] == survey->labels[first])
        end++;
    return (struct stretch){ survey->labels[first], end - first };
}

struct label_sums {
    size_t classes, rarest, commonest;
};

static struct label_sums sum_labels(const struct label_survey *survey)
{
    struct label_sums sums = { 0, SIZE_MAX, 0 };
    for (size_t i = 0; i < survey->count;) {
        const struct stretch stretch = stretch_at(survey, i);
        sums.classes++;
        sums.rarest = stretch.count < sums.rarest ? stretch.count : sums.rarest;
        sums.commonest = stretch.count > sums.commonest ? stretch.count : sums.commonest;
        i += stretch.count;
    }
    return sums;
}

/* Print the counts of the labels, wrapped: "0: 98  1: 102  ...". */
static void print_counts(const struct label_survey *survey, FILE *out)
{
    size_t column = COLUMNS;
    for (size_t i = 0; i < survey->count;) {
        const struct stretch stretch = stretch_at(survey, i);
        char text[64];
        const size_t bytes = (size_t)snprintf(text, sizeof(text), "  %" PRId64 ": %zu", stretch.label, stretch.count);
        if (column + bytes > COLUMNS) {
            fprintf(out, "%s%*s", i > 0 ? "\n" : "", (int)INDENT, "");
            column = INDENT;
        }
        fputs(text, out);
        column += bytes;
        i += stretch.count;
    }
    fputc('\n', out);
}

static const char *name_of(const struct dataset *dataset)
{
    return dataset->options.part == DATASET_HELD_OUT ? "validation" : dataset->options.what;
}

static void print_survey(const struct label_survey *survey, const struct dataset *dataset, FILE *out)
{
    const struct label_sums sums = sum_labels(survey);
    char found[128] = "";
    if (survey->count > 0) {
        int bytes = snprintf(found, sizeof(found), ": %zu label%s from %" PRId64 " to %" PRId64 ", %zu", sums.classes,
                             sums.classes == 1 ? "" : "s", survey->labels[0], survey->labels[survey->count - 1],
                             sums.rarest);
        if (sums.commonest > sums.rarest)
            bytes += snprintf(found + bytes, sizeof(found) - (size_t)bytes, " to %zu", sums.commonest);
        snprintf(found + bytes, sizeof(found) - (size_t)bytes, " record%s each", sums.commonest == 1 ? "" : "s");
    }
    wrapped_print(out, "labels    %-10s %s of %s records verified%s", name_of(dataset),
                  number_grouped(survey->count).text, number_grouped(dataset->record_count).text, found);
    if (survey->count > 0 && sums.classes <= LISTED_MAX)
        print_counts(survey, out);
    if (survey->repeats > 0)
        wrapped_print(out, "%10s%s of them have several images or labels, of which the last one is used", "",
                      number_grouped(survey->repeats).text);
}

/* The number of records that cannot be read, the id of the first one, and its problem. */
struct unreadable {
    uint64_t count, id;
    const struct record_problem *problem;
};

/* Report them as a problem, because a run would fail at such a record; with data.on_corrupt = skip only print a
 * line. */
static void report_unreadable(const struct unreadable *bad, const struct dataset *dataset, FILE *out,
                            struct problems *problems)
{
    char text[DAMAGE_TEXT_BYTES], more[64] = "";
    if (dataset->options.skip_damage) {
        fprintf(out, "%10s%s more cannot be read and will be skipped\n", "", number_grouped(bad->count).text);
        return;
    }
    record_describe(dataset, bad->id, bad->problem, text, sizeof(text));
    if (bad->count > 1)
        snprintf(more, sizeof(more), "; %s more records are damaged", number_grouped(bad->count - 1).text);
    problems_add(problems, "pipetrain", "%s: %s%s%s", name_of(dataset), text, more,
                 bad->problem->is_damage ? SHARD_SKIP_ADVICE : "");
}

static void add_label_problem(const struct label_survey *survey, const struct dataset *dataset,
                              struct problems *problems)
{
    const uint32_t classes = dataset->options.classes;
    const int64_t lowest = survey->labels[0], highest = survey->labels[survey->count - 1];
    int64_t offset;
    const bool has_offset = label_survey_offset(survey, classes, &offset);
    if (lowest == -1 && dataset->options.label_offset == 0)
        problems_add(problems, "pipetrain", "%s: labels are -1 to %" PRId64 ", which are not in [0, %" PRIu32 "): %s%s",
                     name_of(dataset), highest, classes, LABEL_MINUS_ONE,
                     has_offset ? "; " LABEL_COUNTED_FROM_MINUS_ONE : "");
    else if (has_offset)
        problems_add(problems, "pipetrain",
                     "%s: labels are %" PRId64 " to %" PRId64 " as stored, with label_offset = %" PRId64
                     " they are not in [0, %" PRIu32 "): set data.label_offset = %" PRId64,
                     name_of(dataset), lowest, highest, dataset->options.label_offset, classes, offset);
    else
        problems_add(problems, "pipetrain",
                     "%s: labels are %" PRId64 " to %" PRId64 " as stored, which %s the %" PRIu32
                     " classes of the network: see data.classes", name_of(dataset), lowest, highest,
                     (uint64_t)highest - (uint64_t)lowest < classes ? "no data.label_offset moves to"
                     : "span more than", classes);
}

/* Print a hint if labels are in range, but may be counted from 1. */
static void print_doubt(const struct label_survey *survey, const struct dataset *dataset, FILE *out)
{
    const size_t classes = sum_labels(survey).classes + 1;
    const int64_t offset = dataset->options.label_offset;
    if (survey->count < RECORDS_OF_CLASS * classes || survey->labels[0] + offset != 1)
        return;
    wrapped_print(out, "%10sno record of class 0: if labels count from 1, set data.label_offset = %" PRId64, "",
                  offset - 1);
}

#define LARGEST_SHARE 0.5       /* of a class, from which on accuracy alone says little */
#define LARGEST_TIMES 1.2       /* and so many times the share that the class has where all have the same */

/* Print the share of the largest class if accuracy alone says little because of it. */
static void print_largest(const struct label_survey *survey, const struct dataset *dataset, FILE *out)
{
    struct stretch largest = { .count = 0 };
    for (size_t i = 0; i < survey->count;) {
        const struct stretch stretch = stretch_at(survey, i);
        largest = stretch.count > largest.count ? stretch : largest;
        i += stretch.count;
    }
    const double share = (double)largest.count / (double)survey->count;
    if (largest.count == survey->count && survey->count >= ONE_LABEL_RECORDS && dataset->options.classes > 1) {
        wrapped_print(out, "%10severy label is %" PRId64 ", and the network has %" PRIu32 " classes: is '%s' the right "
                      "feature (data.label_key), or are these placeholders, as in test sets without labels?", "",
                      largest.label, dataset->options.classes, dataset->format.keys[SAMPLE_LABEL]);
        return;
    }
    const uint32_t class = (uint32_t)(largest.label + dataset->options.label_offset);
    if (share > LARGEST_SHARE && share > LARGEST_TIMES / dataset->options.classes)
        wrapped_print(out, "%10sclass %s has %.1f %% of the records: always answering it is so accurate; watch the "
                      "balanced accuracy and the macro F1, too (train.best_by)", "",
                      class_text_of(&dataset->class_names, class).text, 100 * share);
}

static int check_labels(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    struct label_survey survey;
    const int rc = label_survey_make(&survey, dataset);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: not enough memory to read labels", name_of(dataset));
    if (rc < 0)
        return rc;
    print_survey(&survey, dataset, out);
    if (survey.unreadable > 0)
        report_unreadable(&(struct unreadable){ survey.unreadable, survey.bad_id, &survey.problem }, dataset, out,
                        problems);
    const bool is_broken = survey.unreadable > 0 && !dataset->options.skip_damage;
    const bool fits = label_survey_fits(&survey, dataset->options.label_offset, dataset->options.classes);
    if (!fits)
        add_label_problem(&survey, dataset, problems);
    else if (survey.count > 0)
        print_doubt(&survey, dataset, out);
    if (fits && survey.count > 0)
        print_largest(&survey, dataset, out);
    label_survey_release(&survey);
    return fits && !is_broken ? 0 : -EINVAL;
}

static void print_images(const struct image_survey *survey, const struct dataset *dataset, FILE *out)
{
    const bool is_part = survey->count + survey->unreadable < dataset->record_count;
    char pixels[96] = "", flawed[64] = "";
    if (survey->count > 0)
        snprintf(pixels, sizeof(pixels), ": pixels from %u to %u, mean %.1f", survey->lowest, survey->highest,
                 survey->mean);
    if (survey->flawed > 0)
        snprintf(flawed, sizeof(flawed), "; the decoder warns of %s of them", number_grouped(survey->flawed).text);
    wrapped_print(out, "images    %-10s %s of %s decoded%s%s%s%s%s", name_of(dataset),
                  number_grouped(survey->count).text, number_grouped(dataset->record_count).text, pixels, flawed,
                  is_part ? "; " : "", is_part ? program_folder() : "",
                  is_part ? "pipetrain-shards check --decode decodes all" : "");
}

static void print_turned(const struct image_survey *survey, FILE *out)
{
    if (survey->turned > 0)
        wrapped_print(out, "%10s%s of them %s rotated by their EXIF orientation, which training ignores unless "
                      "augment.orientation = exif", "", number_grouped(survey->turned).text,
                      survey->turned == 1 ? "is" : "are");
}

/* Report images of nearly one colour: their contents may be lost, for example if they were in the opacity of a PNG. */
static void print_flat(const struct image_survey *survey, const struct dataset *dataset, FILE *out)
{
    char first[NAME_TEXT_BYTES + 64];
    if (survey->flat == 0)
        return;
    name_record(dataset, survey->flat_id, first, sizeof(first));
    wrapped_print(out, "%10s%s of them %s nearly of one colour: the first is %s", "", number_grouped(survey->flat).text,
                  survey->flat == 1 ? "is" : "are", first);
}

/* Warn of nearly black images. For a set of raw images this is done when it is opened. */
static void warn_of_images(const struct image_survey *survey, const struct dataset *dataset)
{
    if (survey->count < PIXELS_WARNED_IMAGES || dataset->format.image != &image_encoded_ops ||
        survey->highest >= PIXELS_NEARLY_BLACK)
        return;
    log_message(LOG_RUN, "%s: the brightest pixel of %" PRIu64 " images is %u of 255: they are nearly black",
                name_of(dataset), survey->count, survey->highest);
}

static int check_images(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    struct image_survey survey;
    const int rc = image_survey_make(&survey, dataset);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: not enough memory to decode images", name_of(dataset));
    if (rc < 0)
        return rc;
    print_images(&survey, dataset, out);
    print_turned(&survey, out);
    print_flat(&survey, dataset, out);
    warn_of_images(&survey, dataset);
    if (survey.unreadable > 0)
        report_unreadable(&(struct unreadable){ survey.unreadable, survey.bad_id, &survey.problem }, dataset, out,
                        problems);
    return survey.unreadable > 0 && !dataset->options.skip_damage ? -EINVAL : 0;
}

/* Print how many images of the set are there with two labels, of which one must be wrong. */
static int check_conflicts(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    struct label_conflicts found;
    char first[NAME_TEXT_BYTES + 64], other[NAME_TEXT_BYTES + 64];
    const int rc = label_conflicts_find(&found, dataset, DUPLICATES_READ_MAX);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: not enough memory to look for equal images", name_of(dataset));
    if (rc < 0 || found.count == 0)
        return rc;
    name_record(dataset, found.first, first, sizeof(first));
    name_record(dataset, found.other, other, sizeof(other));
    wrapped_print(out, "copies    %-10s %s of %s images %s there with another label, too: %s has label %" PRId64
                  ", and the same image in %s has label %" PRId64, name_of(dataset), number_grouped(found.count).text,
                  number_grouped(found.looked_at).text, found.count == 1 ? "is" : "are", first, found.first_label, other,
                  found.other_label);
    return 0;
}

/* Check labels, then images; if labels are wrong, images are not decoded, so that a bad record is reported only
 * once. */
static int check_set(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    int rc = check_labels(dataset, out, problems);
    if (rc == 0)
        rc = check_images(dataset, out, problems);
    return rc == 0 ? check_conflicts(dataset, out, problems) : rc;
}

/* Print how many validation records are also in the training set. */
static int check_duplicates(const struct dataset *train, const struct dataset *validation, FILE *out,
                            struct problems *problems)
{
    struct duplicates found;
    char text[6 * NAME_TEXT_BYTES];
    const int rc = duplicates_find(&found, validation, train, DUPLICATES_READ_MAX);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "not enough memory to look for validation records in train");
    if (rc < 0 || found.looked_at == 0)
        return rc;
    if (found.count > 0)
        describe_duplicates(&found, train, validation, text, sizeof(text));
    else
        snprintf(text, sizeof(text), "none of %s %s is among %s of train", number_grouped(found.looked_at).text,
                 found.are_images ? "images" : "records, byte for byte,", number_grouped(found.among).text);
    wrapped_print(out, "copies    %-10s %s", "validation", text);
    return 0;
}

/* Check all sets. 0, -EINVAL with problems, -ENOMEM, or -ECANCELED soon after a signal. */
static int check_all(const struct dataset *const datasets[PHASE_COUNT], FILE *out, struct problems *problems)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && (rc == 0 || rc == -EINVAL); phase++) {
        const int result = datasets[phase] != NULL ? check_set(datasets[phase], out, problems) : 0;
        rc = result != 0 ? result : rc;
    }
    if (rc == 0 && datasets[PHASE_TRAIN] != NULL && datasets[PHASE_EVALUATE] != NULL)
        rc = check_duplicates(datasets[PHASE_TRAIN], datasets[PHASE_EVALUATE], out, problems);
    fflush(out);
    return rc;
}

int run_data_check(const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = check_all(datasets, out, &problems);
    if (rc != 0 && rc != -ECANCELED)
        return problems_end(&problems, exit_code_of(rc, EXIT_CODE_DATA));
    problems_release(&problems);
    return rc == 0 ? 0 : signals_exit_code();
}
