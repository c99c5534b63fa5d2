/* The options of a program's command line: a table that drives getopt_long, --help and the manual page. */
#ifndef PIPETRAIN_PROGRAM_OPTION_H
#define PIPETRAIN_PROGRAM_OPTION_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#define PROGRAM_OPTIONS_MAX 31      /* rows of a table */

/* A row; a table ends with one without a name. */
struct program_option {
    int letter;             /* what getopt_long gives; one of ASCII is a short option, too */
    const char *name;
    const char *value;      /* how its value is called, "FILE"; NULL: it has none */
    bool may_lack_value;    /* --name or --name=VALUE; the letter then takes none */
    const char *help;       /* NULL: it is known to be refused in words, and told nowhere */
    const char *more;       /* what the manual page says besides; NULL: nothing */
    const char *example;    /* a command line; NULL: none */
};

/* A table as getopt_long wants it. */
struct program_words {
    struct option rows[PROGRAM_OPTIONS_MAX + 1];
    char letters[2 + 2 * PROGRAM_OPTIONS_MAX];
};

/* `first`: what stands before the letters, ":" or "". */
void program_option_words(const struct program_option *table, const char *first, struct program_words *words_out);
/* The lines of --help, none over 80 columns. */
void program_option_help(const struct program_option *table, FILE *out);
/* The same as paragraphs in the man macros, with what the page says besides. */
void program_option_manual(const struct program_option *table, FILE *out);

#endif
