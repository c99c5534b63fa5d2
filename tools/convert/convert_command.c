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

static const struct converter *const converters[] = { &convert_mnist, &convert_digits };
#define CONVERTER_COUNT (sizeof(converters) / sizeof(converters[0]))

/* Options that take a number, by their letter. */
struct number_option {
    int letter;
    const char *name;
    uint64_t least, most;
    size_t field;               /* offset in struct convert_options */
};

static const struct number_option number_options[] = {
    { 's', "--shards", 1, SHARD_COUNT_MAX, offsetof(struct convert_options, shards) },
    { 'j', "--jobs", 1, 1024, offsetof(struct convert_options, jobs) },
    { 'S', "--seed", 0, UINT64_MAX, offsetof(struct convert_options, seed) },
    { 't', "--train", 1, UINT32_MAX, offsetof(struct convert_options, train) },
    { 'v', "--validation", 0, UINT32_MAX, offsetof(struct convert_options, validation) },
};

static const struct option long_options[] = {
    { "output", required_argument, NULL, 'o' },
    { "shards", required_argument, NULL, 's' },
    { "jobs", required_argument, NULL, 'j' },
    { "seed", required_argument, NULL, 'S' },
    { "train", required_argument, NULL, 't' },
    { "validation", required_argument, NULL, 'v' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 },
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

static int parse_number(const struct number_option *option, const char *text, struct convert_options *options)
{
    uint64_t *field = (uint64_t *)(void *)((char *)options + option->field);
    char *end;

    errno = 0;
    const uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] < '0' || text[0] > '9' ||
        value < option->least || value > option->most) {
        log_message(LOG_ERROR, "%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option->name, text,
                    option->least, option->most);
        return -EINVAL;
    }
    *field = value;
    return 0;
}

static const struct number_option *find_number_option(int letter)
{
    for (size_t i = 0; i < sizeof(number_options) / sizeof(number_options[0]); i++) {
        if (number_options[i].letter == letter)
            return &number_options[i];
    }
    return NULL;
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
    const struct number_option *number = find_number_option(letter);

    if (number != NULL) {
        command->has_counts |= letter == 't' || letter == 'v';
        return parse_number(number, optarg, &command->options);
    }
    switch (letter) {
    case 'o':
        command->options.output = optarg;
        return 0;
    case 'h':
        command->wants_help = true;
        return 0;
    case 'V':
        command->wants_version = true;
        return 0;
    default:
        return -EINVAL;     /* getopt_long has said what is wrong */
    }
}

static int parse_words(struct convert_command *command, int argc, char **argv)
{
    if (optind == argc)
        return usage_error("nothing to convert: name a data set, mnist or digits");
    command->converter = find_converter(argv[optind]);
    if (command->converter == NULL)
        return usage_error("unknown data set '%s': there are mnist and digits", argv[optind]);
    optind++;
    if (command->converter->has_input) {
        if (optind == argc)
            return usage_error("%s: the directory with its files is missing", command->converter->name);
        command->options.input = argv[optind];
        command->options.inputs = argv + optind;
        command->options.input_count = command->converter->has_more_inputs ? (size_t)(argc - optind) : 1;
        optind += (int)command->options.input_count;
    }
    if (optind < argc)
        return usage_error("'%s' is one word too many", argv[optind]);
    return 0;
}

static uint64_t processor_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 1024 ? 1024 : (uint64_t)count;
}

int convert_command_parse(struct convert_command *command, int argc, char **argv)
{
    int letter;

    *command = (struct convert_command){
        .options = { .seed = 1, .jobs = processor_count(), .train = 20000, .validation = 4000 },
    };
    while ((letter = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
        const int rc = parse_option(command, letter);
        if (rc < 0)
            return rc;
    }
    if (command->wants_help || command->wants_version)
        return 0;
    const int rc = parse_words(command, argc, argv);
    if (rc < 0)
        return rc;
    if (command->options.output == NULL || !*command->options.output)
        return usage_error("no output directory: give -o OUT");
    if (command->has_counts && !command->converter->has_counts)
        return usage_error("%s: --train and --validation do not apply", command->converter->name);
    return 0;
}

void convert_command_help(void)
{
    printf("Usage: " CONVERT_PROGRAM " mnist DIR -o OUT [OPTION]...\n"
           "       " CONVERT_PROGRAM " digits -o OUT [OPTION]...\n"
           "Make TFRecord shards (train-00000-of-00004, ..., validation-00000-of-00001) in OUT.\n\n");
    for (size_t i = 0; i < CONVERTER_COUNT; i++)
        printf("  %-18s %s\n", converters[i]->name, converters[i]->summary);
    printf("\n"
           "  -o, --output=OUT   directory to write to; made when it is not there\n"
           "      --shards=N     training shards (default 4; validation is always one)\n"
           "      --jobs=N       threads (default: one per processor); the bytes stay the same\n"
           "      --seed=N       of the order of records, and of what is drawn (default 1)\n"
           "      --train=N      digits: training images to draw (default 20000)\n"
           "      --validation=N digits: validation images to draw (default 4000)\n"
           "      --help, --version\n\n"
           "The files get their names only when all are written, synced and read back.\n"
           "Exit status: 0 done, 2 command line, 3 input missing or damaged, 4 out of memory,\n"
           "5 output not written, 75 stopped by a signal, 130 by SIGINT.\n");
}
