/* pipetrain-convert: the interface between the program and its converters. A converter lists the options that it
 * takes, and makes sources of samples from its inputs. */
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
    CONVERT_UPRIGHT = 16384, CONVERT_SKIP_UNREADABLE = 32768,
    CONVERT_IMAGES = CONVERT_RESIZE | CONVERT_RAW | CONVERT_QUALITY | CONVERT_NO_DECODE | CONVERT_UPRIGHT |
                     CONVERT_SKIP_UNREADABLE,
    CONVERT_IMAGE_KEY = 64, CONVERT_LABEL_KEY = 128,
    CONVERT_KEYS = CONVERT_IMAGE_KEY | CONVERT_LABEL_KEY,
    CONVERT_FOLDERS = 256,      /* --folders-are-classes */
    CONVERT_LABEL_COLUMN = 512, CONVERT_PATH_COLUMN = 1024, CONVERT_PIXELS_COLUMN = 2048, CONVERT_SPLIT_COLUMN = 4096,
    CONVERT_IMAGES_FOLDER = 8192,
    CONVERT_COLUMNS = CONVERT_IMAGES_FOLDER | CONVERT_LABEL_COLUMN | CONVERT_PATH_COLUMN | CONVERT_PIXELS_COLUMN |
                      CONVERT_SPLIT_COLUMN
};

struct convert_options {
    char *const *inputs;        /* the arguments after the name of the converter */
    size_t input_count;
    const char *output;
    uint64_t seed;
    bool keeps_order;           /* do not shuffle: records are in the order of the input */
    uint64_t jobs;
    uint64_t shards;            /* number of shards of the training split; 0: not given */
    uint64_t shard_bytes;       /* approximate size of a shard; 0: not given */
    bool has_validation;        /* `validation` or `validation_share` is given */
    uint64_t validation;        /* number of validation samples */
    double validation_share;    /* fraction of all samples; 0: `validation` is used */
    uint64_t train;             /* number of training samples to draw */
    enum packing packing;
    struct image_change change; /* changes of the images; image_key is filled in later */
    /* names of the input's features; NULL: those in dataset.json, or the usual names */
    const char *image_key, *label_key;
    bool skips_unreadable;      /* leave out images that cannot be read instead of refusing the input */
    bool folders_are_classes;   /* do not treat folders or archives as splits because of their names */
    const char *images_folder;  /* paths in tables are relative to this folder; NULL: to the folder of the table */
    const char *label_column, *path_column, *pixels_column, *split_column;   /* NULL: derived from names and values */
    const char *label;          /* name of the label to use if there are several; NULL: the default */
    bool may_replace;           /* replace an existing set */
    bool is_quiet;              /* do not print the result */
    const atomic_bool *interrupted;     /* true: a long preparation should stop with -ECANCELED */
};

#define LEFT_OUT_LISTED 100u

/* Images that were left out because they cannot be read. */
struct left_out { uint64_t count; size_t listed; char *first[LEFT_OUT_LISTED]; };     /* "NAME: PROBLEM"; owned */

/* The result of a converter's prepare: the sources of samples, and data for dataset.json. */
struct conversion {
    const char *name;
    const char *origin;         /* where the samples come from, one line */
    /* names of the features: image_raw and label unless the converter sets others; NULL: unknown */
    const char *image_key, *label_key;
    uint32_t classes;           /* number of classes; 0: unknown */
    const char *const *class_names;     /* one for each class; NULL: classes have no names */
    uint32_t height, width, depth;      /* size of all images; 0: sizes differ */
    struct sample_source sources[CONVERT_SOURCES_MAX];  /* the training set first */
    size_t source_count;
    /* Called when all samples have been read; may be NULL. 0, or a negative errno after stop_fail. */
    int (*finish)(const struct conversion *conversion, struct stop *stop);
    struct left_out left_out;
    const char *remark;         /* printed at the end; NULL or "": none */
    void *state;                /* data of the converter (state_bytes bytes); NULL: out of memory */
};

struct converter {
    const char *name;
    const char *summary;
    const char *inputs;         /* the arguments, as printed in the usage line */
    size_t input_count_least, input_count_most;
    unsigned takes;             /* bits of enum convert_option */
    bool has_named_inputs;      /* the format determines the names of the inputs, or they decide on the splits */
    bool takes_pixels;          /* the inputs are files with pixels as numbers: see convert_report_emnist */
    size_t state_bytes;         /* size of conversion->state, which is zeroed before prepare is called */
    /* Read and check the inputs. 0, -ECANCELED when interrupted, or another negative errno after stop_fail. */
    int (*prepare)(const struct convert_options *options, struct stop *stop, struct conversion *conversion_out);
    /* Release the data of the state, also after prepare has failed. May be NULL. */
    void (*release)(struct conversion *conversion);
};

extern const struct converter convert_mnist, convert_cifar10, convert_cifar100, convert_npy, convert_digits;
extern const struct converter convert_folder, convert_archive, convert_webdataset, convert_csv, convert_tfrecord;

/* Allocate the state and call prepare of the converter. Returns the same as prepare; call converter_release in all
 * cases. */
int converter_prepare(const struct converter *converter, const struct convert_options *options, struct stop *stop,
                      struct conversion *conversion);
void converter_release(const struct converter *converter, struct conversion *conversion);
/* Add an image that was left out; only the first LEFT_OUT_LISTED texts are copied. */
void conversion_leave_out(struct conversion *conversion, const char *name, const char *problem);

/* Report a failure of a conversion: call stop_fail with the exit code for `rc`, which is `otherwise` if `rc` has
 * none of its own. Returns `rc`. */
int convert_fail(struct stop *stop, enum exit_code otherwise, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Warn if a file or folder is of EMNIST, whose images have rows and columns exchanged. It is recognised by its path,
 * by the target of a link, or by the name that a gzip file contains; is_known: the caller has recognised it already.
 * Returns whether it is of EMNIST. */
bool convert_report_emnist(const char *path, bool is_known);

/* Fill in the features of a raw image: depth, height, image_raw, label, width. Returns their number. */
size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX]);

#endif
