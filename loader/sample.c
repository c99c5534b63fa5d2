/* Decoding a record's payload to a sample. Called while a data set is opened, and by decoders for every record. */
#include "loader/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/shards/shard_kind.h"

const char *const sample_key_names[SAMPLE_KEY_COUNT][SAMPLE_KEY_NAMES] = {
    [SAMPLE_IMAGE] = { "image_raw", "image", "img_raw", "image/encoded" },
    [SAMPLE_LABEL] = { "image/class/label", "label" },
    [SAMPLE_HEIGHT] = { "height", "image/height", "image_height" },
    [SAMPLE_WIDTH] = { "width", "image/width", "image_width" },
    [SAMPLE_DEPTH] = { "depth", "image/channels", "channels", "image_depth", "image_channels" },
};

int sample_key_find(const char *const *names, const uint8_t *payload, size_t bytes, const char **name_out,
                    struct feature *feature_out, size_t *bad_offset_out)
{
    const char *found = NULL;
    for (size_t i = 0; names[i] != NULL && found == NULL; i++) {
        const size_t name_bytes = strlen(names[i]);
        const struct example_query query = { &names[i], &name_bytes, 1 };
        if (example_find(payload, bytes, &query, feature_out, bad_offset_out) < 0)
            return -EBADMSG;
        if (feature_out->kind != FEATURE_MISSING)
            found = names[i];
    }
    *name_out = found;
    return 0;
}

/* ---- the format of a first record ---- */

/* Find the first of `names` that the payload has, or NULL, and its feature. 0 or -EBADMSG. */
static int find_first(const char *const *names, const char **name_out, struct feature *feature_out,
                      const struct payload_problem *problem)
{
    size_t bad_offset;
    return sample_key_find(names, problem->payload, problem->bytes, name_out, feature_out, &bad_offset) == 0
               ? 0
               : feature_report_bad(problem, bad_offset);
}

static int find_feature(const char *name, struct feature *feature_out, const struct payload_problem *problem)
{
    const char *found;
    return find_first((const char *const[]){ name, NULL }, &found, feature_out, problem);
}

static void key_set(struct sample_format *format, enum sample_key which, const char *name)
{
    format->keys[which] = name;
    format->key_bytes[which] = strlen(name);
}

/* Find the key of `which`: the configured key, or else the first usual key that the payload has. */
static int find_key(struct sample_format *format, enum sample_key which, const char *what,
                    const struct payload_problem *problem)
{
    const char *const configured[] = { format->keys[which], NULL };
    const char *found = NULL;
    struct feature feature;
    const int rc = find_first(configured[0] != NULL ? configured : sample_key_names[which], &found, &feature, problem);
    if (rc < 0)
        return rc;
    if (found == NULL)
        return feature_report_missing(problem, what, configured[0]);
    key_set(format, which, found);
    return 0;
}

static int find_size_keys(struct sample_format *format, const struct payload_problem *problem)
{
    const bool is_path = strncmp(format->keys[SAMPLE_IMAGE], "image/", strlen("image/")) == 0;
    int rc = 0;
    for (int key = SAMPLE_HEIGHT; key <= SAMPLE_DEPTH && rc == 0; key++) {
        const char *const *const names = sample_key_names[key];
        const char *found = NULL;
        struct feature feature;
        rc = find_first(names, &found, &feature, problem);
        if (rc == 0)
            key_set(format, (enum sample_key)key, found != NULL ? found : names[is_path]);
    }
    return rc;
}

/* Does the feature begin like an encoded image, and is its size not that of raw pixels? */
static bool is_encoded(const struct feature *feature, const struct image_shape *shape)
{
    size_t wanted = 0;
    (void)image_shape_bytes(shape, &wanted);
    return feature->kind == FEATURE_BYTES && feature->byte_count != wanted &&
           shard_kind_image(feature->bytes, feature->byte_count) != NULL;
}

static struct image_size size_in_payload(const struct sample_format *format, enum sample_key key,
                                         const struct payload_problem *problem)
{
    struct feature feature = { .kind = FEATURE_MISSING };
    (void)find_feature(format->keys[key], &feature, problem);
    return stored_size(format->keys[key], &feature);
}

