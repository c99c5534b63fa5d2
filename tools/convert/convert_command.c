/* The command line of pipetrain-convert. Called once by main, before any thread. */
#include "tools/convert/convert_command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "tools/config/long_option.h"
#include "tools/convert/progress.h"

#define OPTION_COLUMN 24
#define HELP_COLUMNS 80

static const struct converter *const converters[] = {
    &convert_folder, &convert_tar, &convert_csv, &convert_npy, &convert_tfrecord,
    &convert_mnist, &convert_cifar10, &convert_cifar100, &convert_digits,
};
#define CONVERTER_COUNT (sizeof(converters) / sizeof(converters[0]))

/* An option: what its value is, where it goes, what --help says. */
struct option_row {
    int letter;                 /* also short, where it is `o` */
    const char *name;
    const char *value;          /* what is shown for it; NULL for none */
    int (*parse)(const struct option_row *row, const char *text, struct convert_command *command);
    uint64_t least, most;
    size_t field;               /* offset in struct convert_options */
    unsigned option;            /* of enum convert_option; 0: all converters take it */
    const char *help;
};

static int __attribute__((format(printf, 1, 2))) usage_error(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s (" CONVERT_PROGRAM " --help shows the usage)", text);
    return -EINVAL;
}

static void *field_of(const struct option_row *row, struct convert_command *command)
{
    return (char *)&command->options + row->field;
}

static int parse_number(const struct option_row *row, const char *text, struct convert_command *command)
{
    uint64_t *const field = field_of(row, command);
    uint64_t value;

    if (!decimal_u64(text, &value) || value < row->least || value > row->most) {
        log_message(LOG_ERROR, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, row->name, text,
                    row->least, row->most);
        return -EINVAL;
    }
    *field = value;
    return 0;
}

static int parse_size(const struct option_row *row, const char *text, struct convert_command *command)
{
    uint64_t *const field = field_of(row, command);
    uint64_t bytes;

    if (decimal_bytes(text, &bytes) == 0 && bytes >= row->least) {
        *field = bytes;
        return 0;
    }
    log_message(LOG_ERROR, "--%s: '%s' is not a size (a whole number of bytes, KiB, MiB, GiB or TiB, %" PRIu64
                " bytes or more)", row->name, text, row->least);
    return -EINVAL;
}

/* A whole number of samples, or with a point in it a share of all. */
static int parse_validation(const struct option_row *row, const char *text, struct convert_command *command)
{
    command->options.has_validation = true;
    command->options.validation_share = 0;
    if (strchr(text, '.') == NULL)
        return parse_number(row, text, command);
    char *end;
    const double share = strtod(text, &end);
    if (*end != '\0' || !(share > 0 && share < 1)) {
        log_message(LOG_ERROR, "--%s: '%s' is neither a whole number nor a share between 0 and 1", row->name, text);
        return -EINVAL;
    }
    command->options.validation_share = share;
    return 0;
}

static int parse_shuffle(const struct option_row *row, const char *text, struct convert_command *command)
{
    command->options.keeps_order = strcmp(text, "none") == 0;
    return parse_number(row, command->options.keeps_order ? "1" : text, command);
}

static int parse_text(const struct option_row *row, const char *text, struct convert_command *command)
{
    const char **const field = field_of(row, command);
    *field = text;
    return 0;
}

static int parse_packing(const struct option_row *row, const char *text, struct convert_command *command)
{
    for (enum packing packing = 0; packing < PACKING_COUNT; packing++) {
        if (strcmp(packing_name(packing), text) == 0) {
            command->options.packing = packing;
            return 0;
        }
    }
    log_message(LOG_ERROR, "--%s: '%s' is none of none, gzip and lz4", row->name, text);
    return -EINVAL;
}

static int parse_force(const struct option_row *row, const char *text, struct convert_command *command)
{
    (void)row;
    (void)text;
    command->options.may_replace = true;
    return 0;
}

