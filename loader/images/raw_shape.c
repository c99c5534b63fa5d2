/* The shape of plain pixels. Called by decoders for every record. */
#include "loader/images/raw_shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "loader/images/number_type.h"
#include "loader/shards/shard_kind.h"

#define SIDE_LEAST 8u           /* of an image that somebody would train on; below, too many numbers are a square */
#define SIDE_MOST 4096u

static bool is_bytes(const struct stored_image *image)
{
    return image->type == NULL || image->type == &number_types[NUMBER_BYTES];
}

/* Of an encoded image; NULL for pixels, and other numbers than bytes are nothing else. */
static const char *encoding_of(const struct stored_image *image)
{
    return is_bytes(image) ? shard_kind_image(image->bytes, image->byte_count) : NULL;
}

static const char *numbers_of(const struct stored_image *image)
{
    return is_bytes(image) ? "bytes of pixels" : image->type->name;
}

/* Square images of one or three channels that have as many numbers: "28x28x3". Is there one? */
static bool guess_shape(size_t count, char *text, size_t text_size)
{
    static const size_t channels[] = { 3, 1 };
    for (size_t i = 0; i < sizeof(channels) / sizeof(*channels); i++)
        for (size_t side = SIDE_LEAST; side <= SIDE_MOST; side++)
            if (side * side * channels[i] == count) {
                snprintf(text, text_size, "%zux%zux%zu", side, side, channels[i]);
                return true;
            }
    return false;
}

/* What is stored is probably right, and the network another one's. */
static void report_count(const struct stored_image *image, const struct image_shape *shape, size_t wanted,
                         char *problem, size_t problem_size)
{
    char guess[64], floats[64], advice[256] = "";
    const bool may_be_floats = is_bytes(image) && image->byte_count % 4 == 0 &&
                               guess_shape(image->byte_count / 4, floats, sizeof(floats));
    if (guess_shape(image->byte_count, guess, sizeof(guess)))
        snprintf(advice, sizeof(advice), ": as many as images of %s%s%s, and pipetrain --describe lists the networks "
                 "by their images", guess, may_be_floats ? ", or as floats of " : "", may_be_floats ? floats : "");
    snprintf(problem, problem_size, "has %zu %s, the network wants %zu (%" PRIu32 "x%" PRIu32 "x%" PRIu32 ")%s",
             image->byte_count, numbers_of(image), wanted, shape->height, shape->width, shape->channels, advice);
}

static int report_length(const struct stored_image *image, const struct image_shape *shape, char *problem,
                         size_t problem_size)
{
    const char *const encoding = encoding_of(image);
    size_t bytes = 0;
    (void)image_shape_bytes(shape, &bytes);
    if (encoding != NULL)
        snprintf(problem, problem_size,
                 "feature '%s' holds a %s image, and the first record of the set raw pixels: one set holds one "
                 "or the other", image->key, encoding);
    else if (is_bytes(image) && shard_kind_is_text(image->bytes, image->byte_count))
        snprintf(problem, problem_size,
                 "feature '%s' holds a text, perhaps the path of a file: records hold the images themselves "
                 "(pipetrain-convert csv makes such records of a list of files)", image->key);
    else
        report_count(image, shape, bytes, problem, problem_size);
    return -EBADMSG;
}

/* Whether what is said of all three sizes could be said of the pixels. */
static bool pixels_agree(const struct stored_image *image, char *problem, size_t problem_size)
{
    const int64_t height = image->height.said, width = image->width.said, channels = image->channels.said;
    uint64_t bytes;
    if (height == IMAGE_SIZE_UNSAID || width == IMAGE_SIZE_UNSAID || channels == IMAGE_SIZE_UNSAID ||
        encoding_of(image) != NULL)
        return true;
    if (height >= 0 && width >= 0 && channels >= 0 && !__builtin_mul_overflow((uint64_t)height, width, &bytes) &&
        !__builtin_mul_overflow(bytes, channels, &bytes) && bytes == image->byte_count)
        return true;
    snprintf(problem, problem_size, "has %zu %s, but says it is %" PRId64 "x%" PRId64 "x%" PRId64, image->byte_count,
             numbers_of(image), height, width, channels);
    return false;
}

