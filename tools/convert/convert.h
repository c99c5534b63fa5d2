/* pipetrain-convert: what the program and its converters have between them. A converter is a
 * row of a table: it says which options it takes, and turns its inputs into sources of samples. */
#ifndef PIPETRAIN_CONVERT_H
#define PIPETRAIN_CONVERT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/images/image_change.h"
#include "tools/convert/shard_set.h"

#define CONVERT_PROGRAM "pipetrain-convert"
#define CONVERT_SOURCES_MAX 3u

/* Options that only some converters take. */
enum convert_option {
    CONVERT_TRAIN = 1,          /* --train, and --validation as a number of samples to make */
    CONVERT_LABEL = 2,          /* --label */
    CONVERT_RESIZE = 4, CONVERT_RAW = 8,
    CONVERT_IMAGES = CONVERT_RESIZE | CONVERT_RAW,
    CONVERT_QUALITY = 16,       /* --quality, of the same converters */
    CONVERT_IMAGE_KEY = 32, CONVERT_LABEL_KEY = 64,
    CONVERT_KEYS = CONVERT_IMAGE_KEY | CONVERT_LABEL_KEY
};

struct convert_options {
    char *const *inputs;        /* the words behind the converter's name */
    size_t input_count;
    const char *output;
    uint64_t seed;
    bool keeps_order;           /* records lie as the input has them */
    uint64_t jobs;
    uint64_t shards;            /* of the training split; 0 = not said */
    uint64_t shard_bytes;       /* of a shard's records, about; 0 = not said */
    bool has_validation;        /* the next two were given, one of them */
    uint64_t validation;        /* samples */
    double validation_share;    /* of all samples, or 0 */
    uint64_t train;             /* samples to make */
    enum packing packing;
    struct image_change change; /* to the images; its image_key is the conversion's */
    const char *image_key, *label_key;  /* the features of the input; NULL: as its dataset.json says, or usual ones */
    const char *label;          /* which one of several a sample has; NULL = the usual one */
    bool may_replace;           /* a set that is there */
    bool is_quiet;              /* nothing is printed of what was made */
    const atomic_bool *interrupted;     /* true when a long preparation should give up with -ECANCELED */
};

/* What is written beside the shards in dataset.json, and the samples. */
struct conversion {
    const char *name;
    const char *origin;         /* where the samples come from, one line */
    const char *image_key, *label_key;  /* the features; image_raw and label where a converter says nothing,
                                         * NULL where they are not known */
    uint32_t classes;           /* 0: not known */
    const char *const *class_names;     /* of each class; NULL when they have none */
    uint32_t height, width, depth;      /* of every image, or 0 where they differ */
    struct sample_source sources[CONVERT_SOURCES_MAX];  /* that to train with comes first */
    size_t source_count;
    const char *remark;         /* to be said at the end; NULL or "": nothing */
    void *state;                /* the converter's own */
};

struct converter {
    const char *name;
    const char *summary;
    const char *inputs;         /* the words behind the name, for the usage */
    size_t input_count_least, input_count_most;
    unsigned takes;             /* of enum convert_option */
    /* Read and check the inputs. 0, or a negative errno after stop_fail, or -ECANCELED when
     * interrupted; release in all cases. */
    int (*prepare)(const struct convert_options *options, struct stop *stop, struct conversion *conversion_out);
    void (*release)(struct conversion *conversion);
};

extern const struct converter convert_mnist, convert_cifar10, convert_cifar100, convert_npy, convert_digits;
extern const struct converter convert_folder, convert_tar, convert_csv, convert_tfrecord;

/* The features of a raw image: depth, height, image_raw, label, width. Returns their number. */
size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX]);

#endif
