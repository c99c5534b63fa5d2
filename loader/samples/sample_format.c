/* Which features of a record are the sample's, and how they are stored. Called while a data set is opened. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/images/raw.h"
#include "loader/samples/sample.h"
#include "loader/samples/tensor_image.h"
#include "loader/shards/shard_kind.h"

/* The image of the CIFAR-10 estimator tutorial: `image`, three planes of 32 x 32. */
#define CIFAR_KEY "image"
#define CIFAR_BYTES 3072u

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

/* It begins so, and cannot be the pixels wanted. */
static bool is_encoded(const struct feature *feature, const struct image_shape *shape)
{
    size_t wanted = 0;
    (void)image_shape_bytes(shape, &wanted);
    return feature->kind == FEATURE_BYTES && feature->byte_count != wanted &&
           shard_kind_image(feature->bytes, feature->byte_count) != NULL;
}

static int64_t said_size(const struct sample_format *format, enum sample_key key, const struct payload_problem *problem)
{
    struct feature feature;
    const bool is_said = find_feature(format->keys[key], &feature, problem) == 0 && feature.kind == FEATURE_INT64S &&
                         feature.value_count > 0;
    return is_said ? feature.int64 : IMAGE_SIZE_UNSAID;
}

/* What is known of raw pixels before their numbers are looked at. */
static int find_numbers(struct sample_format *format, const struct feature *feature, const struct image_shape *shape,
                        const struct payload_problem *problem)
{
    const struct stored_image image = {
        .key = format->keys[SAMPLE_IMAGE],
        .bytes = feature->bytes,
        .byte_count = feature->byte_count,
        .height.said = said_size(format, SAMPLE_HEIGHT, problem),
        .width.said = said_size(format, SAMPLE_WIDTH, problem),
        .channels.said = said_size(format, SAMPLE_DEPTH, problem),
    };
    format->numbers = NUMBER_KIND_COUNT;
    if (feature->kind == FEATURE_FLOATS)
        format->numbers = NUMBER_FLOAT32;
    else if (feature->kind == FEATURE_INT64S)
        format->numbers = NUMBER_INTEGERS;
    else if ((format->is_tensor = tensor_image_is(feature->bytes, feature->byte_count)))
        return tensor_image_find(&image, format->layout, &format->numbers, &format->layout, problem->text,
                                 problem->text_size);
    else
        format->number_bytes = raw_number_bytes(&image, shape);
    return 0;
}

/* What cannot be read is told when the image is decoded. */
static void find_size(struct sample_format *format, const struct feature *feature)
{
    struct image_header header;
    const char *problem;
    if (image_header_read(feature->bytes, feature->byte_count, &header, &problem) != 0)
        return;
    format->stored_height = header.height;
    format->stored_width = header.width;
}

static int find_store(struct sample_format *format, const struct image_shape *shape,
                      const struct payload_problem *problem)
{
    struct feature feature;
    if (find_feature(format->keys[SAMPLE_IMAGE], &feature, problem) < 0)
        return -EBADMSG;
    format->stored_as = feature.kind;
    format->image = is_encoded(&feature, shape) ? &image_encoded_ops : NULL;
    if (format->image == NULL)
        return find_numbers(format, &feature, shape, problem);
    find_size(format, &feature);
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

static enum pixel_layout usual_layout(const struct sample_format *format, const struct image_shape *shape)
{
    size_t bytes = 0;
    (void)image_shape_bytes(shape, &bytes);
    const bool is_planar = shape->channels == 3 && bytes == CIFAR_BYTES && format->number_bytes == 1 &&
                           strcmp(format->keys[SAMPLE_IMAGE], CIFAR_KEY) == 0;
    return is_planar ? PIXEL_LAYOUT_CHW : PIXEL_LAYOUT_HWC;
}

int sample_settle_pixels(struct sample_format *format, const struct image_shape *shape,
                         const struct pixel_survey *survey, char *problem_out, size_t problem_size)
{
    const struct pixel_choice choice = { format->range, format->layout, usual_layout(format, shape), PIXEL_CLEAR_SET };
    char text[256];
    if (pixel_survey_settle(survey, &choice, &format->reading, text, sizeof(text)) < 0) {
        snprintf(problem_out, problem_size, "feature '%s' holds %s", format->keys[SAMPLE_IMAGE], text);
        return -EBADMSG;
    }
    format->image = pixel_reading_ops(&format->reading);
    return 0;
}

void sample_describe_images(const struct sample_format *format, char *text_out, size_t text_size)
{
    if (format->image == &image_encoded_ops)
        snprintf(text_out, text_size, "%s", format->image->name);
    else
        pixel_reading_describe(&format->reading, text_out, text_size);
}