static bool size_agrees(const struct image_size *size, uint32_t wanted, char *problem, size_t problem_size)
{
    if (size->said == IMAGE_SIZE_UNSAID || size->said == (int64_t)wanted)
        return true;
    snprintf(problem, problem_size, "says its %s is %" PRId64 ", the network wants %" PRIu32, size->key, size->said,
             wanted);
    return false;
}

/* Plain pixels have the shape wanted, as they are. */
static int check_raw(const struct stored_image *image, const struct image_shape *shape, char *problem,
                     size_t problem_size)
{
    size_t bytes;
    if (!image_shape_bytes(shape, &bytes) || image->byte_count != bytes)
        return pixels_agree(image, problem, problem_size) ? report_length(image, shape, problem, problem_size)
                                                         : -EBADMSG;
    const bool agrees = size_agrees(&image->height, shape->height, problem, problem_size) &&
                        size_agrees(&image->width, shape->width, problem, problem_size) &&
                        size_agrees(&image->channels, shape->channels, problem, problem_size);
    return agrees ? 0 : -EBADMSG;
}

static bool is_side(int64_t said)
{
    return said > 0 && said <= UINT32_MAX;
}

static bool can_become(uint32_t channels, uint32_t wanted)
{
    return channels == wanted || (channels == 1 && wanted == 3) || (channels == 3 && wanted == 1);
}

/* Whether an image of the height and width that are said, and of so many channels, has as many numbers. */
static bool fits_said(const struct stored_image *image, const struct image_shape *wanted, int64_t channels,
                      struct image_shape *shape_out)
{
    if (!is_side(image->height.said) || !is_side(image->width.said) || !is_side(channels) ||
        !can_become((uint32_t)channels, wanted->channels))
        return false;
    *shape_out = (struct image_shape){ (uint32_t)image->height.said, (uint32_t)image->width.said, (uint32_t)channels };
    size_t count;
    return image_shape_bytes(shape_out, &count) && count == image->byte_count;
}

/* Channels that are not said are the network's, or else the 1 or 3 that the numbers are enough for. False when the
 * record says no shape, or one of other pixels. */
static bool find_said(const struct stored_image *image, const struct image_shape *wanted,
                      struct image_shape *shape_out)
{
    if (image->channels.said != IMAGE_SIZE_UNSAID)
        return fits_said(image, wanted, image->channels.said, shape_out);
    return fits_said(image, wanted, wanted->channels, shape_out) || fits_said(image, wanted, 3, shape_out) ||
           fits_said(image, wanted, 1, shape_out);
}

bool raw_shape_is_said(const struct stored_image *image, const struct image_shape *wanted)
{
    struct image_shape said;
    return find_said(image, wanted, &said);
}

int raw_shape_find(const struct stored_image *image, const struct image_shape *wanted, struct image_shape *shape_out,
                   char *problem_out, size_t problem_size)
{
    struct image_shape said;
    size_t count;
    const bool is_wanted = image_shape_bytes(wanted, &count) && count == image->byte_count;
    const bool is_flat = image->height.said == 1 || image->width.said == 1;
    if (is_wanted && is_flat) {         /* a flattened array of the shape wanted */
        *shape_out = *wanted;
        return 0;
    }
    const bool is_said = find_said(image, wanted, &said);
    const int rc = is_said ? 0 : check_raw(image, wanted, problem_out, problem_size);
    if (rc == 0)
        *shape_out = is_said ? said : *wanted;
    return rc;
}

uint32_t raw_number_bytes(const struct stored_image *image, const struct image_shape *wanted)
{
    static const uint32_t sizes[] = { 1, 2, 4, 8 };
    struct image_shape shape;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct stored_image counted = *image;
        counted.byte_count = image->byte_count / sizes[i];
        if (image->byte_count % sizes[i] == 0 && find_said(&counted, wanted, &shape))
            return sizes[i];
    }
    if (!image_shape_bytes(wanted, &count) || count == 0 || image->byte_count % count != 0)
        return 1;
    for (size_t i = 1; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (image->byte_count / count == sizes[i])
            return sizes[i];
    return 1;
}
