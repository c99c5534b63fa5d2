/* Resizes, decodes or checks the images of records, with the decoders and the scaler of training. Called by the
 * writing threads. */
#include "tools/convert/image_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/image_header.h"
#include "loader/images/image.h"
#include "loader/images/image_memory.h"
#include "loader/images/scratch.h"
#include "loader/shards/shard_kind.h"
#include "tools/convert/jpeg_write.h"
#include "tools/shards/found_sample.h"

#define PIXEL_BYTES_MAX ((uint64_t)63 << 20)    /* so that a record is smaller than 64 MiB */
#define CHANGES_MAX 12u

#define UNKNOWN_TEXT "its image is neither JPEG nor PNG, nor pixels of the size in the other features"

/* Why images of this kind are not decoded; NULL: they are. The range of floating-point pixels cannot be derived from
 * one image. */
static const char *const no_image_texts[FOUND_KIND_COUNT] = {
    [FOUND_NOTHING] = "has no feature known as image: name one with --image-key",
    [FOUND_FLOATS] = "its image is a list of floats, which cannot be changed: omit --resize-short and --raw",
    [FOUND_INTEGERS] = "its image is a list of integers, which cannot be changed: omit --resize-short and --raw",
    [FOUND_UNKNOWN] = UNKNOWN_TEXT,
};

struct image_changer {
    struct image_change change;
    struct found_decoder decoder;
    struct jpeg_writer *writer;
    struct scratch pixels, payload;
    struct pixel_look look;     /* pixels of the last image */
};

/* Properties of the image that features state. */
enum fact { FACT_HEIGHT, FACT_WIDTH, FACT_CHANNELS, FACT_FORMAT };
static const struct fact_row {
    const char *name;
    enum fact fact;
    bool is_raw;                /* true: raw images get this feature; false: it is removed from them */
} facts[] = {
    { "channels", FACT_CHANNELS, false },
    { "depth", FACT_CHANNELS, true },
    { "height", FACT_HEIGHT, true },
    { "image/channels", FACT_CHANNELS, false },
    { "image/format", FACT_FORMAT, false },
    { "image/height", FACT_HEIGHT, false },
    { "image/width", FACT_WIDTH, false },
    { "width", FACT_WIDTH, true },
};
#define FACT_ROWS (sizeof(facts) / sizeof(facts[0]))

/* The changed image. */
struct new_image {
    const char *old_key, *key;
    struct image_shape shape;
    const uint8_t *bytes;
    size_t byte_count;
};

enum orientation_fate image_change_orientation(const struct image_change *change)
{
    if (change->is_upright)
        return ORIENTATION_TURNED;
    return change->short_side > 0 || change->is_raw ? ORIENTATION_LOST : ORIENTATION_STORED;
}

bool image_change_is_any(const struct image_change *change)
{
    return change != NULL && (change->short_side > 0 || change->is_raw || change->is_upright);
}

int image_changer_open(struct image_changer **changer_out, const struct image_change *change)
{
    struct image_changer *const changer = calloc(1, sizeof(*changer));

    if (changer == NULL)
        return -ENOMEM;
    changer->change = *change;
    changer->decoder.turns_upright = change->is_upright;
    const int rc = change->is_raw ? 0 : jpeg_writer_open(&changer->writer, (int)change->quality);
    if (rc == 0)
        *changer_out = changer;
    else
        image_changer_close(changer);
    return rc;
}

void image_changer_close(struct image_changer *changer)
{
    if (changer == NULL)
        return;
    found_decoder_release(&changer->decoder);
    jpeg_writer_close(changer->writer);
    scratch_release(&changer->pixels);
    scratch_release(&changer->payload);
    free(changer);
}

static int problem_set(char *problem, size_t problem_size, int rc, const char *text)
{
    snprintf(problem, problem_size, "%s", text);
    return rc;
}

/* The side length after resizing, rounded to the nearest integer, halves up; arguments and result are at most 2^32 -
 * 1. */
static uint32_t scaled(uint32_t side, uint32_t short_side, uint64_t wanted)
{
    return (uint32_t)((2 * (uint64_t)side * wanted + short_side) / (2 * (uint64_t)short_side));
}

/* The shape of the changed image, which has 1 or 3 channels. */
static struct image_shape wanted_shape(const struct image_change *change, const struct found_sample *sample)
{
    const bool is_transposed = change->is_upright && sample->is_transposed;
    struct image_shape shape = { is_transposed ? sample->width : sample->height,
                                 is_transposed ? sample->height : sample->width, sample->channels <= 2 ? 1 : 3 };
    const uint32_t short_side = shape.height < shape.width ? shape.height : shape.width;

    if (change->short_side == 0 || short_side <= change->short_side)
        return shape;
    shape.height = scaled(shape.height, short_side, change->short_side);
    shape.width = scaled(shape.width, short_side, change->short_side);
    return shape;
}

