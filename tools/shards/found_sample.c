/* Images and labels as they are stored. Called by main and the threads of a scan; pure functions. */
#include "tools/shards/found_sample.h"

#include <errno.h>
#include <string.h>

#include "formats/example.h"
#include "formats/image_header.h"

/* The names in use, in the order they are tried; those of one row of sizes belong together. */
#define NAMES_MAX 4u
static const char *const image_names[NAMES_MAX] = { "image_raw", "image", "img_raw", "image/encoded" };
static const char *const label_names[NAMES_MAX] = { "image/class/label", "label" };
static const char *const size_names[3][NAMES_MAX] = {
    { "height", "image/height" }, { "width", "image/width" }, { "depth", "image/channels", "channels" },
};

/* Layouts whose sizes are known from the number of bytes alone. */
static const struct known_layout {
    const char *name;           /* of the feature; NULL: any */
    size_t bytes;
    enum found_image image;
    uint32_t height, width, channels;
} known_layouts[] = {
    { "image", 3072, FOUND_PLANES, 32, 32, 3 },     /* the CIFAR-10 estimator tutorial */
    { NULL, 784, FOUND_ROWS, 28, 28, 1 },           /* MNIST */
};

struct search {
    const uint8_t *payload;
    size_t bytes;
    size_t *bad_offset;
};

/* The first of the names that the payload has: it, or NULL. 0 or -EBADMSG. */
static int find_first(const struct search *search, const char *const names[NAMES_MAX], struct feature *feature_out,
                      const char **name_out)
{
    *name_out = NULL;
    for (size_t i = 0; i < NAMES_MAX && names[i] != NULL && *name_out == NULL; i++) {
        const size_t name_bytes = strlen(names[i]);
        const struct example_query query = { &names[i], &name_bytes, 1 };
        if (example_find(search->payload, search->bytes, &query, feature_out, search->bad_offset) < 0)
            return -EBADMSG;
        if (feature_out->kind != FEATURE_MISSING)
            *name_out = names[i];
    }
    return 0;
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
    return true;
}

static bool read_layout(struct found_sample *sample, const char *name)
{
    for (size_t i = 0; i < sizeof(known_layouts) / sizeof(known_layouts[0]); i++) {
        const struct known_layout *const layout = &known_layouts[i];
        if (layout->bytes != sample->byte_count || (layout->name != NULL && strcmp(layout->name, name) != 0))
            continue;
        sample->image = layout->image;
        sample->height = layout->height;
        sample->width = layout->width;
        sample->channels = layout->channels;
        return true;
    }
    return false;
}

/* Pixels of the sizes that are said beside them. */
static int read_sizes(struct found_sample *sample, const struct search *search)
{
    uint32_t *const sizes[3] = { &sample->height, &sample->width, &sample->channels };
    uint64_t bytes = 1;
    for (size_t i = 0; i < 3; i++) {
        struct feature feature;
        const char *name;
        if (find_first(search, size_names[i], &feature, &name) < 0)
            return -EBADMSG;
        const bool is_size = name != NULL && feature.kind == FEATURE_INT64S && feature.value_count == 1 &&
                             feature.int64 > 0 && feature.int64 <= UINT32_MAX;
        *sizes[i] = is_size ? (uint32_t)feature.int64 : 0;
        if (__builtin_mul_overflow(bytes, *sizes[i], &bytes))
            bytes = 0;
    }
    if (bytes == sample->byte_count && bytes > 0)
        sample->image = FOUND_ROWS;
    else
        sample->height = sample->width = sample->channels = 0;
    return 0;
}

static int read_image(struct found_sample *sample, const struct search *search, const char *configured)
{
    const char *const only[NAMES_MAX] = { configured };
    struct feature feature;
    const char *name;
    int rc = find_first(search, configured != NULL ? only : image_names, &feature, &name);
    if (rc < 0 || name == NULL || feature.kind != FEATURE_BYTES || feature.value_count == 0)
        return rc;
    sample->image = FOUND_UNKNOWN;
    sample->bytes = feature.bytes;
    sample->byte_count = feature.byte_count;
    if (!read_header(sample) && !read_layout(sample, name))
        rc = read_sizes(sample, search);
    return rc;
}

int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out)
{
    const struct search search = { payload, bytes, bad_offset_out };
    const char *const only[NAMES_MAX] = { names->label };
    struct found_sample sample = { .image = FOUND_NOTHING };
    struct feature feature;
    const char *name;
    if (read_image(&sample, &search, names->image) < 0 ||
        find_first(&search, names->label != NULL ? only : label_names, &feature, &name) < 0)
        return -EBADMSG;
    sample.has_label = name != NULL && feature.kind == FEATURE_INT64S && feature.value_count == 1;
    if (sample.has_label)
        sample.label = feature.int64;
    *sample_out = sample;
    return 0;
}

const char *found_image_text(enum found_image image)
{
    static const char *const texts[] = {
        [FOUND_NOTHING] = "no image", [FOUND_ROWS] = "raw pixels", [FOUND_PLANES] = "raw planes", [FOUND_JPEG] = "JPEG",
        [FOUND_PNG] = "PNG", [FOUND_UNKNOWN] = "unknown",
    };
    return texts[image];
}
