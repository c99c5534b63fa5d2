/* The command line of a program or command: a table of options drives parsing, --help and the manual page. */
#ifndef PIPETRAIN_PROGRAM_OPTION_H
#define PIPETRAIN_PROGRAM_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRAM_OPTIONS_MAX 31      /* rows of a table */

/* The values of an option that may be repeated, in their order. Zero it first; free `words` at the end. */
struct string_list {
    const char **words;         /* strings of argv */
    size_t count;
};

/* How program_options_read stores an option in the struct that it fills. */
enum program_store {
    STORE_OTHER,            /* stored by program_command.store */
    STORE_FLAG,             /* bool: true */
    STORE_TEXT,             /* const char *, of argv; "" for an option without the value that it may lack */
    /* A struct string_list: appended. For all others the last one wins, if several are permitted. */
    STORE_LIST,
    STORE_CHOICE,           /* an enum: the index of the value in `choices` */
    STORE_NUMBER,           /* uint64_t, least to most */
    STORE_BYTES,            /* uint64_t: "64MiB", at least `least` */
    STORE_SECONDS,          /* double: "90 s", `least_seconds` to a day; unchanged without a value */
};

/* A row of the table, which ends with a row without a name. */
struct program_option {
    char letter;            /* a short option; 0: a long option only */
    const char *name;
    const char *value;      /* the value's name in --help, "FILE"; NULL: it has none */
    bool may_lack_value;    /* --name or --name=VALUE; its short form has no value */
    const char *help;       /* NULL: not shown */
    const char *more;       /* further sentences for the manual page; NULL: none */
    const char *example;    /* a command line; NULL: none */
    enum program_store store;
    size_t offset;          /* offset of the field in the struct */
    uint64_t least, most;
    double least_seconds;
    const char *const *choices;         /* names; NULL after the last */
    const char *instead;    /* STORE_TEXT: advice for an option that is given twice; NULL: none */
    /* Why this option of another program, command or version is refused; NULL: it is accepted. */
    const char *refused;
    unsigned group;         /* bits for the program's own use */
};

/* ---- parsing ---- */

struct program_command {
    const char *name;       /* prefix of messages: "predict"; NULL: none */
    const char *usage;      /* the program whose --help shows the usage: "pipetrain predict" */
    const struct program_option *options;
    /* Called for every option before it is stored; NULL: all options are accepted. 0, or -EINVAL after a message. */
    int (*accept)(void *out, const struct program_option *option);
    /* Store a STORE_OTHER option. 0, or -EINVAL after a message. */
    int (*store)(void *out, const struct program_option *option, const char *value);
};

/* Parse the options into *out, which has the defaults. The words that are not options are moved to the end of argv,
 * from argv[*first_out] on. Long options cannot be abbreviated; an option with a text may be given twice only with the
 * same text. Returns 0, or after a message -EINVAL or -ENOMEM; *out is partly filled then. */
int program_options_read(const struct program_command *command, int argc, char **argv, void *out, int *first_out);
/* Append a value of option --`name`; the value has to outlive the list. 0, or -ENOMEM after a message. */
int program_list_add(struct string_list *list, const char *name, const char *word);
/* Report "NAME: MESSAGE (PROGRAM --help shows the usage)"; returns -EINVAL. */
int program_usage_error(const struct program_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- help ---- */

/* Print lines of --help of at most 80 columns: of a whole table, of a row, or of any words and their explanation. */
void program_option_help(const struct program_option *table, FILE *out);
void program_option_help_row(const struct program_option *row, FILE *out);
void program_help_line(const char *words, const char *help, FILE *out);
/* Print words from `column` on, and further lines from column `indent` on. */
void program_help_words(const char *text, size_t column, size_t indent, FILE *out);
/* Write `text` with the special characters of troff escaped: '-', '\', and '.' at the start of a line. */
void program_manual_text(const char *text, FILE *out);
/* Print the table as paragraphs in the man macros, with the sentences for the manual page. */
void program_option_manual(const struct program_option *table, FILE *out);

#endif