/* Find what is known about raw pixels before the survey of their numbers. */
static int find_numbers(struct sample_format *format, const struct feature *feature, const struct image_shape *shape,
                        const struct payload_problem *problem)
{
    const struct stored_image image = {
        .key = format->keys[SAMPLE_IMAGE],
        .bytes = feature->bytes,
        .byte_count = feature->byte_count,
        .list = feature->kind != FEATURE_BYTES ? feature : NULL,
        .height = size_in_payload(format, SAMPLE_HEIGHT, problem),
        .width = size_in_payload(format, SAMPLE_WIDTH, problem),
        .channels = size_in_payload(format, SAMPLE_DEPTH, problem),
    };
    return stored_pixels_find(&image, shape, format->layout, &format->stored, problem->text, problem->text_size);
}

/* Find the size of a first encoded image. Problems are reported when the image is decoded. */
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

static int find_label_format(struct sample_format *format, const struct payload_problem *problem)
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
        rc = find_label_format(format, &problem);
    return rc;
}

static enum pixel_layout usual_layout(const struct sample_format *format, const struct image_shape *shape)
{
    size_t bytes = 0;
    (void)image_shape_bytes(shape, &bytes);
    const bool is_planar = shape->channels == 3 && format->stored.number_bytes == 1 &&
                           stored_pixels_are_cifar(format->keys[SAMPLE_IMAGE], bytes);
    return is_planar ? PIXEL_LAYOUT_CHW : PIXEL_LAYOUT_HWC;
}

int sample_settle_pixels(struct sample_format *format, const struct image_shape *shape,
                         const struct pixel_survey *survey, char *problem_out, size_t problem_size)
{
    const struct pixel_choice choice = { format->range, format->stored.layout, usual_layout(format, shape),
                                         PIXEL_CLEAR_SET };
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

/* ---- reading a record ---- */

static int read_features(const struct sample_format *format, struct feature features[SAMPLE_KEY_COUNT],
                         const struct payload_problem *problem)
{
    const struct example_query query = { format->keys, format->key_bytes, SAMPLE_KEY_COUNT };
    size_t bad_offset;
    return example_find(problem->payload, problem->bytes, &query, features, &bad_offset) == 0
               ? 0
               : feature_report_bad(problem, bad_offset);
}

static int report_image(const struct sample_format *format, const struct feature *image,
                      const struct payload_problem *problem)
{
    char first[128];
    if (image->kind == FEATURE_MISSING)
        return feature_report_missing(problem, "image", format->keys[SAMPLE_IMAGE]);
    sample_describe_images(format, first, sizeof(first));
    if (image->kind == format->stored_as)
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, one with pixels is needed", format->keys[SAMPLE_IMAGE],
                 feature_values_text(image).text);
    else
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, but the first record of the set %s: all records have to be of one kind",
                 format->keys[SAMPLE_IMAGE], feature_values_text(image).text, first);
    return -EBADMSG;
}

static bool is_image(const struct sample_format *format, const struct feature *image)
{
    return image->kind == format->stored_as && (image->kind != FEATURE_BYTES || image->value_count == 1);
}

/* Find the image among the features. 0, or -EBADMSG with a text if it is not a tensor of the same kind as in the first
 * record. */
static int find_image(const struct sample_format *format, const struct feature features[SAMPLE_KEY_COUNT],
                      struct stored_image *image_out, char *problem_out, size_t problem_size)
{
    const struct feature *const image = &features[SAMPLE_IMAGE];
    *image_out = (struct stored_image){
        .key = format->keys[SAMPLE_IMAGE],
        .bytes = image->bytes,
        .byte_count = image->byte_count,
        .list = image->kind != FEATURE_BYTES ? image : NULL,
        .type = format->reading.type,
        .range = format->reading.range,
        .height = stored_size(format->keys[SAMPLE_HEIGHT], &features[SAMPLE_HEIGHT]),
        .width = stored_size(format->keys[SAMPLE_WIDTH], &features[SAMPLE_WIDTH]),
        .channels = stored_size(format->keys[SAMPLE_DEPTH], &features[SAMPLE_DEPTH]),
    };
    return stored_pixels_unwrap(&format->stored, image_out, problem_out, problem_size);
}

