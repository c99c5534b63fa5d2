/* The one table that describes the settings: it drives the configuration file,
 * --set section.key=value, --help, the manual page and the resolved copy that every
 * run keeps. A new key is a field in struct settings and a row here. Used by main only. */
#ifndef PIPETRAIN_OPTIONS_H
#define PIPETRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/config/settings.h"

enum section {
    SECTION_RUN,
    SECTION_DATA,
    SECTION_INPUT,
    SECTION_AUGMENT,
    SECTION_MODEL,
    SECTION_TRAIN,
    SECTION_CHECKPOINT,
    SECTION_DEVICES,
    SECTION_SYNC,
    SECTION_REPORT,
    SECTION_COUNT
};

enum option_type {
    OPTION_STRING,
    OPTION_NAME,                /* a file name: [A-Za-z0-9._-]{1,OPTION_NAME_MAX}, not . or ..; or empty */
    OPTION_INTEGER,
    OPTION_NUMBER,
    OPTION_NUMBERS,             /* with blanks or commas between them, at most OPTION_NUMBERS_MAX; or none */
    OPTION_SIZE,                /* bytes, with KiB, MiB, GiB, TiB; where the default is auto, that is 0 */
    OPTION_YES_NO,
    OPTION_CHOICE
};

#define OPTIONS_DEPTH_MAX 1024  /* batches of input.prefetch_depth and input.staging_depth */
#define OPTION_NAME_MAX 64      /* bytes */
#define OPTION_STRING_MAX 32000 /* bytes; quoted it still fits in a line of a configuration file */

struct option_choice { const char *name; int value; };

/* A row; option_ functions work on it. (struct option belongs to getopt.) */
struct option_row {
    enum section section;
    const char *key;
    enum option_type type;
    const char *unit;           /* NULL = none */
    const char *initial;        /* the default, as it would be written in a file */
    const char *initial_note;   /* what the default stands for, NULL = it says all */
    int64_t least, most;        /* integer and size: allowed range */
    double low, high;           /* number, and each of numbers: allowed range */
    bool high_is_open;          /* high itself is not allowed */
    const struct option_choice *choices;        /* ended by a NULL name */
    size_t offset;              /* of the field in struct settings */
    const char *help;           /* one line */
};

/* All options by section, ended by a row whose key is NULL. */
extern const struct option_row option_table[];
const char *section_name(enum section section);
const char *section_help(enum section section);

/* The section, or SECTION_COUNT when there is none of that name. */
enum section section_find(const char *name);

/* The option, or NULL. */
const struct option_row *option_find(enum section section, const char *key);
/* The number of options with this key, in any section. Gives the last of them, and the names of all: "run.name or
 * model.name". */
size_t option_find_key(const char *key, const struct option_row **option_out, char *names, size_t names_size);
/* The row's place in option_table and settings.origins. */
size_t option_index(const struct option_row *option);
/* Its field in `settings`. */
void *option_field(const struct option_row *option, struct settings *settings);
const void *option_value(const struct option_row *option, const struct settings *settings);

/* Set one field from `value`. 0, -ENOMEM, or -EINVAL with what is wrong in problem_out. */
int option_parse(const struct option_row *option, struct settings *settings, const char *value,
                 char *problem_out, size_t problem_size);
/* Room for a value that has to be written out. */
struct option_text { char text[32 * OPTION_NUMBERS_MAX]; };
/* The field as it would be written on the command line; reads back as the same value. Lies in the settings,
 * in the table, or in *text. */
const char *option_format(const struct option_row *option, const struct settings *settings, struct option_text *text);
/* What a choice's value is called; NULL when it is none of them. */
const char *option_choice_name(const struct option_row *option, int value);
/* The allowed values in words ("1 .. 1024", "full, none"); "" when anything goes. */
void option_range(const struct option_row *option, char *text, size_t text_size);

#endif
