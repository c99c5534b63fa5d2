/* pipetrain-convert: converts a data set to TFRecord shards. This file parses the command line, and runs a
 * conversion from the first check to the final commit; the converters (convert_mnist.c, ...) provide the samples. */
#include "tools/convert/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "formats/split_name.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "stage/text/output.h"
#include "tools/convert/set_description.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/splits.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/limits.h"
#include "tools/lib/phase.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/progress.h"
#include "tools/lib/version.h"

/* ---- the command line ---- */

struct convert_command {
    const struct converter *converter;  /* NULL: print the help or the version */
    struct convert_options options;     /* strings are those of argv */
    unsigned given;                     /* bits of enum convert_option: options that were given */
    enum progress_form progress;
    bool stores_unseen;                 /* --no-decode: do not check images */
    bool wants_help, wants_version;
};

#define JOBS_MAX 1024

static const struct converter *const converters[] = {
    &convert_folder, &convert_archive, &convert_webdataset, &convert_csv, &convert_npy, &convert_tfrecord,
    &convert_mnist, &convert_cifar10, &convert_cifar100, &convert_digits,
};
#define CONVERTER_COUNT (sizeof(converters) / sizeof(converters[0]))

#define FIELD(name) .offset = offsetof(struct convert_command, name)

static const char *const packing_names[] = { [PACKING_NONE] = "none", [PACKING_GZIP] = "gzip", [PACKING_LZ4] = "lz4",
                                             NULL };
static const char *const progress_names[] = { [PROGRESS_AUTO] = "auto", [PROGRESS_BAR] = "bar",
                                              [PROGRESS_LINE] = "line", [PROGRESS_JSON] = "json",
                                              [PROGRESS_NONE] = "none", NULL };

