/* A record's payload read as a sample. sample_read is called by decoders for every
 * record; the rest while a data set is opened. */
#include "loader/samples/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "loader/shards/shard_kind.h"
#include "loader/shards/text.h"
#include "stage/log.h"

/* The image of the CIFAR-10 estimator tutorial: `image`, three planes of 32 x 32. */
#define CIFAR_KEY "image"
#define CIFAR_BYTES 3072u

static const char *const image_keys[] = { "image_raw", "image", "img_raw", "image/encoded" };
static const char *const label_keys[] = { "image/class/label", "label" };

/* The image's size beside it. Where the first record has none, the names are meant that go with the image's. */
static const char *const size_keys[SAMPLE_KEY_COUNT][3] = {
    [SAMPLE_HEIGHT] = { "height", "image/height" },
    [SAMPLE_WIDTH] = { "width", "image/width" },
    [SAMPLE_DEPTH] = { "depth", "image/channels", "channels" },
};

static int list_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    static const char *const kinds[] = {
        [FEATURE_MISSING] = "nothing", [FEATURE_BYTES] = "bytes", [FEATURE_FLOATS] = "floats",
        [FEATURE_INT64S] = "integers",
    };
    char shown[128];
    log_escape(name, name_bytes, shown, sizeof(shown));
    text_add(arg, " %s (%" PRIu64 " %s)", shown, feature->value_count, kinds[feature->kind]);
    return 0;
}

static int not_an_example(size_t bad_offset, char *problem, size_t problem_size)
{
    snprintf(problem, problem_size, "is no tf.train.Example (byte %zu of its payload)", bad_offset);
    return -EBADMSG;
}

/* "no feature 'x'; it has: a (1 bytes) b (2 integers)" */
static int report_missing(const char *what, const char *key, const uint8_t *payload, size_t bytes, char *problem,
                          size_t problem_size)
{
    struct text text;
    size_t bad_offset;
    text_init(&text, problem, problem_size);
    if (key != NULL)
        text_add(&text, "has no feature '%s' for the %s; it has:", key, what);
    else
        text_add(&text, "has no feature known as %s, name one with %s_key; it has:", what, what);
    char *const list = text.at;
    (void)example_visit(payload, bytes, list_feature, &text, &bad_offset);
    if (text.at == list)
        text_add(&text, " none");
    return -EBADMSG;
}

/* The first of `names` that the payload has, NULL when none. 0 or -EBADMSG. */
static int find_first(const char *const *names, size_t count, const uint8_t *payload, size_t bytes,
                      const char **name_out, char *problem, size_t problem_size)
{
    *name_out = NULL;
    for (size_t i = 0; i < count && *name_out == NULL; i++) {
        const size_t name_bytes = strlen(names[i]);
        const struct example_query query = { &names[i], &name_bytes, 1 };
        struct feature feature;
        size_t bad_offset;
        if (example_find(payload, bytes, &query, &feature, &bad_offset) < 0)
            return not_an_example(bad_offset, problem, problem_size);
        if (feature.kind != FEATURE_MISSING)
            *name_out = names[i];
    }
    return 0;
}

static void key_set(struct sample_format *format, enum sample_key which, const char *name)
{
    format->keys[which] = name;
    format->key_bytes[which] = strlen(name);
}

/* The key of `which`: the configured one, else the first of `names` that is there. */
static int find_key(struct sample_format *format, enum sample_key which, const char *what,
                    const char *const *names, size_t count, const uint8_t *payload, size_t bytes,
                    char *problem, size_t problem_size)
{
    const char *const configured = format->keys[which];
    const char *found;
    const int rc = configured != NULL ? find_first(&configured, 1, payload, bytes, &found, problem, problem_size)
                                  : find_first(names, count, payload, bytes, &found, problem, problem_size);
    if (rc < 0)
        return rc;
    if (found == NULL)
        return report_missing(what, configured, payload, bytes, problem, problem_size);
    key_set(format, which, found);
    return 0;
}

static int find_size_keys(struct sample_format *format, const uint8_t *payload, size_t bytes, char *problem,
                          size_t problem_size)
{
    const bool is_path = strncmp(format->keys[SAMPLE_IMAGE], "image/", strlen("image/")) == 0;
    int rc = 0;
    for (int key = SAMPLE_HEIGHT; key <= SAMPLE_DEPTH && rc == 0; key++) {
        const char *const *const names = size_keys[key];
        const char *found;
        rc = find_first(names, names[2] == NULL ? 2 : 3, payload, bytes, &found, problem, problem_size);
        if (rc == 0)
            key_set(format, (enum sample_key)key, found != NULL ? found : names[is_path]);
    }
    return rc;
}

static int read_features(const struct sample_format *format, const uint8_t *payload, size_t bytes,
                         struct feature features[SAMPLE_KEY_COUNT], char *problem, size_t problem_size)
{
    const struct example_query query = { format->keys, format->key_bytes, SAMPLE_KEY_COUNT };
    size_t bad_offset;
    if (example_find(payload, bytes, &query, features, &bad_offset) < 0)
        return not_an_example(bad_offset, problem, problem_size);
    return 0;
}

static bool is_planar(const struct sample_format *format, const struct image_shape *shape)
{
    size_t bytes;
    return shape->channels == 3 && image_shape_bytes(shape, &bytes) && bytes == CIFAR_BYTES &&
           strcmp(format->keys[SAMPLE_IMAGE], CIFAR_KEY) == 0;
}

