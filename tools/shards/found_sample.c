/* Images and labels as they are stored. Called by main and the threads of a scan; pure functions. */
#include "tools/shards/found_sample.h"

#include <errno.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/images/image.h"
#include "loader/samples/sample_key.h"

#define MNIST_SIDE 28u
#define MNIST_PIXELS (MNIST_SIDE * MNIST_SIDE)
#define FLOAT_BYTES 4u

/* Layouts whose sizes are known from the number of bytes alone. */
static const struct known_layout {
    const char *name;           /* of the feature; NULL: any */
    size_t bytes;
    enum found_image image;
    uint32_t height, width, channels;
} known_layouts[] = {
    { "image", 3072, FOUND_PLANES, 32, 32, 3 },     /* the CIFAR-10 estimator tutorial */
    { NULL, MNIST_PIXELS, FOUND_ROWS, MNIST_SIDE, MNIST_SIDE, 1 },
};

struct search {
    const uint8_t *payload;
    size_t bytes;
    size_t *bad_offset;
};

/* The feature that is configured, else the first of those in use that the payload has, and its name, or NULL. 0 or
 * -EBADMSG. */
static int find(const struct search *search, enum sample_key which, const char *configured,
                struct feature *feature_out, const char **name_out)
{
    const char *const only[] = { configured, NULL };
    return sample_key_find(configured != NULL ? only : sample_key_names[which], search->payload, search->bytes,
                           name_out, feature_out, search->bad_offset);
}

static bool read_header(struct found_sample *sample)
{
    struct image_header header;
    const char *problem;
    if (image_header_read(sample->bytes, sample->byte_count, &header, &problem) != 0)
        return false;
    sample->image = header.format == IMAGE_FORMAT_JPEG ? FOUND_JPEG : FOUND_PNG;
    sample->height = header.height;
    sample->width = header.width;
    sample->channels = header.channels;
    sample->is_turned = header.orientation > 1;
    return true;
}

/* A layout of this feature, or of any where `name` is NULL. */
static bool read_layout(struct found_sample *sample, const char *name)
{
    for (size_t i = 0; i < sizeof(known_layouts) / sizeof(known_layouts[0]); i++) {
        const struct known_layout *const layout = &known_layouts[i];
        const bool is_meant = layout->name == NULL ? name == NULL : name != NULL && strcmp(layout->name, name) == 0;
        if (layout->bytes != sample->byte_count || !is_meant)
            continue;
        sample->image = layout->image;
        sample->height = layout->height;
        sample->width = layout->width;
        sample->channels = layout->channels;
        return true;
    }
    return false;
}

/* The sizes that are said beside `count` numbers of pixels, where they are of so many. */
static int read_sizes(struct found_sample *sample, const struct search *search, uint64_t count)
{
    static const enum sample_key keys[] = { SAMPLE_HEIGHT, SAMPLE_WIDTH, SAMPLE_DEPTH };
    uint32_t *const sizes[] = { &sample->height, &sample->width, &sample->channels };
    uint64_t product = 1;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct feature feature;
        const char *name;
        if (find(search, keys[i], NULL, &feature, &name) < 0)
            return -EBADMSG;
        const bool is_size = name != NULL && feature.kind == FEATURE_INT64S && feature.value_count == 1 &&
                             feature.int64 > 0 && feature.int64 <= UINT32_MAX;
        *sizes[i] = is_size ? (uint32_t)feature.int64 : 0;
        if (__builtin_mul_overflow(product, *sizes[i], &product))
            product = 0;
    }
    if (product != count || count == 0)
        sample->height = sample->width = sample->channels = 0;
    return 0;
}

static int read_float_bytes(struct found_sample *sample, const struct search *search)
{
    if (sample->byte_count % FLOAT_BYTES != 0)
        return 0;
    const int rc = read_sizes(sample, search, sample->byte_count / FLOAT_BYTES);
    if (rc == 0 && sample->width > 0)
        sample->image = FOUND_FLOATS;
    return rc;
}

static int read_bytes(struct found_sample *sample, const struct search *search, const struct feature *feature)
{
    sample->image = FOUND_UNKNOWN;
    sample->bytes = feature->bytes;
    sample->byte_count = feature->byte_count;
    if (read_header(sample) || read_layout(sample, sample->key))
        return 0;
    if (read_sizes(sample, search, sample->byte_count) < 0)
        return -EBADMSG;
    if (sample->width > 0)
        sample->image = FOUND_ROWS;
    else if (read_float_bytes(sample, search) < 0)
        return -EBADMSG;
    if (sample->width == 0)
        (void)read_layout(sample, NULL);
    return 0;
}

static int read_list(struct found_sample *sample, const struct search *search, const struct feature *feature)
{
    sample->image = feature->kind == FEATURE_FLOATS ? FOUND_FLOATS : FOUND_INTEGERS;
    sample->list = *feature;
    const int rc = read_sizes(sample, search, feature->value_count);
    if (rc == 0 && sample->width == 0 && feature->value_count == MNIST_PIXELS) {
        sample->height = sample->width = MNIST_SIDE;
        sample->channels = 1;
    }
    return rc;
}

static int read_image(struct found_sample *sample, const struct search *search, const char *configured)
{
    struct feature feature;
    const char *name;
    const int rc = find(search, SAMPLE_IMAGE, configured, &feature, &name);
    if (rc < 0 || name == NULL)
        return rc;
    sample->key = name;
    if (feature.kind == FEATURE_BYTES && feature.value_count > 0)
        return read_bytes(sample, search, &feature);
    return feature.kind != FEATURE_BYTES && feature.value_count > 1 ? read_list(sample, search, &feature) : 0;
}

int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out)
{
    const struct search search = { payload, bytes, bad_offset_out };
    struct found_sample sample = { .image = FOUND_NOTHING };
    struct feature feature;
    const char *name;
    if (read_image(&sample, &search, names->image) < 0 ||
        find(&search, SAMPLE_LABEL, names->label, &feature, &name) < 0)
        return -EBADMSG;
    sample.has_label = name != NULL && feature.kind == FEATURE_INT64S && feature.value_count == 1;
    if (sample.has_label)
        sample.label = feature.int64;
    *sample_out = sample;
    return 0;
}

bool found_image_is_raw(enum found_image image)
{
    return image == FOUND_ROWS || image == FOUND_PLANES || image == FOUND_FLOATS || image == FOUND_INTEGERS;
}

const struct image_ops *found_image_ops(enum found_image image)
{
    static const struct image_ops *const ops[FOUND_KIND_COUNT] = {
        [FOUND_ROWS] = &image_raw_hwc_ops,      [FOUND_PLANES] = &image_raw_chw_ops,
        [FOUND_JPEG] = &image_encoded_ops,      [FOUND_PNG] = &image_encoded_ops,
        [FOUND_FLOATS] = &image_float_hwc_ops,  [FOUND_INTEGERS] = &image_integer_hwc_ops,
    };
    return ops[image];
}

const char *found_image_text(enum found_image image)
{
    static const char *const texts[] = {
        [FOUND_NOTHING] = "no image", [FOUND_ROWS] = "raw pixels", [FOUND_PLANES] = "raw planes", [FOUND_JPEG] = "JPEG",
        [FOUND_PNG] = "PNG", [FOUND_FLOATS] = "floats", [FOUND_INTEGERS] = "integers", [FOUND_UNKNOWN] = "unknown",
    };
    return texts[image];
}