/* Options with a `group` are only for converters that take it (enum convert_option). */
static const struct program_option option_rows[] = {
    { .letter = 'o', .name = "output", .value = "OUT", .store = STORE_TEXT, FIELD(options.output),
      .help = "output directory; created, with its parents, if it does not exist" },
    { .name = "force", .store = STORE_FLAG, FIELD(options.may_replace), .help = "replace an existing data set" },
    { .name = "shards", .value = "N", .store = STORE_NUMBER, .least = 1, .most = SHARD_COUNT_MAX, FIELD(options.shards),
      .help = "number of training shards (default 4, more if they would exceed 1 GiB)" },
    { .name = "shard-size", .value = "BYTES", .store = STORE_BYTES, .least = 1, FIELD(options.shard_bytes),
      .help = "approximate size of a shard instead, e.g. 64MiB" },
    { .name = "compress", .value = "HOW", .store = STORE_CHOICE, .choices = packing_names, FIELD(options.packing),
      .help = "none (default), gzip or lz4" },
    { .name = "validation", .value = "N", .least = 0, .most = UINT32_MAX, FIELD(options.validation),
      .help = "number of samples to hold out for validation, or a fraction such as 0.1, if the input has no validation "
              "set (digits: number to draw, default 4000)" },
    { .name = "shuffle", .value = "SEED", .least = 0, .most = UINT64_MAX, FIELD(options.seed),
      .help = "seed of the record order, of the validation samples and of drawn digits (default 1); none: keep the "
              "order of the input, and seed 1 for the rest" },
    { .name = "jobs", .value = "N", .store = STORE_NUMBER, .least = 1, .most = JOBS_MAX, FIELD(options.jobs),
      .help = "threads (default: one per processor); the output does not depend on it" },
    { .name = "resize-short", .value = "N", .store = STORE_NUMBER, .least = 1, .most = UINT16_MAX,
      FIELD(options.change.short_side), .group = CONVERT_RESIZE,
      .help = "folder, tar, webdataset, csv, tfrecord: shrink images whose shorter side exceeds N pixels to N; these "
              "become JPEG (chroma 4:2:0), all others keep every byte" },
    { .name = "quality", .value = "Q", .store = STORE_NUMBER, .least = 1, .most = 100, FIELD(options.change.quality),
      .group = CONVERT_QUALITY, .help = "JPEG quality of shrunk and turned images, 1 to 100 (default 90)" },
    { .name = "upright", .store = STORE_FLAG, FIELD(options.change.is_upright), .group = CONVERT_UPRIGHT,
      .help = "folder, tar, webdataset, csv, tfrecord: turn JPEG images whose EXIF orientation is not upright; these "
              "become JPEG again" },
    { .name = "raw", .store = STORE_FLAG, FIELD(options.change.is_raw), .group = CONVERT_RAW,
      .help = "folder, tar, webdataset, csv, tfrecord: store decoded pixels (uint8, grey or RGB)" },
    { .name = "no-decode", .store = STORE_FLAG, FIELD(stores_unseen), .group = CONVERT_NO_DECODE,
      .help = "folder, tar, webdataset, csv, tfrecord: do not decode the images that are stored as they are; damaged "
              "ones are then not found (default: all are decoded, and one that cannot be is refused)" },
    { .name = "skip-unreadable", .store = STORE_FLAG, FIELD(options.skips_unreadable),
      .group = CONVERT_SKIP_UNREADABLE,
      .help = "folder, tar, webdataset, csv, tfrecord: leave out images that cannot be read, and samples without image "
              "or label, instead of refusing the input; they are named, counted and listed in dataset.json" },
    { .name = "image-key", .value = "KEY", .store = STORE_TEXT, FIELD(options.image_key), .group = CONVERT_IMAGE_KEY,
      .help = "tfrecord: feature that contains the image, if it has an unusual name; webdataset: extension of the "
              "image, if a sample has several (jpg)" },
    { .name = "label-key", .value = "KEY", .store = STORE_TEXT, FIELD(options.label_key), .group = CONVERT_LABEL_KEY,
      .help = "tfrecord: feature that contains the label; webdataset: extension of the file with the label (cls), or "
              "member of the .json with it" },
    { .name = "folders-are-classes", .store = STORE_FLAG, FIELD(options.folders_are_classes), .group = CONVERT_FOLDERS,
      .help = "folder, tar: take every folder for a class, whatever its name or contents suggest" },
    { .name = "images", .value = "DIR", .store = STORE_TEXT, FIELD(options.images_folder),
      .group = CONVERT_IMAGES_FOLDER,
      .help = "csv: folder that the paths in the table are relative to (default: the folder of the table)" },
    { .name = "label-column", .value = "COLUMN", .store = STORE_TEXT, FIELD(options.label_column),
      .group = CONVERT_LABEL_COLUMN, .help = "csv, folder with metadata.csv: name or number of the column with the "
      "classes" },
    { .name = "path-column", .value = "COLUMN", .store = STORE_TEXT, FIELD(options.path_column),
      .group = CONVERT_PATH_COLUMN, .help = "csv: that with the paths of the images" },
    { .name = "pixels-column", .value = "COLUMN", .store = STORE_TEXT, FIELD(options.pixels_column),
      .group = CONVERT_PIXELS_COLUMN,
      .help = "csv: that with all pixels of an image, or the first of those with one each" },
    { .name = "split-column", .value = "COLUMN", .store = STORE_TEXT, FIELD(options.split_column),
      .group = CONVERT_SPLIT_COLUMN, .help = "csv: that with the splits (train, validation, test), or none" },
    { .name = "train", .value = "N", .store = STORE_NUMBER, .least = 1, .most = UINT32_MAX, FIELD(options.train),
      .group = CONVERT_TRAIN, .help = "digits: number of training images to draw (default 20000)" },
    { .name = "label", .value = "WHICH", .store = STORE_TEXT, FIELD(options.label), .group = CONVERT_LABEL,
      .help = "cifar100: fine (100 classes, the default) or coarse (20)" },
    { .name = "progress", .value = "KIND", .store = STORE_CHOICE, .choices = progress_names, FIELD(progress),
      .help = "progress of long tasks on stderr: bar, line (every ten seconds), json (lines of JSON) or none (default: "
              "bar on a terminal, else line)" },
    { .letter = 'q', .name = "quiet", .store = STORE_FLAG, FIELD(options.is_quiet), .help = "print only errors" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(wants_help), .help = "this text" },
    { .name = "version", .store = STORE_FLAG, FIELD(wants_version), .help = "the version" },
    { .name = NULL },
};

static int store_other(void *out, const struct program_option *option, const char *value);

static int note_group(void *out, const struct program_option *option)
{
    ((struct convert_command *)out)->given |= option->group;
    return 0;
}

static const struct program_command command_line = {
    .usage = CONVERT_PROGRAM, .options = option_rows, .accept = note_group, .store = store_other,
};

#define usage_error(...) program_usage_error(&command_line, __VA_ARGS__)

