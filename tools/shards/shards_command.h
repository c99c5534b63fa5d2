/* What the words and options of a pipetrain-shards command line come to: a command, which is a row of a table, and
 * what it is asked. */
#ifndef PIPETRAIN_SHARDS_COMMAND_H
#define PIPETRAIN_SHARDS_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARDS_PROGRAM "pipetrain-shards"

struct shards_command;

struct shards_request {
    const struct shards_command *command;       /* NULL when help for all or the version is wanted */
    bool wants_help, wants_version;
    char **words;               /* behind the command; of argv */
    uint32_t word_count;
    uint64_t jobs;
    uint64_t records;           /* to show */
    uint64_t classes;           /* of the network; 0: not said */
    const char *output;         /* NULL: not said, as of the keys */
    const char *image_key, *label_key;
    bool is_json, decodes, compares_hashes, compares, may_replace;
    const atomic_bool *is_unwanted;     /* true once the program was asked to end */
};

/* A command: what it takes and what it does. */
struct shards_command {
    const char *name;
    const char *words;          /* as the usage shows them */
    uint32_t words_least, words_most;
    const char *options;        /* letters of the options it takes, of the table in shards_command.c */
    const char *summary;        /* one line */
    const char *help;           /* what it says and examples */
    int (*run)(const struct shards_request *request);   /* an exit code, after messages */
};

extern const struct shards_command command_list, command_check, command_head, command_stats, command_index,
    command_extract;

/* 0, or -EINVAL after a message. */
int shards_command_parse(struct shards_request *request_out, int argc, char **argv);
/* The usage of all commands, or of the one that is asked about, to stdout. */
void shards_command_help(const struct shards_command *command);

#endif
