/* The table of all settings. It drives the configuration file, --set section.key=value, --help, the manual page and the
 * resolved copy that every run writes. A new key is a field in struct settings and a row here. Main thread only. */
#ifndef PIPETRAIN_OPTIONS_H
#define PIPETRAIN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"

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
    OPTION_NUMBERS,             /* numbers separated by spaces or commas, 0 to OPTION_NUMBERS_MAX of them */
    OPTION_DURATION,            /* whole seconds, written as in quantity.h */
    OPTION_SIZE,                /* bytes, written as in quantity.h; if the default is auto, auto is 0 */
    OPTION_YES_NO,
    OPTION_CHOICE
};

/* The effect of another value when a run is resumed (doc/checkpoints.md). Every row has one, because 0 is not valid. */
enum option_effect {
    EFFECT_RUN = 1,             /* determines the results of the run: with another value it is another run */
    /* May change, which is reported: where and how long the run computes, which input it accepts. */
    EFFECT_REPORTED,
    EFFECT_NONE                 /* results do not depend on it */
};

/* When a checkpoint stores a line with the value of the option. */
enum option_line {
    LINE_ALWAYS,
    LINE_IF_USED,               /* only if the option has an effect (option_is_used) */
    LINE_IF_CPU,                /* only if towers are on the CPU */
    LINE_IF_TOWERS,             /* only with several towers, which send each other gradients */
    LINE_ELSEWHERE              /* never: another line of options or data contains its effect */
};

/* The commands without training that use an option. */
enum command_use {
    USED_BY_EVALUATE = 1,
    USED_FOR_IMAGES = 2,        /* predict with image files */
    USED_FOR_SHARDS = 4,        /* predict with shards */
    USED_OF_RUN = 8,            /* the command looks for the weights of a run */
    USED_WITH_CONFIG = 16,      /* the settings of the training run are known */
    USED_WITH_EVALUATE = 32,    /* both are needed: USED_BY_EVALUATE and USED_WITH_CONFIG */
    USED_BY_NAME = 64,          /* the network is a model selected by name */
    USED_BY_EXPORT = 128,
    USED_BY_PREDICT = USED_FOR_IMAGES | USED_FOR_SHARDS,
    USED_ON_SHARDS = USED_BY_EVALUATE | USED_FOR_SHARDS,
    USED_WHERE_COMPUTED = USED_BY_EVALUATE | USED_BY_PREDICT,
    USED_ALWAYS = USED_WHERE_COMPUTED | USED_BY_EXPORT
};

#define OPTIONS_DEPTH_MAX 1024  /* batches of input.prefetch_depth and input.staging_depth */
#define LANES_MAX 65536         /* data.lanes */
#define OPTION_NAME_MAX 64      /* bytes */
#define OPTION_STRING_MAX 32000 /* bytes; a quoted one fits into a line of a configuration file */

#define OPTION_USES_MAX 2

struct option_choice { const char *name; int value; };

/* A condition for an option to have an effect: another option has one of these values. */
struct option_use {
    enum section section;
    const char *key;            /* NULL: no condition */
    const char *values;         /* separated by spaces; NULL: all but its default */
    /* Not NULL: instead of `values`, the values for which it returns a list that contains the option's key. */
    const char *(*keys_of)(int choice);
};

/* A row of the table: the complete description of an option (struct option is that of getopt). */
struct option_row {
    enum section section;
    const char *key;
    enum option_type type;
    enum option_effect effect;
    const char *unit;           /* NULL = none */
    const char *initial;        /* the default, as in a configuration file */
    const char *initial_note;   /* meaning of the default; NULL: obvious */
    int64_t least, most;        /* of integers and sizes */
    double low, high;           /* of numbers */
    bool high_is_open;          /* `high` itself is not allowed */
    const struct option_choice *choices;        /* the last one has a NULL name, */
    const char *(*choice_name)(int choice);     /* or the names of 0, 1, ...; NULL after the last */
    size_t offset;              /* offset of the field in struct settings */
    const char *help;           /* one line */
    /* Names in other training programs or earlier versions, separated by spaces; NULL: none. */
    const char *other_names;
    struct option_use uses[OPTION_USES_MAX];    /* all conditions are needed */
    unsigned used_by;           /* bits of enum command_use; 0: for training only */
    /* Why libpipetrain-feed, which takes the options of sections data, input and augment, does not take this one: the
     * words after "is none of a feed: ". NULL: it takes it, or the section is another one. */
    const char *not_of_feeds;
    /* Ranks may have different values: a path of input whose contents are compared, or only rank 0 uses it. */
    bool may_differ;
    enum option_line line;
    bool decides_slices;        /* with train.slices the effect is EFFECT_RUN */
    /* A value that checkpoints of earlier versions also contain for other values; NULL: none. */
    const char *unclear;
    /* A checkpoint of an earlier version without its line may have any value; for other rows the default is assumed. */
    bool unknown_if_missing;
    bool is_hyperparameter;     /* TensorBoard shows it as a hyperparameter, as all options of some sections */
    const char *in_trials;      /* its value in trials of --tune and --compare; NULL: that of the user */
    const char *in_overfit;     /* its value with --overfit, unless given by --set; NULL: that of the user */
};

/* All options by section; the last row has a NULL key. */
extern const struct option_row option_table[];
const char *section_name(enum section section);
const char *section_help(enum section section);

/* The section of this name, or SECTION_COUNT. */
enum section section_find(const char *name);

/* The option with this key, or NULL. */
const struct option_row *option_find(enum section section, const char *key);
/* The number of options with this key in all sections. *option_out is the last of them; `names` becomes "run.name or
 * model.name". */
size_t option_find_key(const char *key, const struct option_row **option_out, char *names, size_t names_size);
/* The option that has the word among its other names, ignoring case and all characters but letters and digits; NULL:
 * none. */
const struct option_row *option_find_other(const char *word);
bool option_is_hyperparameter(const struct option_row *option);
/* Does libpipetrain-feed take the option (feed_settings.h)? */
bool option_is_of_feeds(const struct option_row *option);
/* The index of the row in option_table and settings.origins. */
size_t option_index(const struct option_row *option);
/* The field of the option in `settings`. */
void *option_field(const struct option_row *option, struct settings *settings);
const void *option_value(const struct option_row *option, const struct settings *settings);

/* Set the field from `value`. 0, -ENOMEM, or -EINVAL with the problem in problem_out. */
int option_parse(const struct option_row *option, struct settings *settings, const char *value,
                 char *problem_out, size_t problem_size);
/* A buffer for option_format. */
struct option_text { char text[32 * OPTION_NUMBERS_MAX]; };
/* The value of the field as text, which parses to the same value. It is in the settings, in the table, or in *text. */
const char *option_format(const struct option_row *option, const struct settings *settings, struct option_text *text);
/* Does the option have its default value? */
bool option_is_default(const struct option_row *option, const struct settings *settings);
/* The name and the value of choice `i` of an option, in the order of the help; NULL after the last. */
const char *option_choice_at(const struct option_row *option, size_t i, int *value_out);
/* The name of a value of an OPTION_CHOICE, or NULL. */
const char *option_choice_name(const struct option_row *option, int value);
/* "integer" for OPTION_INTEGER, and so on. */
const char *option_type_name(enum option_type type);
/* The allowed values ("1 .. 1024", "full, none"), or "" for any. */
void option_range(const struct option_row *option, char *text, size_t text_size);

#endif