static int store_number(struct convert_command *command, const struct program_option *option, const char *text)
{
    uint64_t *const field = (uint64_t *)((char *)command + option->offset);
    uint64_t value;

    if (!decimal_u64(text, &value) || value > option->most)
        return usage_error("--%s: '%s' is not a whole number from 0 to %" PRIu64, option->name, text, option->most);
    *field = value;
    return 0;
}

/* Parse the value of --validation: a number of samples or, with a decimal point, a fraction of all samples. */
static int store_validation(struct convert_command *command, const struct program_option *option, const char *text)
{
    command->options.has_validation = true;
    command->options.validation_share = 0;
    if (text[strspn(text, "0123456789")] == '\0')
        return store_number(command, option, text);
    char *end;
    const double share = strtod(text, &end);
    if (strchr(text, '.') == NULL || *end != '\0' || !(share > 0 && share < 1))
        return usage_error("--validation: '%s' is neither a whole number nor a fraction between 0 and 1, such as 0.1",
                           text);
    command->options.validation_share = share;
    return 0;
}

static int store_other(void *out, const struct program_option *option, const char *value)
{
    struct convert_command *const command = out;

    if (strcmp(option->name, "validation") == 0)
        return store_validation(command, option, value);
    command->options.keeps_order = strcmp(value, "none") == 0;          /* --shuffle */
    return store_number(command, option, command->options.keeps_order ? "1" : value);
}

/* --progress prevails over --quiet. */
static void set_verbosity(const struct convert_command *command)
{
    const bool is_quiet = command->options.is_quiet;
    progress_choose(is_quiet && command->progress == PROGRESS_AUTO ? PROGRESS_NONE : command->progress);
    if (is_quiet)
        log_only_errors();
}

static const struct converter *find_converter(const char *name)
{
    for (size_t i = 0; i < CONVERTER_COUNT; i++) {
        if (strcmp(converters[i]->name, name) == 0)
            return converters[i];
    }
    return NULL;
}

/* "mnist, digits" */
static const char *list_converters(char *text, size_t text_size)
{
    size_t length = 0;

    for (size_t i = 0; i < CONVERTER_COUNT && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%s", i > 0 ? ", " : "", converters[i]->name);
    return text;
}

/* Usual names for the inputs of converters. */
static const struct { const char *name, *converter; } other_names[] = {
    { "zip", "tar" }, { "7z", "tar" }, { "archive", "tar" }, { "archives", "tar" }, { "tgz", "tar" },
    { "tar.gz", "tar" }, { "wds", "webdataset" }, { "images", "folder" }, { "image", "folder" },
    { "directory", "folder" }, { "dir", "folder" }, { "imagefolder", "folder" }, { "photos", "folder" },
    { "jpeg", "folder" }, { "jpg", "folder" }, { "png", "folder" }, { "imagenet", "folder" }, { "table", "csv" },
    { "tsv", "csv" }, { "txt", "csv" }, { "jsonl", "csv" }, { "kaggle", "csv" }, { "metadata", "folder" },
    { "huggingface", "folder" }, { "parquet", "webdataset" },
    { "numpy", "npy" }, { "npz", "npy" }, { "array", "npy" },
    { "arrays", "npy" }, { "shards", "tfrecord" }, { "records", "tfrecord" }, { "tfrecords", "tfrecord" },
    { "tfds", "tfrecord" }, { "idx", "mnist" }, { "fashion-mnist", "mnist" }, { "fashion_mnist", "mnist" },
    { "kmnist", "mnist" }, { "cifar", "cifar10" },
};

static const char *find_other_name(const char *name)
{
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
        if (strcasecmp(other_names[i].name, name) == 0)
            return other_names[i].converter;
    }
    return NULL;
}

static int unknown_converter(const char *name)
{
    const char *const meant = find_other_name(name);
    struct nearest nearest = { .name = name };
    char names[256];

    if (meant != NULL)
        return usage_error("'%s' is no converter: use '%s', %s", name, meant, find_converter(meant)->summary);
    for (size_t i = 0; i < CONVERTER_COUNT; i++)
        nearest_offer(&nearest, converters[i]->name, converters[i]->name);
    if (nearest.best != NULL)
        return usage_error("'%s' is no converter (did you mean '%s'?)", name, (const char *)nearest.best);
    return usage_error("'%s' is no converter; there are %s", name, list_converters(names, sizeof(names)));
}