static int parse_raw(const struct option_row *row, const char *text, struct convert_command *command)
{
    (void)row;
    (void)text;
    command->options.change.is_raw = true;
    return 0;
}

static int parse_progress(const struct option_row *row, const char *text, struct convert_command *command)
{
    static const struct { const char *name; enum progress_how how; } kinds[] = {
        { "bar", PROGRESS_PAINTED }, { "line", PROGRESS_LINES }, { "json", PROGRESS_OBJECTS },
        { "none", PROGRESS_SILENT },
    };
    (void)command;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, text) == 0) {
            progress_choose(kinds[i].how);
            return 0;
        }
    }
    log_message(LOG_ERROR, "--%s: '%s' is none of bar, line, json and none", row->name, text);
    return -EINVAL;
}

static int parse_quiet(const struct option_row *row, const char *text, struct convert_command *command)
{
    (void)row;
    (void)text;
    command->options.is_quiet = true;
    progress_choose(PROGRESS_SILENT);
    log_only_errors();
    return 0;
}

static int parse_help(const struct option_row *row, const char *text, struct convert_command *command)
{
    (void)row;
    (void)text;
    command->wants_help = true;
    return 0;
}

static int parse_version(const struct option_row *row, const char *text, struct convert_command *command)
{
    (void)row;
    (void)text;
    command->wants_version = true;
    return 0;
}

#define FIELD(name) offsetof(struct convert_options, name)

static const struct option_row option_rows[] = {
    { 'o', "output", "OUT", parse_text, 0, 0, FIELD(output), 0,
      "the directory to write to; made when it is not there, with those above it" },
    { 'f', "force", NULL, parse_force, 0, 0, 0, 0, "replace the data set that is there" },
    { 's', "shards", "N", parse_number, 1, SHARD_COUNT_MAX, FIELD(shards), 0,
      "training shards (default 4, more where they would be over 1 GiB)" },
    { 'b', "shard-size", "BYTES", parse_size, 1, UINT64_MAX, FIELD(shard_bytes), 0,
      "instead: about so much in each shard, 64MiB" },
    { 'c', "compress", "HOW", parse_packing, 0, 0, 0, 0, "none (the default), gzip or lz4" },
    { 'v', "validation", "N", parse_validation, 0, UINT32_MAX, FIELD(validation), 0,
      "so many samples for validation, or a share such as 0.1, where the input does not say which "
      "(digits: so many to draw, default 4000)" },
    { 'S', "shuffle", "SEED", parse_shuffle, 0, UINT64_MAX, FIELD(seed), 0,
      "of the order of records, of the choice for validation, of what is drawn (default 1); none: records in the "
      "order of the input, the rest as by 1" },
    { 'j', "jobs", "N", parse_number, 1, 1024, FIELD(jobs), 0,
      "threads (default: one per processor); the bytes stay the same" },
    { 'r', "resize-short", "N", parse_number, 1, UINT16_MAX, FIELD(change.short_side), CONVERT_RESIZE,
      "folder, tar, csv, tfrecord: make images smaller whose shorter side is over N pixels, so that it is N; they "
      "become JPEG (chroma 4:2:0), the others stay as they are, byte for byte" },
    { 'q', "quality", "Q", parse_number, 1, 100, FIELD(change.quality), CONVERT_QUALITY,
      "of those JPEGs, 1 to 100 (default 90)" },
    { 'R', "raw", NULL, parse_raw, 0, 0, 0, CONVERT_RAW,
      "the same converters: store the pixels of all images, uint8 rows of grey or red, green, blue" },
    { 'i', "image-key", "KEY", parse_text, 0, 0, FIELD(image_key), CONVERT_IMAGE_KEY,
      "tfrecord: the feature with the image, where its name is none of the usual ones" },
    { 'k', "label-key", "KEY", parse_text, 0, 0, FIELD(label_key), CONVERT_LABEL_KEY, "the same of the label" },
    { 't', "train", "N", parse_number, 1, UINT32_MAX, FIELD(train), CONVERT_TRAIN,
      "digits: so many to draw to train with (default 20000)" },
    { 'l', "label", "WHICH", parse_text, 0, 0, FIELD(label), CONVERT_LABEL,
      "cifar100: fine (100 classes, the default) or coarse (20)" },
    { 'P', "progress", "KIND", parse_progress, 0, 0, 0, 0,
      "on stderr, of what takes long: bar, line (every ten seconds), json (the same as objects) or none; else a bar "
      "where that is a terminal" },
    { 'Q', "quiet", NULL, parse_quiet, 0, 0, 0, 0, "say nothing but errors" },
    { 'h', "help", NULL, parse_help, 0, 0, 0, 0, "show this" },
    { 'V', "version", NULL, parse_version, 0, 0, 0, 0, "show the version" },
};
#define OPTION_COUNT (sizeof(option_rows) / sizeof(option_rows[0]))

