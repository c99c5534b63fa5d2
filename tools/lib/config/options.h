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
    OPTION_NUMBERS,             /* separated by spaces or commas, 0 to OPTION_NUMBERS_MAX */
    OPTION_DURATION,            /* whole seconds, written as in quantity.h */
    OPTION_SIZE,                /* bytes, written as in quantity.h; if the default is auto, auto is 0 */
    OPTION_YES_NO,
    OPTION_CHOICE
};

/* What another value means where a run is resumed (doc/checkpoints.md). Every row names one: 0 is none of them. */
enum option_effect {
    EFFECT_RUN = 1,             /* decides what the run computes: with another value it is another run */
    EFFECT_REPORTED,            /* may change, and is reported: where and how long the run computes, what it accepts */
    EFFECT_NONE                 /* results do not depend on it */
};

/* The line of a row among the settings that a checkpoint stores. */
enum option_line {
    LINE_ALWAYS,
    LINE_IF_USED,               /* only where the row has an effect (option_is_used) */
    LINE_IF_CPU,                /* only where towers are on the CPU */
    LINE_IF_BF16,               /* only where gradients in bf16 are sent between towers (settings_use_bf16_grads) */
    LINE_ELSEWHERE              /* none: its effect is in the line of another row, or of the data */
};

/* What a command without training uses options for. */
enum command_use {
    USED_BY_EVALUATE = 1,
    USED_FOR_IMAGES = 2,        /* predict, of files */
    USED_FOR_SHARDS = 4,        /* predict */
    USED_OF_RUN = 8,            /* the command looks for the weights of a run */
    USED_WITH_CONFIG = 16,      /* the settings of the training run are known */
    USED_WITH_EVALUATE = 32,    /* both: USED_BY_EVALUATE and USED_WITH_CONFIG */
    USED_BY_NAME = 64,          /* the network is a model by name */
    USED_BY_PREDICT = USED_FOR_IMAGES | USED_FOR_SHARDS,
    USED_ON_SHARDS = USED_BY_EVALUATE | USED_FOR_SHARDS,
    USED_ALWAYS = USED_BY_EVALUATE | USED_BY_PREDICT
};

#define OPTIONS_DEPTH_MAX 1024  /* batches of input.prefetch_depth and input.staging_depth */
#define OPTION_NAME_MAX 64      /* bytes */
#define OPTION_STRING_MAX 32000 /* bytes; a quoted one fits into a line of a configuration file */

#define OPTION_USES_MAX 2

struct option_choice { const char *name; int value; };

/* What a row needs to have an effect: another option with one of these values. */
struct option_use {
    enum section section;
    const char *key;            /* NULL: nothing */
    const char *values;         /* separated by spaces; NULL: any but its default, */
    const char *(*keys_of)(int choice);         /* or those for which this has the key of the row */
};

/* All that is known of an option (struct option is that of getopt). */
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
    size_t offset;              /* of the field in struct settings */
    const char *help;           /* one line */
    const char *other_names;    /* in other training programs or earlier versions, separated by spaces; NULL: none */
    struct option_use uses[OPTION_USES_MAX];    /* all are needed */
    unsigned used_by;           /* bits of enum command_use; 0: for training only */
    bool may_differ;            /* between ranks: a place of input, whose contents are compared, or rank 0's alone */
    enum option_line line;
    bool decides_slices;        /* with train.slices the effect is EFFECT_RUN */
    const char *unclear;        /* a value that checkpoints of earlier versions have also for others; NULL: none */
    bool unknown_if_missing;    /* a checkpoint without its line, of an earlier version, may be of any value; of other
                                 * rows, it is of the default */
    bool is_hyperparameter;     /* TensorBoard shows it as one, as it does all of some sections */
    const char *in_trials;      /* its value in trials of --tune and --compare; NULL: the user's */
    const char *in_overfit;     /* its value with --overfit, unless --set has one; NULL: the user's */
};

/* All options by section; the last row has a NULL key. */
extern const struct option_row option_table[];
const char *section_name(enum section section);
const char *section_help(enum section section);

/* The section of this name, or SECTION_COUNT. */
enum section section_find(const char *name);

/* The option, or NULL. */
const struct option_row *option_find(enum section section, const char *key);
/* The number of options with this key in all sections, with the last of them, and the names of all: "run.name or
 * model.name". */
size_t option_find_key(const char *key, const struct option_row **option_out, char *names, size_t names_size);
/* The option of which the word is another name, regardless of case and of what is neither letter nor digit; NULL: none.
 * */
const struct option_row *option_find_other(const char *word);
bool option_is_hyperparameter(const struct option_row *option);
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
/* Is it the default? */
bool option_is_default(const struct option_row *option, const struct settings *settings);
/* The name and the value of choice `i` of an option, in the order of the help; NULL after the last. */
const char *option_choice_at(const struct option_row *option, size_t i, int *value_out);
/* The name of a value of a choice, or NULL. */
const char *option_choice_name(const struct option_row *option, int value);
/* The allowed values ("1 .. 1024", "full, none"), or "" for any. */
void option_range(const struct option_row *option, char *text, size_t text_size);

#endif