static int parse_words(struct convert_command *command, char **words, int count)
{
    struct convert_options *const options = &command->options;
    char names[256];

    if (count == 0)
        return usage_error("no converter named: give one of %s", list_converters(names, sizeof(names)));
    const struct converter *const converter = find_converter(*words);
    if (converter == NULL)
        return unknown_converter(*words);
    command->converter = converter;
    options->inputs = words + 1;
    options->input_count = (size_t)(count - 1);
    if (options->input_count < converter->input_count_least)
        return usage_error("%s: no input given: %s %s", converter->name, converter->name, converter->inputs);
    if (options->input_count > converter->input_count_most)
        return usage_error("unexpected argument '%s': %s %s%s", options->inputs[converter->input_count_most],
                           converter->name, converter->inputs, (converter->takes & CONVERT_IMAGES_FOLDER) != 0
                           ? "; a column split with train, validation and test makes three sets of one table" : "");
    return 0;
}

/* Check options that depend on each other. */
static int check_options(const struct convert_command *command)
{
    const struct convert_options *const options = &command->options;
    const struct converter *const converter = command->converter;

    if (options->output == NULL || *options->output == '\0')
        return usage_error("no output directory: give -o OUT");
    if (options->shards > 0 && options->shard_bytes > 0)
        return usage_error("give --shards or --shard-size, not both");
    for (const struct program_option *option = option_rows; option->name != NULL; option++) {
        if ((option->group & command->given & ~converter->takes) != 0)
            return usage_error("%s: --%s does not apply", converter->name, option->name);
    }
    const bool makes_jpegs = (options->change.short_side > 0 || options->change.is_upright) && !options->change.is_raw;
    if ((command->given & CONVERT_QUALITY) != 0 && !makes_jpegs)
        return usage_error("--quality is for images that become JPEG: give --resize-short or --upright, and not --raw");
    if (command->stores_unseen && options->change.is_raw)
        return usage_error("--no-decode has no effect with --raw, which decodes all images");
    if ((converter->takes & CONVERT_TRAIN) != 0 && options->validation_share > 0)
        return usage_error("%s: --validation must be a whole number of samples to draw", converter->name);
    return 0;
}

static uint64_t processor_count(void)
{
    const uint32_t count = limits_cores();
    return count > JOBS_MAX ? JOBS_MAX : count;
}

static int convert_command_parse(struct convert_command *command, int argc, char **argv)
{
    *command = (struct convert_command){
        .options = { .seed = 1, .jobs = processor_count(), .train = 20000, .validation = 4000,
                     .change.quality = 90 },
    };
    int first, rc = program_options_read(&command_line, argc, argv, command, &first);
    if (rc < 0 || command->wants_help || command->wants_version)
        return rc;
    set_verbosity(command);
    rc = parse_words(command, argv + first, argc - first);
    command->options.change.is_checked = rc == 0 && (command->converter->takes & CONVERT_NO_DECODE) != 0 &&
                                         !command->stores_unseen;
    return rc < 0 ? rc : check_options(command);
}

static void convert_command_help(void)
{
    printf("Usage: " CONVERT_PROGRAM " WHAT [INPUT]... -o OUT [OPTION]...\n"
           "Convert a data set to TFRecord shards: train-00000-of-00004, ...,\n"
           "validation-00000-of-00001.\n\n");
    for (size_t i = 0; i < CONVERTER_COUNT; i++) {
        char words[64];
        snprintf(words, sizeof(words), "%s %s", converters[i]->name, converters[i]->inputs);
        program_help_line(words, converters[i]->summary, stdout);
    }
    printf("\n");
    program_option_help(option_rows, stdout);
    printf("\n"
           "The output appears only when all of it has been written, synced and read back.\n"
           "An existing data set is kept, unless --force is given.\n\n"
           "Examples:\n"
           "  " CONVERT_PROGRAM " tfrecord shards -o packed --compress=lz4 --shard-size=64MiB\n"
           "  " CONVERT_PROGRAM " mnist downloads -o mnist\n"
           "  " CONVERT_PROGRAM " cifar10 cifar-10-binary.tar.gz -o cifar10\n"
           "  " CONVERT_PROGRAM " folder photos -o shards --validation=0.1\n"
           "  " CONVERT_PROGRAM " folder photos -o shards --validation=0.1 --skip-unreadable\n"
           "  " CONVERT_PROGRAM " folder photos -o small --validation=0.1 --resize-short=256\n"
           "  " CONVERT_PROGRAM " tfrecord shards -o raw --resize-short=256 --raw\n"
           "  " CONVERT_PROGRAM " tar train.tar.gz test.tar.gz -o shards\n"
           "  " CONVERT_PROGRAM " webdataset 'train-{000..099}.tar' 'val-*.tar' -o shards\n"
           "  " CONVERT_PROGRAM " csv labels.csv -o shards\n"
           "  " CONVERT_PROGRAM " csv labels.csv --images=train -o shards --validation=0.1\n"
           "  " CONVERT_PROGRAM " npy x.npy y.npy -o arrays --validation=0.1\n"
           "  " CONVERT_PROGRAM " digits -o more --train=60000 --validation=10000 --shuffle=2\n\n"
           "Exit status: 0 done, 2 wrong command line, 3 input missing or damaged, 4 out of\n"
           "memory, 5 output not written, 75 stopped by a signal, 130 by SIGINT.\n");
}

