/* Parses the command line of pipetrain-shards, and finds the shards that it names. Called by the main thread before
 * other threads start. */
#include "tools/shards/shards_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"
#include "stage/text/names.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/limits.h"

#define JOBS_MAX 1024u
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct shards_command *const commands[] = { &command_list, &command_check, &command_head, &command_stats,
                                                        &command_index, &command_catalog, &command_extract };

#define FIELD(name) .offset = offsetof(struct shards_request, name)

/* The options of all commands. Each command lists the letters of its options. */
static const struct program_option options[] = {
    { .letter = 'j', .name = "jobs", .value = "N", .store = STORE_NUMBER, .least = 1, .most = JOBS_MAX, FIELD(jobs),
      .help = "threads (default: one per processor)" },
    { .letter = 'n', .name = "records", .value = "N", .store = STORE_NUMBER, .least = 1, .most = UINT64_MAX,
      FIELD(records), .help = "number of records to print (default 3)" },
    { .letter = 'C', .name = "classes", .value = "N", .store = STORE_NUMBER, .least = 1, .most = INT32_MAX,
      FIELD(classes), .help = "classes of the network: prints the label_offset that it needs" },
    { .letter = 'd', .name = "decode", .store = STORE_FLAG, FIELD(decodes), .help = "also decode the images" },
    { .letter = 'H', .name = "hashes", .store = STORE_FLAG, FIELD(compares_hashes),
      .help = "also compare the records with the hashes in dataset.json" },
    { .letter = 'i', .name = "image-key", .value = "KEY", .store = STORE_TEXT, FIELD(image_key),
      .help = "feature that contains the image" },
    { .letter = 'l', .name = "label-key", .value = "KEY", .store = STORE_TEXT, FIELD(label_key),
      .help = "feature that contains the label" },
    { .letter = 'o', .name = "output", .value = "FILE", .store = STORE_TEXT, FIELD(output),
      .help = "file to write, or to compare" },
    { .letter = 'c', .name = "check", .store = STORE_FLAG, FIELD(compares),
      .help = "compare the index or catalog, write nothing" },
    { .letter = 'f', .name = "force", .store = STORE_FLAG, FIELD(may_replace), .help = "replace an existing file" },
    { .letter = 'J', .name = "json", .store = STORE_FLAG, FIELD(is_json), .help = "print one JSON object" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(wants_help), .help = "this text" },
    { .name = "version", .store = STORE_FLAG, FIELD(wants_version), .help = "the version" },
    { .name = NULL },
};

static int check_option(void *out, const struct program_option *option);

static const struct program_command command_line = {
    .usage = SHARDS_PROGRAM, .options = options, .accept = check_option,
};

#define usage_error(...) program_usage_error(&command_line, __VA_ARGS__)

static bool is_general(const struct program_option *option)
{
    return option->letter == 'h' || option->letter == 0;
}

/* Does the command have this option? */
static int check_option(void *out, const struct program_option *option)
{
    const struct shards_request *const request = out;
    if (is_general(option))
        return 0;
    if (request->command == NULL)
        return usage_error("--%s: the command has to come first", option->name);
    if (strchr(request->command->options, option->letter) == NULL)
        return usage_error("--%s does not apply to %s", option->name, request->command->name);
    return 0;
}