static int copy_payload(const uint8_t *payload, size_t bytes, const struct sample_target *target, char *problem_out,
                        size_t problem_size)
{
    struct raw_record *const record = (struct raw_record *)(void *)target->pixels;
    uint8_t *const copy = malloc(bytes + 1);    /* an empty record has an address, too */
    if (copy == NULL) {
        snprintf(problem_out, problem_size, "there is not enough memory for its %zu bytes", bytes);
        return -ENOMEM;
    }
    memcpy(copy, payload, bytes);
    *record = (struct raw_record){ copy, bytes };
    problem_out[0] = '\0';
    return 0;
}

int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size)
{
    if (format->is_raw)
        return copy_payload(payload, bytes, target, problem_out, problem_size);
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    struct feature features[SAMPLE_KEY_COUNT];
    if (read_features(format, features, &problem) < 0)
        return -EBADMSG;
    if (!is_image(format, &features[SAMPLE_IMAGE]))
        return report_image(format, &features[SAMPLE_IMAGE], &problem);
    if (label_read(&format->label, format->keys[SAMPLE_LABEL], &features[SAMPLE_LABEL], target->label, &problem) < 0)
        return -EBADMSG;
    struct stored_image stored;
    if (find_image(format, features, &stored, problem_out, problem_size) < 0)
        return -EBADMSG;
    problem_out[0] = '\0';
    return format->image->decode(codec, &stored, &target->request, target->pixels, problem_out, problem_size);
}

int sample_read_label(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                      struct sample_label *label_out, char *problem_out, size_t problem_size)
{
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    struct feature features[SAMPLE_KEY_COUNT];
    if (read_features(format, features, &problem) < 0)
        return -EBADMSG;
    label_out->has_repeats = features[SAMPLE_IMAGE].entry_count > 1 || features[SAMPLE_LABEL].entry_count > 1;
    return label_read_stored(&format->label, format->keys[SAMPLE_LABEL], &features[SAMPLE_LABEL],
                             &label_out->stored, &problem);
}

/* The label's feature; FEATURE_MISSING if the payload cannot be read. */
static struct feature label_feature(const struct sample_format *format, const struct payload_problem *problem)
{
    struct feature features[SAMPLE_KEY_COUNT];
    return read_features(format, features, problem) == 0 ? features[SAMPLE_LABEL]
                                                         : (struct feature){ .kind = FEATURE_MISSING };
}

bool sample_label_is_open(const struct sample_format *format, const uint8_t *payload, size_t bytes)
{
    char text[128];
    const struct payload_problem problem = { payload, bytes, text, sizeof(text) };
    const struct feature label = label_feature(format, &problem);
    return label_is_open(&format->label, &label);
}

bool sample_label_is_number_byte(const struct sample_format *format, const uint8_t *payload, size_t bytes)
{
    char text[128];
    const struct payload_problem problem = { payload, bytes, text, sizeof(text) };
    const struct feature label = label_feature(format, &problem);
    return label_is_number_byte(&label);
}

int sample_settle_label(struct sample_format *format, const uint8_t *payload, size_t bytes, bool is_number,
                        char *problem_out, size_t problem_size)
{
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    const struct feature label = label_feature(format, &problem);
    return label_settle(&format->label, format->keys[SAMPLE_LABEL], &label, is_number, &problem);
}

void sample_begin_survey(const struct sample_format *format, struct pixel_survey *survey)
{
    stored_pixels_begin_survey(&format->stored, survey);
}

int sample_survey_pixels(const struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                         size_t bytes, struct pixel_survey *survey)
{
    char text[256];
    const struct payload_problem problem = { payload, bytes, text, sizeof(text) };
    struct feature features[SAMPLE_KEY_COUNT];
    struct stored_image stored;
    if (read_features(format, features, &problem) < 0 || !is_image(format, &features[SAMPLE_IMAGE]) ||
        find_image(format, features, &stored, text, sizeof(text)) < 0)
        return 0;
    return pixel_survey_add(survey, &stored, shape);
}