/* ---- the conversion ---- */

static int commit(struct shard_set *set, const struct conversion *conversion, const struct convert_options *options,
                  struct stop *stop)
{
    phase_enter(RUN_PHASE_SAVING);
    if (conversion->finish != NULL) {
        const int rc = conversion->finish(conversion, stop);
        if (rc < 0)
            return rc;
    }
    char *const text = set_description(conversion, set, options);
    if (text == NULL)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for " MANIFEST_FILE);
    const int rc = text != NULL ? shard_set_commit(set, text) : -ENOMEM;
    free(text);
    return rc;
}

#define CLASSES_BYTES 300u      /* for the list of class names */
#define MESSAGES_MS 1000u       /* time limit for writing messages before the result */

/* "3 classes: cat, dog, owl", or as many as fit. */
static void report_classes(const struct conversion *conversion, const char *output)
{
    size_t length = 0;

    if (conversion->classes == 0)
        return;
    printf("%s: %" PRIu32 " class%s: ", output, conversion->classes, conversion->classes == 1 ? "" : "es");
    if (conversion->class_names == NULL) {
        printf("labels 0 to %" PRIu32 "\n", conversion->classes - 1);
        return;
    }
    for (uint32_t i = 0; i < conversion->classes; i++) {
        char name[CLASSES_BYTES];
        log_escape(conversion->class_names[i], strlen(conversion->class_names[i]), name, sizeof(name));
        length += strlen(name) + 2;
        if (i > 0 && length > CLASSES_BYTES) {
            printf(" and %" PRIu32 " more", conversion->classes - i);
            break;
        }
        printf("%s%s", i > 0 ? ", " : "", name);
    }
    printf("\n");
}

static void report(const struct conversion *conversion, const char *output)
{
    printf("%s:", output);
    for (size_t i = 0; i < conversion->source_count; i++) {
        const struct sample_source *source = &conversion->sources[i];
        printf("%s %" PRIu64 " %s records in %" PRIu32 " shard%s", i ? "," : "", source->record_count, source->split,
               source->shard_count, source->shard_count == 1 ? "" : "s");
    }
    printf("\n");
    report_classes(conversion, output);
    if (conversion->left_out.count > 0)
        printf("%s: left out %" PRIu64 " image%s that cannot be read\n", output, conversion->left_out.count,
               conversion->left_out.count == 1 ? "" : "s");
}

/* Print the result after all messages. The set is complete, so if the reader of the output has ended, only text is
 * lost: the signal may end the program. */
static void report_whole(const struct conversion *conversion, const char *output)
{
    output_flush(MESSAGES_MS);
    output_end_with_reader();
    report(conversion, output);
}

static int write_shards(const struct convert_options *options, const struct conversion *conversion, struct stop *stop)
{
    const struct shard_set_spec spec = {
        .directory = options->output, .sources = conversion->sources, .source_count = conversion->source_count,
        .may_replace = options->may_replace, .image_key = conversion->image_key, .label_key = conversion->label_key,
        .packing = options->packing,
    };
    const struct shard_writer_options writer = {
        .jobs = (uint32_t)options->jobs, .seed = options->seed, .keeps_order = options->keeps_order,
        .change = options->change, .interrupted = options->interrupted,
    };
    struct shard_set set;

    int rc = shard_set_open(&set, &spec, stop);
    if (rc == 0)
        rc = shards_write(&set, &writer);
    if (rc == 0)
        rc = commit(&set, conversion, options, stop);
    if (rc == 0)
        set_description_warn(&set, options->output);
    shard_set_close(&set);
    if (rc == 0 && conversion->remark != NULL && *conversion->remark != '\0')
        log_message(LOG_RUN, "%s", conversion->remark);
    if (rc == 0 && !options->is_quiet)
        report_whole(conversion, options->output);
    return rc;
}

