/* Which features of a record are the sample's, and how they are stored. Called while a data set is opened. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/samples/sample.h"
#include "loader/shards/shard_kind.h"

/* The image of the CIFAR-10 estimator tutorial: `image`, three planes of 32 x 32. */
#define CIFAR_KEY "image"
#define CIFAR_BYTES 3072u
#define FLOAT_BYTES 4u

static int find_feature(const char *name, struct feature *feature_out, const struct payload_problem *problem)
{
    const size_t name_bytes = strlen(name);
    const struct example_query query = { &name, &name_bytes, 1 };
    size_t bad_offset;
    return example_find(problem->payload, problem->bytes, &query, feature_out, &bad_offset) == 0
               ? 0
               : feature_tell_bad(problem, bad_offset);
}

/* The first of `names` that the payload has, NULL when none. 0 or -EBADMSG. */
static int find_first(const char *const *names, const char **name_out, const struct payload_problem *problem)
{
    struct feature feature;
    size_t bad_offset;
    return sample_key_find(names, problem->payload, problem->bytes, name_out, &feature, &bad_offset) == 0
               ? 0
               : feature_tell_bad(problem, bad_offset);
}

static void key_set(struct sample_format *format, enum sample_key which, const char *name)
{
    format->keys[which] = name;
    format->key_bytes[which] = strlen(name);
}

/* The key of `which`: the configured one, else the first of those in use that is there. */
static int find_key(struct sample_format *format, enum sample_key which, const char *what,
                    const struct payload_problem *problem)
{
    const char *const configured[] = { format->keys[which], NULL };
    const char *found;
    const int rc = find_first(configured[0] != NULL ? configured : sample_key_names[which], &found, problem);
    if (rc < 0)
        return rc;
    if (found == NULL)
        return feature_tell_missing(problem, what, configured[0]);
    key_set(format, which, found);
    return 0;
}

static int find_size_keys(struct sample_format *format, const struct payload_problem *problem)
{
    const bool is_path = strncmp(format->keys[SAMPLE_IMAGE], "image/", strlen("image/")) == 0;
    int rc = 0;
    for (int key = SAMPLE_HEIGHT; key <= SAMPLE_DEPTH && rc == 0; key++) {
        const char *const *const names = sample_key_names[key];
        const char *found;
        rc = find_first(names, &found, problem);
        if (rc == 0)
            key_set(format, (enum sample_key)key, found != NULL ? found : names[is_path]);
    }
    return rc;
}

/* The first record's image, to be recognised. */
struct first_image {
    const struct sample_format *format;
    const struct feature *feature;
    size_t wanted;              /* numbers in an image of the network's shape */
    uint64_t said;              /* numbers the record says there are; 0 where it does not */
    uint32_t channels;
};

static uint64_t said_numbers(const struct sample_format *format, const struct payload_problem *problem)
{
    uint64_t numbers = 1;
    for (int key = SAMPLE_HEIGHT; key <= SAMPLE_DEPTH; key++) {
        struct feature feature;
        const bool is_said = find_feature(format->keys[key], &feature, problem) == 0 &&
                             feature.kind == FEATURE_INT64S && feature.value_count > 0 && feature.int64 > 0;
        if (!is_said || __builtin_mul_overflow(numbers, (uint64_t)feature.int64, &numbers))
            return 0;
    }
    return numbers;
}

static bool is_planar(const struct first_image *first)
{
    if (first->format->layout != IMAGE_LAYOUT_AUTO)
        return first->format->layout == IMAGE_LAYOUT_CHW;
    return first->channels == 3 && first->wanted == CIFAR_BYTES && first->feature->kind == FEATURE_BYTES &&
           strcmp(first->format->keys[SAMPLE_IMAGE], CIFAR_KEY) == 0;
}

/* It begins so, and cannot be the pixels wanted. */
static bool is_encoded(const struct first_image *first)
{
    const struct feature *const feature = first->feature;
    return feature->kind == FEATURE_BYTES && feature->byte_count != first->wanted &&
           shard_kind_image(feature->bytes, feature->byte_count) != NULL;
}

static bool is_floats(const struct first_image *first)
{
    const struct feature *const feature = first->feature;
    size_t float_bytes;
    return feature->kind == FEATURE_FLOATS ||
           (feature->kind == FEATURE_BYTES && !__builtin_mul_overflow(first->wanted, FLOAT_BYTES, &float_bytes) &&
            feature->byte_count == float_bytes && feature->byte_count != first->said);
}

static bool is_planar_floats(const struct first_image *first)
{
    return is_floats(first) && first->format->layout == IMAGE_LAYOUT_CHW;
}

static bool is_integers(const struct first_image *first)
{
    return first->feature->kind == FEATURE_INT64S;
}

static bool is_planar_integers(const struct first_image *first)
{
    return is_integers(first) && first->format->layout == IMAGE_LAYOUT_CHW;
}

static bool is_anything(const struct first_image *first)
{
    (void)first;
    return true;
}

/* The first one that recognises an image says how all are stored. */
static const struct {
    bool (*recognises)(const struct first_image *first);
    const struct image_ops *ops;
} stores[] = {
    { is_encoded, &image_encoded_ops },
    { is_planar_floats, &image_float_chw_ops },
    { is_floats, &image_float_hwc_ops },
    { is_planar_integers, &image_integer_chw_ops },
    { is_integers, &image_integer_hwc_ops },
    { is_planar, &image_raw_chw_ops },
    { is_anything, &image_raw_hwc_ops },
};

/* What cannot be read is told when the image is decoded. */
static void find_size(struct sample_format *format, const struct feature *feature)
{
    struct image_header header;
    const char *problem;
    if (format->image != &image_encoded_ops ||
        image_header_read(feature->bytes, feature->byte_count, &header, &problem) != 0)
        return;
    format->stored_height = header.height;
    format->stored_width = header.width;
}

static int find_store(struct sample_format *format, const struct image_shape *shape,
                      const struct payload_problem *problem)
{
    struct feature feature;
    struct first_image first = { .format = format, .feature = &feature, .channels = shape->channels };
    if (find_feature(format->keys[SAMPLE_IMAGE], &feature, problem) < 0)
        return -EBADMSG;
    (void)image_shape_bytes(shape, &first.wanted);
    first.said = said_numbers(format, problem);
    size_t i = 0;
    while (!stores[i].recognises(&first))
        i++;
    format->image = stores[i].ops;
    find_size(format, &feature);
    format->lowest = INFINITY;
    format->highest = -INFINITY;
    return 0;
}

static int find_label(struct sample_format *format, const struct payload_problem *problem)
{
    const char *const key = format->keys[SAMPLE_LABEL];
    struct feature feature;
    if (find_feature(key, &feature, problem) < 0)
        return -EBADMSG;
    return label_find_format(&format->label, key, &feature, problem);
}

int sample_find_format(struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes, char *problem_out, size_t problem_size)
{
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    int rc = find_key(format, SAMPLE_IMAGE, "image", &problem);
    if (rc == 0)
        rc = find_key(format, SAMPLE_LABEL, "label", &problem);
    if (rc == 0)
        rc = find_size_keys(format, &problem);
    if (rc == 0)
        rc = find_store(format, shape, &problem);
    if (rc == 0)
        rc = find_label(format, &problem);
    return rc;
}