static void fill_long_options(struct option long_options[OPTION_COUNT + 1])
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        long_options[i] = (struct option){ option_rows[i].name,
                                          option_rows[i].value != NULL ? required_argument : no_argument, NULL,
                                          option_rows[i].letter };
    long_options[OPTION_COUNT] = (struct option){ 0 };
}

static const struct converter *find_converter(const char *name)
{
    for (size_t i = 0; i < CONVERTER_COUNT; i++) {
        if (strcmp(converters[i]->name, name) == 0)
            return converters[i];
    }
    return NULL;
}

static int parse_option(struct convert_command *command, int letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_rows[i].letter != letter)
            continue;
        command->given |= option_rows[i].option;
        return option_rows[i].parse(&option_rows[i], optarg, command);
    }
    return -EINVAL;     /* getopt_long has said what is wrong */
}

/* "mnist, digits" */
static const char *list_converters(char *text, size_t text_size)
{
    size_t length = 0;

    for (size_t i = 0; i < CONVERTER_COUNT && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%s", i > 0 ? ", " : "", converters[i]->name);
    return text;
}

static int unknown_converter(const char *name)
{
    struct nearest nearest = { .name = name };
    char names[256];

    for (size_t i = 0; i < CONVERTER_COUNT; i++)
        nearest_offer(&nearest, converters[i]->name, converters[i]->name);
    if (nearest.best != NULL)
        return usage_error("'%s' is no converter: did you mean '%s'?", name, (const char *)nearest.best);
    return usage_error("'%s' is none of %s", name, list_converters(names, sizeof(names)));
}

static int parse_words(struct convert_command *command, int argc, char **argv)
{
    struct convert_options *const options = &command->options;
    char names[256];

    if (optind == argc)
        return usage_error("nothing to convert: name one of %s", list_converters(names, sizeof(names)));
    const struct converter *const converter = find_converter(argv[optind]);
    if (converter == NULL)
        return unknown_converter(argv[optind]);
    command->converter = converter;
    options->inputs = argv + optind + 1;
    options->input_count = (size_t)(argc - optind - 1);
    if (options->input_count < converter->input_count_least)
        return usage_error("%s: input is missing: %s %s", converter->name, converter->name, converter->inputs);
    if (options->input_count > converter->input_count_most)
        return usage_error("'%s' is one word too many", options->inputs[converter->input_count_most]);
    return 0;
}

/* Whether what was given goes together. */
static int check_options(const struct convert_command *command)
{
    const struct convert_options *const options = &command->options;
    const struct converter *const converter = command->converter;

    if (options->output == NULL || *options->output == '\0')
        return usage_error("no output directory: give -o OUT");
    if (options->shards > 0 && options->shard_bytes > 0)
        return usage_error("--shards and --shard-size: give one of them");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if ((option_rows[i].option & command->given & ~converter->takes) != 0)
            return usage_error("%s: --%s does not apply", converter->name, option_rows[i].name);
    }
    if ((command->given & CONVERT_QUALITY) != 0 && (options->change.short_side == 0 || options->change.is_raw))
        return usage_error("--quality is of images that become JPEG: give --resize-short, and not --raw");
    if ((converter->takes & CONVERT_TRAIN) != 0 && options->validation_share > 0)
        return usage_error("%s: --validation is a whole number, of samples to draw", converter->name);
    return 0;
}