/* Images are read from the feature of the input and, with --raw, written to another one. */
static void set_image_keys(struct convert_options *options, struct conversion *conversion)
{
    options->change.image_key = conversion->image_key;
    if (options->change.is_raw)
        conversion->image_key = IMAGE_CHANGE_RAW_KEY;
}

/* The split that the last component of a path names: for "x/test/", the test split. */
static enum split split_of_input(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return split_name_read(path + begin, end - begin).split;
}

/* The first input must be the training set, except for archives, whose names decide. If the first one has the name
 * of a validation or test set, it is refused if the training set comes later, and reported otherwise. */
static int check_order(const struct converter *converter, const struct convert_options *options, struct stop *stop)
{
    const enum split first = options->input_count > 0 ? split_of_input(options->inputs[0]) : SPLIT_UNSAID;

    if ((first != SPLIT_VALIDATION && first != SPLIT_TEST) || converter->has_named_inputs ||
        (converter == &convert_archive && options->input_count > 1))
        return 0;
    for (size_t i = 1; i < options->input_count; i++) {
        if (split_of_input(options->inputs[i]) == SPLIT_TRAIN)
            return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s is the training set by its place, %s by its name, "
                                "and %s comes after it: name the training set first", options->inputs[0],
                                split_text(first), options->inputs[i]);
    }
    if (converter != &convert_tfrecord)         /* this converter checks the names of the shards itself */
        log_message(LOG_RUN, "%s: is called %s: it becomes the training set", options->inputs[0], split_text(first));
    return 0;
}

static int convert(struct convert_command *command, struct stop *stop)
{
    struct convert_options *const options = &command->options;
    const struct converter *const converter = command->converter;
    struct conversion conversion = { .name = converter->name, .image_key = "image_raw", .label_key = "label" };
    struct hold_out hold_out = { 0 };
    struct kept_samples kept = { 0 };

    int rc = check_order(converter, options, stop);
    if (rc == 0)
        rc = converter_prepare(converter, options, stop, &conversion);
    options->change.image_key = conversion.image_key;
    if (rc == 0)
        rc = splits_skip_unreadable(&kept, &conversion, options, stop);
    set_image_keys(options, &conversion);
    if (rc == 0)
        rc = set_description_check(&conversion, stop);
    if (rc == 0)
        rc = splits_check_classes(&conversion, options, stop);
    if (rc == 0 && (converter->takes & CONVERT_TRAIN) == 0)
        rc = splits_hold_out(&hold_out, &conversion, options, stop);
    if (rc == 0)
        rc = splits_count_shards(&conversion, options, stop);
    if (rc == 0)
        rc = write_shards(options, &conversion, stop);
    hold_out_release(&hold_out);
    kept_samples_release(&kept);
    converter_release(converter, &conversion);
    return rc;
}

static int run(struct convert_command *command)
{
    struct stop *stop;

    /* A second signal ends the process at once; the next conversion removes its temporary files. */
    signals_note(SA_RESTART);
    phase_begin();
    int rc = output_start();

    if (rc < 0) {
        log_message(LOG_ERROR, "cannot start the output thread: %s", exit_cause(rc));
        return EXIT_CODE_MEMORY;
    }
    if (stop_open(&stop) < 0) {
        log_message(LOG_ERROR, "cannot start the conversion: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    command->options.interrupted = signals_requested();
    rc = convert(command, stop);
    const int code = stop_failed(stop) ? (int)stop_code(stop) : EXIT_CODE_OK;
    stop_close(stop);
    if (rc != -ECANCELED || code != EXIT_CODE_OK)
        return code;
    signals_report("nothing was changed");
    return signals_exit_code();
}

static int dispatch(struct convert_command *command)
{
    if (!command->wants_help && !command->wants_version)
        return run(command);
    output_end_with_reader();
    (void)output_start();       /* on an error, output is written directly */
    if (command->wants_help)
        convert_command_help();
    else
        puts(CONVERT_PROGRAM " " PIPETRAIN_VERSION);
    return EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    struct convert_command command;

    log_name(CONVERT_PROGRAM);
    output_fill_closed();
    /* Writing to a closed pipe, or over the file size limit, fails with an error instead of a signal. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (convert_command_parse(&command, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    const int code = dispatch(&command);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
