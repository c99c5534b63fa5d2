/* pipetrain-convert: the interface between the program and its converters. A converter is a row of a table: it lists
 * the options it takes, and turns its inputs into sources of samples. */
#ifndef PIPETRAIN_CONVERT_H
#define PIPETRAIN_CONVERT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/image_change.h"
#include "tools/convert/shard_set.h"

#define CONVERT_PROGRAM "pipetrain-convert"
#define CONVERT_SOURCES_MAX 3u

/* Options that only some converters take, as bits. */
enum convert_option {
    CONVERT_TRAIN = 1,          /* --train, and --validation as a number of samples to draw */
    CONVERT_LABEL = 2,          /* --label */
    CONVERT_RESIZE = 4, CONVERT_RAW = 8, CONVERT_QUALITY = 16, CONVERT_NO_DECODE = 32,
    CONVERT_IMAGES = CONVERT_RESIZE | CONVERT_RAW | CONVERT_QUALITY | CONVERT_NO_DECODE,
    CONVERT_IMAGE_KEY = 64, CONVERT_LABEL_KEY = 128,
    CONVERT_KEYS = CONVERT_IMAGE_KEY | CONVERT_LABEL_KEY,
    CONVERT_FOLDERS = 256,      /* --folders-are-classes */
    CONVERT_LABEL_COLUMN = 512, CONVERT_PATH_COLUMN = 1024, CONVERT_PIXELS_COLUMN = 2048, CONVERT_SPLIT_COLUMN = 4096,
    CONVERT_IMAGES_FOLDER = 8192,
    CONVERT_COLUMNS = CONVERT_IMAGES_FOLDER | CONVERT_LABEL_COLUMN | CONVERT_PATH_COLUMN | CONVERT_PIXELS_COLUMN | CONVERT_SPLIT_COLUMN
};

struct convert_options {
    char *const *inputs;        /* the arguments after the converter's name */
    size_t input_count;
    const char *output;
    uint64_t seed;
    bool keeps_order;           /* records keep the order of the input */
    uint64_t jobs;
    uint64_t shards;            /* of the training split; 0: not given */
    uint64_t shard_bytes;       /* approximate size of a shard; 0: not given */
    bool has_validation;        /* one of the next two is given */
    uint64_t validation;        /* samples */
    double validation_share;    /* fraction of all samples, or 0 */
    uint64_t train;             /* samples to draw */
    enum packing packing;
    struct image_change change; /* of the images; image_key is filled in later */
    const char *image_key, *label_key;  /* features of the input; NULL: those in dataset.json, or the usual names */
    bool folders_are_classes;   /* no folder or archive is a split, whatever its name */
    const char *images_folder;  /* the folder that the paths of tables are relative to; NULL: that of the table */
    const char *label_column, *path_column, *pixels_column, *split_column;   /* NULL: found by names and values */
    const char *label;          /* which of several labels; NULL: the default */
    bool may_replace;           /* replace an existing set */
    bool is_quiet;              /* do not print what was made */
    const atomic_bool *interrupted;     /* true: a long preparation should stop with -ECANCELED */
};

/* The samples, and what dataset.json says about them. */
struct conversion {
    const char *name;
    const char *origin;         /* where the samples come from, one line */
    const char *image_key, *label_key;  /* the features: image_raw and label unless the converter sets others;
                                         * NULL: not known */
    uint32_t classes;           /* 0: not known */
    const char *const *class_names;     /* of each class; NULL: no names */
    uint32_t height, width, depth;      /* of every image; 0: they differ */
    struct sample_source sources[CONVERT_SOURCES_MAX];  /* the training set first */
    size_t source_count;
    /* Called when all samples have been read; NULL: nothing. 0, or a negative errno after stop_fail. */
    int (*finish)(const struct conversion *conversion, struct stop *stop);
    const char *remark;         /* printed at the end; NULL or "": nothing */
    void *state;                /* the converter's own; NULL: there was no memory for it */
};

struct converter {
    const char *name;
    const char *summary;
    const char *inputs;         /* the arguments, for the usage */
    size_t input_count_least, input_count_most;
    unsigned takes;             /* bits of enum convert_option */
    bool has_named_inputs;      /* the names of its files are given by its format */
    bool takes_pixels;          /* as numbers, in files that are the inputs: see convert_report_emnist */
    size_t state_bytes;         /* of conversion->state, which prepare gets as zeros */
    /* Read and check the inputs. 0, or a negative errno after stop_fail, or -ECANCELED when interrupted. */
    int (*prepare)(const struct convert_options *options, struct stop *stop, struct conversion *conversion_out);
    /* Release what the state owns, also after prepare has failed. NULL: nothing. */
    void (*release)(struct conversion *conversion);
};

extern const struct converter convert_mnist, convert_cifar10, convert_cifar100, convert_npy, convert_digits;
extern const struct converter convert_folder, convert_archive, convert_csv, convert_tfrecord;

/* Call the converter's prepare, with its state. Results as of prepare; call converter_release in all cases. */
int converter_prepare(const struct converter *converter, const struct convert_options *options, struct stop *stop,
                      struct conversion *conversion);
void converter_release(const struct converter *converter, struct conversion *conversion);

/* Report a failure of a conversion: stop_fail with the exit code of `rc`, by default `otherwise`. Returns `rc`. */
int convert_fail(struct stop *stop, enum exit_code otherwise, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Report a file or folder of EMNIST, whose images have rows and columns exchanged: by its path, by what links lead to, or
 * by the name in a gzip file, unless it is known to be one. Returns whether it is one. */
bool convert_report_emnist(const char *path, bool is_known);

/* Fill in the features of a raw image: depth, height, image_raw, label, width. Returns their number. */
size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX]);

#endif