static bool has_size(const struct image_shape *shape, const struct found_sample *sample)
{
    return shape->height == sample->height && shape->width == sample->width;
}

/* Check, before decoding, that the image can be changed. */
static int check_image(const struct image_change *change, const struct found_sample *sample,
                       const struct image_shape *shape, char *problem, size_t problem_size)
{
    const bool is_pixels = sample->image == FOUND_ROWS || sample->image == FOUND_PLANES;
    const uint64_t pixels = (uint64_t)shape->height * shape->width;

    if (is_pixels && !change->is_raw)
        return problem_set(problem, problem_size, -ENOTSUP,
                           "its image is raw pixels, which can only be resized together with --raw");
    if (is_pixels && sample->channels != 1 && sample->channels != 3)
        return problem_set(problem, problem_size, -ENOTSUP, "its pixels have neither 1 nor 3 channels");
    if ((uint64_t)sample->height * sample->width > IMAGE_PIXELS_MAX)
        return problem_set(problem, problem_size, -EBADMSG, "its image has more than 64 Mi pixels");
    if (change->is_raw && pixels * shape->channels > PIXEL_BYTES_MAX) {
        snprintf(problem, problem_size, "its pixels are %" PRIu64 " MiB, over 63: make the image smaller with "
                 "--resize-short",
                 pixels * shape->channels >> 20);
        return -EBADMSG;
    }
    return 0;
}

static int decode(struct image_changer *changer, const struct found_sample *sample, const struct image_shape *shape,
                  char *problem, size_t problem_size)
{
    const size_t bytes = (size_t)shape->height * shape->width * shape->channels;
    uint8_t *const pixels = scratch_need(&changer->pixels, bytes);
    if (pixels == NULL)
        return -ENOMEM;
    const int rc = found_decoder_decode(&changer->decoder, sample, shape, pixels, problem, problem_size);
    if (rc < 0)
        return rc;
    changer->look = pixel_look_at(pixels, bytes, shape->channels);
    changer->look.loses_opacity = sample->channels % 2 == 0;
    return 0;
}

static int make_image(struct image_changer *changer, const struct found_sample *sample, struct new_image *image,
                      char *problem, size_t problem_size)
{
    int rc = check_image(&changer->change, sample, &image->shape, problem, problem_size);
    if (rc == 0)
        rc = decode(changer, sample, &image->shape, problem, problem_size);
    if (rc < 0 || !changer->change.is_raw)
        return rc < 0 ? rc : jpeg_write(changer->writer, changer->pixels.memory, &image->shape, &image->bytes,
                                        &image->byte_count, problem, problem_size);
    image->bytes = changer->pixels.memory;
    image->byte_count = (size_t)image->shape.height * image->shape.width * image->shape.channels;
    return 0;
}

static struct example_value fact_value(const struct fact_row *row, const struct image_shape *shape)
{
    const int64_t numbers[] = {
        [FACT_HEIGHT] = shape->height, [FACT_WIDTH] = shape->width, [FACT_CHANNELS] = shape->channels,
    };

    if (row->fact == FACT_FORMAT)
        return (struct example_value){ .name = row->name, .kind = FEATURE_BYTES, .bytes = "JPEG", .byte_count = 4 };
    return (struct example_value){ .name = row->name, .kind = FEATURE_INT64S, .int64 = numbers[row->fact] };
}

static bool has_feature(const uint8_t *payload, size_t bytes, const char *name)
{
    const size_t name_bytes = strlen(name);
    const struct example_query query = { &name, &name_bytes, 1 };
    struct feature feature;
    size_t bad_offset;

    return example_find(payload, bytes, &query, &feature, &bad_offset) == 0 && feature.entry_count > 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct example_value *)a)->name, ((const struct example_value *)b)->name);
}

/* List the features to change; the kind FEATURE_MISSING removes a feature. Returns their number. */
static size_t list_changes(const struct image_changer *changer, const struct new_image *image, const uint8_t *payload,
                           size_t bytes, struct example_value changes_out[CHANGES_MAX])
{
    const bool is_raw = changer->change.is_raw;
    size_t count = 0;

    changes_out[count++] = (struct example_value){ .name = image->key, .kind = FEATURE_BYTES, .bytes = image->bytes,
                                                  .byte_count = image->byte_count };
    if (strcmp(image->key, image->old_key) != 0)
        changes_out[count++] = (struct example_value){ .name = image->old_key, .kind = FEATURE_MISSING };
    for (size_t i = 0; i < FACT_ROWS; i++) {
        if (is_raw && !facts[i].is_raw)
            changes_out[count++] = (struct example_value){ .name = facts[i].name, .kind = FEATURE_MISSING };
        else if (is_raw || has_feature(payload, bytes, facts[i].name))
            changes_out[count++] = fact_value(&facts[i], &image->shape);
    }
    qsort(changes_out, count, sizeof(*changes_out), by_name);
    return count;
}