static uint64_t processor_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (uint64_t)count;
}

int convert_command_parse(struct convert_command *command, int argc, char **argv)
{
    struct option long_options[OPTION_COUNT + 1];
    int letter;

    *command = (struct convert_command){
        .options = { .seed = 1, .jobs = processor_count(), .train = 20000, .validation = 4000,
                     .change.quality = 90 },
    };
    fill_long_options(long_options);
    if (long_option_check(argc, argv, long_options) != 0)
        return -EINVAL;
    while ((letter = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
        const int rc = parse_option(command, letter);
        if (rc < 0)
            return rc;
    }
    if (command->wants_help || command->wants_version)
        return 0;
    const int rc = parse_words(command, argc, argv);
    return rc < 0 ? rc : check_options(command);
}

/* A line of help, broken behind the words that still fit. */
static void print_wrapped(const char *text, size_t indent)
{
    size_t column = indent;

    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        }
        column += (size_t)printf("%s%.*s", column > indent ? " " : "", (int)word, text);
        text += word + (text[word] == ' ');
    }
    printf("\n");
}

static void print_help_line(const char *words, const char *text)
{
    printf("  %-*s  ", OPTION_COLUMN, words);
    print_wrapped(text, OPTION_COLUMN + 4);
}

static void print_option(const struct option_row *row)
{
    char name[64];

    snprintf(name, sizeof(name), "%s--%s%s%s", row->letter == 'o' ? "-o, " : "    ", row->name,
             row->value != NULL ? "=" : "", row->value != NULL ? row->value : "");
    print_help_line(name, row->help);
}

void convert_command_help(void)
{
    printf("Usage: " CONVERT_PROGRAM " WHAT [INPUT]... -o OUT [OPTION]...\n"
           "Make TFRecord shards of a data set: train-00000-of-00004, ...,\n"
           "validation-00000-of-00001.\n\n");
    for (size_t i = 0; i < CONVERTER_COUNT; i++) {
        char words[64];
        snprintf(words, sizeof(words), "%s %s", converters[i]->name, converters[i]->inputs);
        print_help_line(words, converters[i]->summary);
    }
    printf("\n");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        print_option(&option_rows[i]);
    printf("\n"
           "The files get their names only when all are written, synced and read back. A\n"
           "data set that is there is left alone, unless --force is given.\n\n"
           "Examples:\n"
           "  " CONVERT_PROGRAM " tfrecord shards -o packed --compress=lz4 --shard-size=64MiB\n"
           "  " CONVERT_PROGRAM " mnist downloads -o mnist\n"
           "  " CONVERT_PROGRAM " cifar10 cifar-10-binary.tar.gz -o cifar10\n"
           "  " CONVERT_PROGRAM " folder photos -o shards --validation=0.1\n"
           "  " CONVERT_PROGRAM " folder photos -o small --validation=0.1 --resize-short=256\n"
           "  " CONVERT_PROGRAM " tfrecord shards -o raw --resize-short=256 --raw\n"
           "  " CONVERT_PROGRAM " tar train.tar.gz test.tar.gz -o shards\n"
           "  " CONVERT_PROGRAM " csv labels.csv -o shards\n"
           "  " CONVERT_PROGRAM " npy x.npy y.npy -o arrays --validation=0.1\n"
           "  " CONVERT_PROGRAM " digits -o more --train=60000 --validation=10000 --shuffle=2\n\n"
           "Exit status: 0 done, 2 command line, 3 input missing or damaged, 4 out of\n"
           "memory, 5 output not written, 75 stopped by a signal, 130 by SIGINT.\n");
}