static const struct shards_command *find_command(const char *name)
{
    for (size_t i = 0; i < LENGTH(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

static uint64_t processor_count(void)
{
    const uint32_t count = limits_cores();
    return count > JOBS_MAX ? JOBS_MAX : count;
}

static int check_words(const struct shards_request *request)
{
    const struct shards_command *const command = request->command;
    if (command == NULL)
        return usage_error("no command given: list or check, for example");
    if (request->word_count < command->words_least)
        return usage_error("%s: no shards given: " SHARDS_PROGRAM " %s %s", command->name, command->name,
                           command->words);
    if (request->word_count > command->words_most)
        return usage_error("%s: unexpected argument '%s'", command->name, request->words[command->words_most]);
    return 0;
}

static int unknown_command(const char *name)
{
    struct nearest nearest = { .name = name };
    for (size_t i = 0; i < LENGTH(commands); i++)
        nearest_offer(&nearest, commands[i]->name, commands[i]->name);
    if (nearest.best != NULL)
        return usage_error("unknown command '%s' (did you mean '%s'?)", name, (const char *)nearest.best);
    return usage_error("unknown command '%s'", name);
}

/* The first argument is the command, which determines the options that are allowed. */
static int find_first_command(struct shards_request *request, int argc, char **argv)
{
    const bool is_there = argc > 1 && argv[1][0] != '-';
    request->command = is_there ? find_command(argv[1]) : NULL;
    return is_there && request->command == NULL ? unknown_command(argv[1]) : 0;
}

int shards_command_parse(struct shards_request *request_out, int argc, char **argv)
{
    struct shards_request request = { .jobs = processor_count(), .records = 3 };
    int first = 0, rc = find_first_command(&request, argc, argv);
    if (rc == 0)
        rc = program_options_read(&command_line, argc, argv, &request, &first);
    if (rc < 0)
        return rc;
    first += request.command != NULL;
    request.words = argv + first;
    request.word_count = first < argc ? (uint32_t)(argc - first) : 0;
    *request_out = request;
    return request.wants_help || request.wants_version ? 0 : check_words(&request);
}

static void print_options(const char *letters)
{
    for (const struct program_option *option = options; option->name != NULL; option++)
        if (option->letter != 0 && (option->letter == 'h' || strchr(letters, option->letter) != NULL))
            program_option_help_row(option, stdout);
}

static void print_command(const struct shards_command *command)
{
    printf("Usage: " SHARDS_PROGRAM " %s %s [OPTION]...\n%s.\n\n", command->name, command->words, command->summary);
    print_options(command->options);
    printf("\n%s", command->help);
}

static void print_all(void)
{
    printf("Usage: " SHARDS_PROGRAM " COMMAND WORD... [OPTION]...\n"
           "Inspect TFRecord shards.\n\n");
    for (size_t i = 0; i < LENGTH(commands); i++)
        printf("  %-8s %-18s %s\n", commands[i]->name, commands[i]->words, commands[i]->summary);
    printf("\n"
           "  -h, --help           this text; after a command: its options, and examples\n"
           "      --version\n\n"
           "A PATTERN is a file, a directory (all shards in it) or a quoted glob.\n"
           "Exit status: 0 success, 2 wrong command line, 3 shards missing, unreadable or\n"
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

/* ---- the shards of the arguments ---- */

int shards_source_open(struct shard_source **source_out, const char *path)
{
    const int rc = shard_source_open(source_out, NULL, path);
    if (rc < 0)
        log_message(LOG_ERROR, "%s: cannot be opened: %s", path, strerror(-rc));
    return rc;
}

int shards_index_open(struct shard_index *index_out, struct shard_source *source,
                      const struct shards_request *request, bool skips_damage)
{
    const struct shard_index_options wanted = {
        .skip_damage = skips_damage, .use_cache = true, .is_unwanted = request->is_unwanted,
    };
    char problem[1024];
    const int rc = shard_index_open(index_out, source, &wanted, problem, sizeof(problem));
    if (rc < 0 && rc != -ECANCELED)
        log_message(LOG_ERROR, "%s", problem);
    return rc;
}

int shard_paths_in_folder(struct shard_list *list, const char *folder)
{
    if (begun_set_is_in(folder)) {
        log_message(LOG_ERROR, "%s: " BEGUN_SET_TEXT, folder);
        return -EBADMSG;
    }
    const int rc = shard_list_folder(list, folder);
    if (rc == 0 && list->count > 0)
        return 0;
    log_message(LOG_ERROR, "%s: %s", folder,
                rc < 0 ? strerror(-rc)
                       : "no shards in this directory (files named *.tfrecord* or NAME-NNNNN-of-NNNNN)");
    return rc < 0 ? rc : -ENOENT;
}

/* An existing file is used as it is, even if its name looks like a pattern. */
static int add_file(struct shard_list *list, const char *path)
{
    list->paths = malloc(sizeof(*list->paths));
    if (list->paths == NULL)
        return -ENOMEM;
    list->paths[0] = strdup(path);
    list->count = list->paths[0] != NULL;
    return list->count > 0 ? 0 : -ENOMEM;
}

static int find_files(struct shard_list *list, const char *pattern, const char *what)
{
    char buffer[2048];
    struct text problems;
    text_init(&problems, buffer, sizeof(buffer));
    const int rc = shard_list_find(list, pattern, what, &problems);
    if (rc < 0)
        log_message(LOG_ERROR, "%s", rc == -ENOMEM ? strerror(ENOMEM) : buffer);
    return rc;
}

static int add_word(struct shard_list *list, const char *word, const char *what)
{
    struct shard_list found = { 0 };
    struct stat status;
    const bool is_there = stat(word, &status) == 0;
    int rc = !is_there ? find_files(&found, word, what)
             : S_ISDIR(status.st_mode) ? shard_paths_in_folder(&found, word) : add_file(&found, word);
    if (rc == 0)
        rc = shard_list_join(list, &found);
    shard_list_release(&found);
    return rc;
}

static int compare_paths(const void *a, const void *b)
{
    const char *const *const *const left = a, *const *const *const right = b;
    const int order = strcmp(**left, **right);
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

/* Remove duplicate paths: the first of each is kept, and the order stays the same. */
static int remove_duplicates(struct shard_list *list)
{
    char ***const sorted = malloc(((size_t)list->count + 1) * sizeof(*sorted));
    uint32_t kept = 0;
    if (sorted == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->count; i++)
        sorted[i] = &list->paths[i];
    qsort(sorted, list->count, sizeof(*sorted), compare_paths);
    for (uint32_t i = 1, first = 0; i < list->count; i++) {
        if (strcmp(*sorted[first], *sorted[i]) == 0) {
            free(*sorted[i]);
            *sorted[i] = NULL;
        } else
            first = i;
    }
    for (uint32_t i = 0; i < list->count; i++)
        if (list->paths[i] != NULL)
            list->paths[kept++] = list->paths[i];
    list->count = kept;
    free(sorted);
    return 0;
}

/* Refuse a data set whose conversion is not finished. Also checks the folders of files that are named one by one. */
static int check_begun(const struct shard_list *list)
{
    const char *const begun = begun_set_find(list);
    if (begun == NULL)
        return 0;
    log_message(LOG_ERROR, "%s: " BEGUN_SET_TEXT, begun);
    return -EBADMSG;
}

int shard_paths_find(struct shard_list *list_out, const struct shards_request *request)
{
    struct shard_list list = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < request->word_count && rc == 0; i++)
        rc = add_word(&list, request->words[i], request->command->name);
    if (rc == 0)
        rc = remove_duplicates(&list);
    if (rc == 0)
        rc = check_begun(&list);
    if (rc < 0)
        shard_list_release(&list);
    else
        *list_out = list;
    return rc;
}