/* A first image that is encoded: it begins so, and cannot be the pixels wanted. */
static bool is_encoded(const struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes)
{
    const struct example_query query = { &format->keys[SAMPLE_IMAGE], &format->key_bytes[SAMPLE_IMAGE], 1 };
    struct feature image;
    size_t bad_offset, pixel_bytes;
    if (example_find(payload, bytes, &query, &image, &bad_offset) < 0 || image.kind != FEATURE_BYTES ||
        shard_kind_image(image.bytes, image.byte_count) == NULL)
        return false;
    return !image_shape_bytes(shape, &pixel_bytes) || image.byte_count != pixel_bytes;
}

static const struct image_ops *choose_image(const struct sample_format *format, const struct image_shape *shape,
                                            const uint8_t *payload, size_t bytes)
{
    if (is_encoded(format, shape, payload, bytes))
        return &image_encoded_ops;
    return is_planar(format, shape) ? &image_raw_chw_ops : &image_raw_hwc_ops;
}

int sample_find_format(struct sample_format *format, const struct image_shape *shape, const uint8_t *payload,
                       size_t bytes, char *problem_out, size_t problem_size)
{
    int rc = find_key(format, SAMPLE_IMAGE, "image", image_keys, sizeof(image_keys) / sizeof(*image_keys), payload,
                      bytes, problem_out, problem_size);
    if (rc == 0)
        rc = find_key(format, SAMPLE_LABEL, "label", label_keys, sizeof(label_keys) / sizeof(*label_keys), payload,
                      bytes, problem_out, problem_size);
    if (rc == 0)
        rc = find_size_keys(format, payload, bytes, problem_out, problem_size);
    if (rc == 0)
        format->image = choose_image(format, shape, payload, bytes);
    return rc;
}

/* The checks of a sample; their texts follow "record N at byte B: ". */

static int report_image(const struct sample_format *format, const struct feature *image, const uint8_t *payload,
                        size_t bytes, char *problem, size_t problem_size)
{
    if (image->kind == FEATURE_MISSING)
        return report_missing("image", format->keys[SAMPLE_IMAGE], payload, bytes, problem, problem_size);
    snprintf(problem, problem_size, "feature '%s' holds %" PRIu64 " %s, one bytes value with pixels is needed",
             format->keys[SAMPLE_IMAGE], image->value_count,
             image->kind == FEATURE_FLOATS  ? "floats"
             : image->kind == FEATURE_BYTES ? "bytes values"
                                            : "integers");
    return -EBADMSG;
}

/* What to change when a label is just outside the range. */
static const char *label_hint(const struct sample_format *format, int64_t label)
{
    if (label == (int64_t)format->classes)
        return ": if the labels count from 1, set label_offset one lower";
    if (label == -1)
        return ": set label_offset one higher, if that is the lowest label";
    return "";
}

static int report_label(const struct sample_format *format, const struct feature *feature, const uint8_t *payload,
                        size_t bytes, char *problem, size_t problem_size)
{
    const char *key = format->keys[SAMPLE_LABEL];
    int64_t label;
    if (feature->kind == FEATURE_MISSING)
        return report_missing("label", key, payload, bytes, problem, problem_size);
    if (feature->kind != FEATURE_INT64S || feature->value_count != 1)
        snprintf(problem, problem_size, "feature '%s' holds %" PRIu64 " %s, one integer label is needed", key,
                 feature->value_count, feature->kind == FEATURE_INT64S ? "integers"
                 : feature->kind == FEATURE_BYTES ? "bytes values" : "floats");
    else if (__builtin_add_overflow(feature->int64, format->label_offset, &label))
        snprintf(problem, problem_size, "label %" PRId64 " is not in [0, %" PRIu32 ")", feature->int64,
                 format->classes);
    else if (format->label_offset != 0)
        snprintf(problem, problem_size, "label %" PRId64 " (%" PRId64 " with label_offset) is not in [0, %" PRIu32
                 ")%s", feature->int64, label, format->classes, label_hint(format, label));
    else
        snprintf(problem, problem_size, "label %" PRId64 " is not in [0, %" PRIu32 ")%s", label, format->classes,
                 label_hint(format, label));
    return -EBADMSG;
}

static bool label_find(const struct sample_format *format, const struct feature *feature, int32_t *label_out)
{
    int64_t label;
    if (feature->kind != FEATURE_INT64S || feature->value_count != 1
        || __builtin_add_overflow(feature->int64, format->label_offset, &label)
        || label < 0 || label >= (int64_t)format->classes)
        return false;
    *label_out = (int32_t)label;
    return true;
}

static struct image_size said_size(const struct sample_format *format,
                                   const struct feature features[SAMPLE_KEY_COUNT], enum sample_key key)
{
    const struct feature *const feature = &features[key];
    const bool is_said = feature->kind == FEATURE_INT64S && feature->value_count > 0;
    return (struct image_size){ format->keys[key], is_said ? feature->int64 : IMAGE_SIZE_UNSAID };
}

int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size)
{
    struct feature features[SAMPLE_KEY_COUNT];
    if (read_features(format, payload, bytes, features, problem_out, problem_size) < 0)
        return -EBADMSG;
    const struct feature *const image = &features[SAMPLE_IMAGE];
    if (image->kind != FEATURE_BYTES || image->value_count != 1)
        return report_image(format, image, payload, bytes, problem_out, problem_size);
    if (!label_find(format, &features[SAMPLE_LABEL], target->label))
        return report_label(format, &features[SAMPLE_LABEL], payload, bytes, problem_out, problem_size);
    const struct stored_image stored = {
        .key = format->keys[SAMPLE_IMAGE],
        .bytes = image->bytes,
        .byte_count = image->byte_count,
        .height = said_size(format, features, SAMPLE_HEIGHT),
        .width = said_size(format, features, SAMPLE_WIDTH),
        .channels = said_size(format, features, SAMPLE_DEPTH),
    };
    return format->image->decode(codec, &stored, &target->request, target->pixels, problem_out, problem_size);
}
