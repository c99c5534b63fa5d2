/* The command line of pipetrain-shards. Called once by main, before any thread. */
#include "tools/shards/shards_command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "tools/config/long_option.h"

#define JOBS_MAX 1024u
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct shards_command *const commands[] = { &command_list, &command_check, &command_head, &command_stats,
                                                        &command_index, &command_extract };

/* An option: with no value it is a fact, else a number between least and most, or a text. */
enum option_kind { OPTION_FACT, OPTION_NUMBER, OPTION_TEXT };

struct option_row {
    int letter;
    const char *name, *value, *summary;
    enum option_kind kind;
    uint64_t least, most;
    size_t field;               /* offset in struct shards_request */
};

#define FIELD(name) offsetof(struct shards_request, name)

static const struct option_row option_rows[] = {
    { 'j', "jobs", "N", "threads (default: one per processor)", OPTION_NUMBER, 1, JOBS_MAX, FIELD(jobs) },
    { 'n', "records", "N", "records to show (default 3)", OPTION_NUMBER, 1, UINT64_MAX, FIELD(records) },
    { 'C', "classes", "N", "the network's classes: tells which label_offset fits", OPTION_NUMBER, 1, INT32_MAX,
      FIELD(classes) },
    { 'd', "decode", NULL, "decode the images, too", OPTION_FACT, 0, 0, FIELD(decodes) },
    { 'H', "hashes", NULL, "compare the records with dataset.json's hashes, too", OPTION_FACT, 0, 0,
      FIELD(compares_hashes) },
    { 'i', "image-key", "KEY", "the feature with the image", OPTION_TEXT, 0, 0, FIELD(image_key) },
    { 'l', "label-key", "KEY", "the feature with the label", OPTION_TEXT, 0, 0, FIELD(label_key) },
    { 'o', "output", "FILE", "the file to write, or to compare", OPTION_TEXT, 0, 0, FIELD(output) },
    { 'c', "check", NULL, "compare what is there, write nothing", OPTION_FACT, 0, 0, FIELD(compares) },
    { 'f', "force", NULL, "replace a file that is there", OPTION_FACT, 0, 0, FIELD(may_replace) },
    { 'J', "json", NULL, "the same as one JSON object", OPTION_FACT, 0, 0, FIELD(is_json) },
};

/* Of all commands, and of none. */
enum { OPTION_HELP = 256, OPTION_VERSION };

static int __attribute__((format(printf, 1, 2))) usage_error(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s (" SHARDS_PROGRAM " --help shows the usage)", text);
    return -EINVAL;
}

