/* The parsed command line of pipetrain-shards: a command, which is a row of a table, and its arguments. */
#ifndef PIPETRAIN_SHARDS_COMMAND_H
#define PIPETRAIN_SHARDS_COMMAND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/example.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"

#define SHARDS_PROGRAM "pipetrain-shards"

struct shards_command;

struct shards_request {
    const struct shards_command *command;       /* NULL: print the general help or the version */
    bool wants_help, wants_version;
    char **words;               /* the arguments after the command; the strings are those of argv */
    uint32_t word_count;
    uint64_t jobs;
    uint64_t records;           /* number of records to print */
    uint64_t classes;           /* classes of the network; 0: not given */
    const char *output;         /* output, image_key and label_key: NULL if not given */
    const char *image_key, *label_key;
    bool is_json, decodes, compares_hashes, compares, may_replace;
    const atomic_bool *is_unwanted;     /* true: a signal asks the program to stop */
};

/* A command. */
struct shards_command {
    const char *name;
    const char *words;          /* arguments, as printed in the usage line */
    uint32_t words_least, words_most;
    const char *options;        /* letters of its options in the table of shards_command.c */
    const char *summary;        /* one line */
    const char *help;           /* description and examples */
    bool takes_patterns;        /* the arguments are patterns for shard_paths_find */
    /* Returns an exit code, after messages. If takes_patterns, `list` has the shards. */
    int (*run)(const struct shards_request *request, struct shard_list *list);
};

extern const struct shards_command command_list, command_check, command_head, command_stats, command_index,
    command_extract, command_catalog;

/* 0, or -EINVAL after a message. */
int shards_command_parse(struct shards_request *request_out, int argc, char **argv);
/* Print the help of a command, or of all commands for NULL, to stdout. */
void shards_command_help(const struct shards_command *command);

/* Open a shard; or its index, which is kept in a file beside the shard. 0, or a negative errno after a message;
 * without a message if building the index was stopped (-ECANCELED). */
int shards_source_open(struct shard_source **source_out, const char *path);
int shards_index_open(struct shard_index *index_out, struct shard_source *source,
                      const struct shards_request *request, bool skips_damage);

/* Find the shards of all arguments, without duplicates: files, all shards of directories, or the matches of globs.
 * 0, or a negative errno after a message; an argument without shards is an error. */
int shard_paths_find(struct shard_list *list_out, const struct shards_request *request);
/* Find the shards of a directory; the list must be empty, and may be filled even on an error. 0, or a negative errno
 * after a message; a directory without shards is an error. */
int shard_paths_in_folder(struct shard_list *list, const char *folder);

/* Print a feature on a line: the escaped name, which need not be terminated, the kind, the number of values, and the
 * first values: numbers, a quoted text, the description of an encoded image, or the first bytes of anything else. */
void feature_line_print(FILE *out, const char *name, size_t name_bytes, const struct feature *feature);

#endif