static int write_payload(struct image_changer *changer, const struct new_image *image, const uint8_t *payload,
                         size_t bytes, const uint8_t **payload_out, size_t *bytes_out)
{
    struct example_value changes[CHANGES_MAX];
    const size_t count = list_changes(changer, image, payload, bytes, changes);
    const size_t needed = example_replaced_size(payload, bytes, changes, count);

    uint8_t *const out = scratch_need(&changer->payload, needed);
    if (out == NULL)
        return -ENOMEM;
    *bytes_out = example_replace(payload, bytes, changes, count, out);
    *payload_out = out;
    return 0;
}

/* Does the image need no change? */
static bool is_unchanged(const struct image_change *change, const struct found_sample *sample,
                     const struct image_shape *shape)
{
    const bool is_stored_so = !change->is_raw || (sample->image == FOUND_ROWS &&
                                                  strcmp(sample->key, IMAGE_CHANGE_RAW_KEY) == 0);
    return is_stored_so && has_size(shape, sample) && !(change->is_upright && sample->is_turned);
}

/* ---- checks ---- */

/* Images are decoded to this size for a check: all data are read, and little is written. */
#define CHECKED_SIDE 32u
#define CHECKED_CHANNELS 3u

/* Does the image begin like a JPEG or PNG? As it was not recognised, its header is damaged. */
static bool begins_encoded(const struct found_sample *sample)
{
    const char *const kind = shard_kind_image(sample->bytes, sample->byte_count);
    return kind != NULL && (strcmp(kind, "JPEG") == 0 || strcmp(kind, "PNG") == 0);
}

static int check_encoded(struct image_changer *changer, const struct found_sample *sample, char *problem,
                         size_t problem_size)
{
    static const struct image_shape shape = { CHECKED_SIDE, CHECKED_SIDE, CHECKED_CHANNELS };
    struct found_sample file = *sample;

    file.key = NULL;            /* so messages are about the file instead of the feature */
    const int rc = decode(changer, &file, &shape, problem, problem_size);
    if (rc < 0)
        return rc;
    if (sample->image == FOUND_JPEG && image_is_cut(sample->bytes, sample->byte_count, IMAGE_FORMAT_JPEG))
        problem_set(problem, problem_size, 0, "is cut short: the end of the JPEG is missing");
    return 0;
}

/* Check an image. Images of other kinds, which records of other programs may contain, are accepted. */
static int check_image_of(struct image_changer *changer, const struct found_sample *sample, char *problem,
                          size_t problem_size)
{
    if (sample->image == FOUND_JPEG || sample->image == FOUND_PNG)
        return check_encoded(changer, sample, problem, problem_size);
    if (sample->image == FOUND_UNKNOWN)
        return problem_set(problem, problem_size, begins_encoded(sample) ? -EBADMSG : -ENOMSG,
                           begins_encoded(sample) ? "its image has a damaged header" : UNKNOWN_TEXT);
    return 0;
}

/* ---- records ---- */

int image_changer_apply(struct image_changer *changer, const uint8_t *payload, size_t bytes,
                        const uint8_t **payload_out, size_t *bytes_out, char *problem_out, size_t problem_size)
{
    const struct sample_names names = { .image = changer->change.image_key };
    struct found_sample sample;
    size_t bad_offset;

    const bool is_example = found_sample_read(&names, payload, bytes, &sample, &bad_offset) == 0;
    *payload_out = payload;
    *bytes_out = bytes;
    changer->look = (struct pixel_look){ .is_known = false };
    const bool is_changed = changer->change.short_side > 0 || changer->change.is_raw ||
                            (changer->change.is_upright && is_example && sample.is_turned);
    if (!is_changed)
        return is_example ? check_image_of(changer, &sample, problem_out, problem_size) : 0;
    if (!is_example)
        return problem_set(problem_out, problem_size, -EBADMSG, "is not a tf.train.Example");
    if (no_image_texts[sample.image] != NULL)
        return problem_set(problem_out, problem_size, found_image_is_raw(sample.image) ? -ENOTSUP : -EBADMSG,
                           no_image_texts[sample.image]);
    struct new_image image = {
        .old_key = sample.key, .key = changer->change.is_raw ? IMAGE_CHANGE_RAW_KEY : sample.key,
        .shape = wanted_shape(&changer->change, &sample),
    };
    if (is_unchanged(&changer->change, &sample, &image.shape))
        return changer->change.is_checked ? check_image_of(changer, &sample, problem_out, problem_size) : 0;
    const int rc = make_image(changer, &sample, &image, problem_out, problem_size);
    return rc < 0 ? rc : write_payload(changer, &image, payload, bytes, payload_out, bytes_out);
}

struct pixel_look image_changer_look(const struct image_changer *changer)
{
    return changer->look;
}