static const struct shards_command *find_command(const char *name)
{
    for (size_t i = 0; i < LENGTH(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

static const struct option_row *find_option(int letter)
{
    for (size_t i = 0; i < LENGTH(option_rows); i++) {
        if (option_rows[i].letter == letter)
            return &option_rows[i];
    }
    return NULL;
}

static int take_number(const struct option_row *row, const char *text, void *field)
{
    uint64_t value;
    if (!decimal_u64(text, &value) || value < row->least || value > row->most)
        return usage_error("--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, row->name, text, row->least,
                           row->most);
    *(uint64_t *)field = value;
    return 0;
}

static int take_option(struct shards_request *request, const struct option_row *row)
{
    void *const field = (char *)request + row->field;
    switch (row->kind) {
    case OPTION_FACT:
        *(bool *)field = true;
        return 0;
    case OPTION_NUMBER:
        return take_number(row, optarg, field);
    case OPTION_TEXT:
        *(const char **)field = optarg;
        return 0;
    }
    return -EINVAL;
}

static int take_letter(struct shards_request *request, int letter)
{
    if (letter == OPTION_HELP || letter == 'h')
        request->wants_help = true;
    else if (letter == OPTION_VERSION)
        request->wants_version = true;
    else if (letter == '?')
        return -EINVAL;         /* getopt_long has said what is wrong */
    else if (request->command == NULL)
        return usage_error("--%s: the command has to come first", find_option(letter)->name);
    else if (strchr(request->command->options, letter) == NULL)
        return usage_error("--%s does not apply to %s", find_option(letter)->name, request->command->name);
    else
        return take_option(request, find_option(letter));
    return 0;
}

/* getopt's two ways to be told of the rows. */
struct getopt_rows {
    struct option rows[LENGTH(option_rows) + 3];
    char letters[2 * LENGTH(option_rows) + 3];
};

static void make_rows(struct getopt_rows *out)
{
    char *letter = out->letters;
    size_t count = LENGTH(option_rows);
    for (size_t i = 0; i < count; i++) {
        const struct option_row *const row = &option_rows[i];
        const bool has_value = row->kind != OPTION_FACT;
        out->rows[i] = (struct option){ row->name, has_value ? required_argument : no_argument, NULL, row->letter };
        *letter++ = (char)row->letter;
        if (has_value)
            *letter++ = ':';
    }
    *letter++ = 'h';
    *letter = '\0';
    out->rows[count++] = (struct option){ "help", no_argument, NULL, OPTION_HELP };
    out->rows[count++] = (struct option){ "version", no_argument, NULL, OPTION_VERSION };
    out->rows[count] = (struct option){ NULL, 0, NULL, 0 };
}

static uint64_t processor_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > (long)JOBS_MAX ? JOBS_MAX : (uint64_t)count;
}

static int check_words(const struct shards_request *request)
{
    const struct shards_command *const command = request->command;
    if (command == NULL)
        return usage_error("no command: list or check, for example");
    if (request->word_count < command->words_least)
        return usage_error("%s: say what to look at: " SHARDS_PROGRAM " %s %s", command->name, command->name,
                           command->words);
    if (request->word_count > command->words_most)
        return usage_error("%s: '%s' is one word too many", command->name, request->words[command->words_most]);
    return 0;
}

static int unknown_command(const char *name)
{
    struct nearest nearest = { .name = name };
    for (size_t i = 0; i < LENGTH(commands); i++)
        nearest_offer(&nearest, commands[i]->name, commands[i]->name);
    if (nearest.best != NULL)
        return usage_error("unknown command '%s': did you mean '%s'?", name, (const char *)nearest.best);
    return usage_error("unknown command '%s'", name);
}

/* The command is the first word, wherever the options stand; what applies depends on it. */
static int take_command(struct shards_request *request, int argc, char **argv)
{
    const bool is_there = argc > 1 && argv[1][0] != '-';
    request->command = is_there ? find_command(argv[1]) : NULL;
    return is_there && request->command == NULL ? unknown_command(argv[1]) : 0;
}

int shards_command_parse(struct shards_request *request_out, int argc, char **argv)
{
    struct shards_request request = { .jobs = processor_count(), .records = 3 };
    struct getopt_rows rows;
    int letter, rc = take_command(&request, argc, argv);
    make_rows(&rows);
    if (rc == 0)
        rc = long_option_check(argc, argv, rows.rows);
    while (rc == 0 && (letter = getopt_long(argc, argv, rows.letters, rows.rows, NULL)) != -1)
        rc = take_letter(&request, letter);
    if (rc < 0)
        return rc;
    const int first = optind + (request.command != NULL);
    request.words = argv + first;
    request.word_count = first < argc ? (uint32_t)(argc - first) : 0;
    *request_out = request;
    return request.wants_help || request.wants_version ? 0 : check_words(&request);
}

static void print_options(const char *letters)
{
    for (size_t i = 0; i < LENGTH(option_rows); i++) {
        const struct option_row *const row = &option_rows[i];
        char shown[64];
        if (strchr(letters, row->letter) == NULL)
            continue;
        snprintf(shown, sizeof(shown), "--%s%s%s", row->name, row->value != NULL ? "=" : "",
                 row->value != NULL ? row->value : "");
        printf("  -%c, %-20s %s\n", row->letter, shown, row->summary);
    }
}

static void print_command(const struct shards_command *command)
{
    printf("Usage: " SHARDS_PROGRAM " %s %s [OPTION]...\n%s.\n\n", command->name, command->words, command->summary);
    print_options(command->options);
    printf("  -h, --help\n\n%s", command->help);
}

static void print_all(void)
{
    printf("Usage: " SHARDS_PROGRAM " COMMAND WORD... [OPTION]...\n"
           "Look into TFRecord shards.\n\n");
    for (size_t i = 0; i < LENGTH(commands); i++)
        printf("  %-8s %-18s %s\n", commands[i]->name, commands[i]->words, commands[i]->summary);
    printf("\n"
           "  -h, --help           this text; behind a command: what it takes, and examples\n"
           "      --version\n\n"
           "A PATTERN is a file, a directory (all shards in it) or a glob in quotes.\n"
           "Exit status: 0 all right, 2 command line, 3 shards missing, unreadable or\n"
           "damaged, 4 out of memory, 5 output not written, 75 stopped by a signal,\n"
           "130 by SIGINT.\n");
}

void shards_command_help(const struct shards_command *command)
{
    if (command != NULL)
        print_command(command);
    else
        print_all();
}
