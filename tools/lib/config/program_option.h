/* The options of a program's command line: a table that drives parsing, --help and the manual page. */
#ifndef PIPETRAIN_PROGRAM_OPTION_H
#define PIPETRAIN_PROGRAM_OPTION_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRAM_OPTIONS_MAX 31      /* rows of a table */

/* How program_options_read stores an option in the struct that it fills. */
enum program_store {
    STORE_OTHER,            /* by the program's own function */
    STORE_FLAG,             /* bool: true */
    STORE_TEXT,             /* const char *, of argv */
    STORE_NUMBER,           /* uint64_t, least to most */
    STORE_BYTES,            /* uint64_t: "64MiB", at least `least` */
};

/* A row; a table ends with one without a name. */
struct program_option {
    int letter;             /* a short option; 0, or what getopt_long returns (>= 256): a long option only */
    const char *name;
    const char *value;      /* the value's name in --help, "FILE"; NULL: it has none */
    bool may_lack_value;    /* --name or --name=VALUE; the letter then takes none */
    const char *help;       /* NULL: an option of another program that is refused with its name, and not shown */
    const char *more;       /* further sentences for the manual page; NULL: none */
    const char *example;    /* a command line; NULL: none */
    enum program_store store;
    size_t offset;          /* of the field in the struct */
    uint64_t least, most;
    unsigned group;         /* bits for the program's own use */
};

/* ---- parsing ---- */

struct program_command {
    const char *name;       /* prefix of messages: "predict"; NULL: none */
    const char *usage;      /* the program whose --help shows the usage: "pipetrain predict" */
    const struct program_option *options;
    /* Called for every option before it is stored; NULL: all are accepted. 0, or -EINVAL after a message. */
    int (*accept)(void *out, const struct program_option *option);
    /* Store a STORE_OTHER option. 0, or -EINVAL after a message. */
    int (*store)(void *out, const struct program_option *option, const char *value);
};

/* Parse the options into *out. 0, or -EINVAL after a message; the first word that is no option is argv[optind]. Only
 * whole names of long options are accepted. */
int program_options_read(const struct program_command *command, int argc, char **argv, void *out);
/* Report "NAME: MESSAGE (PROGRAM --help shows the usage)"; returns -EINVAL. */
int program_usage_error(const struct program_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A table in the form of getopt_long. */
struct program_words {
    struct option rows[PROGRAM_OPTIONS_MAX + 1];
    char letters[2 + 2 * PROGRAM_OPTIONS_MAX];
};

/* `first`: what comes before the letters, ":" or "". Rows without a letter get 256 plus their number. */
void program_option_words(const struct program_option *table, const char *first, struct program_words *words_out);
/* Refuse what getopt_long would take for another option, or say little about: unknown long options, abbreviations of
 * known ones, and negative numbers. Before getopt_long. 0, or -EINVAL after a message with the nearest name. */
int long_option_check(int argc, char **argv, const struct option *rows);

/* ---- help ---- */

/* The lines of --help, none longer than 80 columns: of a whole table, of a row, or of any words and their explanation.
 * */
void program_option_help(const struct program_option *table, FILE *out);
void program_option_help_row(const struct program_option *row, FILE *out);
void program_help_line(const char *words, const char *help, FILE *out);
/* Print words from `column` on, and further lines from column `indent` on. */
void program_help_words(const char *text, size_t column, size_t indent, FILE *out);
/* Write `text` with the special characters of troff escaped: '-', '\', and '.' at the start of a line. */
void program_manual_text(const char *text, FILE *out);
/* The table as paragraphs in the man macros, with the sentences for the manual page. */
void program_option_manual(const struct program_option *table, FILE *out);

#endif
