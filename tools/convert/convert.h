/* pipetrain-convert: what the program and its converters have between them. A converter is a
 * row of a table: it says which options it takes, and turns them into sources of samples. */
#ifndef PIPETRAIN_CONVERT_H
#define PIPETRAIN_CONVERT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/shard_set.h"

#define CONVERT_SOURCES_MAX 3u

struct convert_options {
    const char *input;          /* NULL for converters that read nothing */
    char *const *inputs;        /* all of them, beginning with input */
    size_t input_count;
    const char *output;
    uint64_t seed;
    uint64_t jobs;
    uint64_t shards;            /* of the training split; 0 = as the converter likes */
    uint64_t train, validation; /* records to draw */
    const atomic_bool *interrupted; /* true when a long preparation should give up with -ECANCELED */
};

/* What is written beside the shards in dataset.json, and the samples. */
struct conversion {
    const char *name;
    const char *origin;         /* where the samples come from, one line */
    const char *image_key, *label_key;  /* the features; image_raw and label where a converter says nothing */
    uint32_t classes;
    const char *const *class_names;     /* of each class; NULL when they have none */
    uint32_t height, width, depth;      /* of every image, or 0 where they differ */
    struct sample_source sources[CONVERT_SOURCES_MAX];
    size_t source_count;
    void *state;                /* the converter's own */
};

struct converter {
    const char *name;
    const char *summary;
    bool has_input;             /* takes DIR */
    bool has_more_inputs;       /* takes more than one */
    bool has_counts;            /* takes --train and --validation */
    /* Read and check the input. 0, or a negative errno after stop_fail; release in both cases. */
    int (*prepare)(const struct convert_options *options, struct stop *stop, struct conversion *conversion_out);
    void (*release)(struct conversion *conversion);
};

extern const struct converter convert_mnist, convert_digits;

/* The features of a raw image: depth, height, image_raw, label, width. Returns their number. */
size_t convert_raw_image(const struct conversion *conversion, const uint8_t *pixels, int64_t label,
                         struct example_value values_out[SAMPLE_VALUES_MAX]);

/* The number of training shards: as asked for, else 4, but never more than records. 0, or
 * -EINVAL after stop_fail when more were asked for than there are records. */
int convert_shard_count(const struct convert_options *options, uint64_t record_count, struct stop *stop,
                        uint32_t *shard_count_out);

#endif
