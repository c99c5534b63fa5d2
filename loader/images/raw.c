/* Images stored as plain pixels. They are copied, cropped, and scaled if the record's size differs from the network's.
 * Called by decoders for every record. */
#include "loader/images/raw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "loader/images/image.h"
#include "loader/images/numbers.h"
#include "loader/images/scale.h"
#include "loader/images/scratch.h"
#include "loader/shards/shard_kind.h"

/* A thread's memory for small images: pixels of planes, lines, tables. */
#define CODEC_BYTES ((size_t)64 << 10)
#define SIDE_MIN 8u             /* smallest guessed image size: smaller squares match too many numbers */
#define SIDE_MAX 4096u

/* ---- the shape of an image ---- */

bool image_shape_bytes(const struct image_shape *shape, size_t *bytes_out)
{
    return !__builtin_mul_overflow((size_t)shape->height, shape->width, bytes_out) &&
           !__builtin_mul_overflow(*bytes_out, shape->channels, bytes_out);
}

static bool is_bytes(const struct stored_image *image)
{
    return image->type == NULL || image->type == &number_types[NUMBER_BYTES];
}

/* The format of an encoded image; NULL for raw pixels. */
static const char *encoding_of(const struct stored_image *image)
{
    return is_bytes(image) ? shard_kind_image(image->bytes, image->byte_count) : NULL;
}

static const char *numbers_of(const struct stored_image *image)
{
    return is_bytes(image) ? "bytes of pixels" : image->type->name;
}

/* Describe the square image of 3 channels or 1 channel with this many numbers: "28x28x3". False if there is none. */
static bool guess_shape(size_t count, char *text, size_t text_size)
{
    static const size_t channels[] = { 3, 1 };
    for (size_t i = 0; i < sizeof(channels) / sizeof(*channels); i++)
        for (size_t side = SIDE_MIN; side <= SIDE_MAX; side++)
            if (side * side * channels[i] == count) {
                snprintf(text, text_size, "%zux%zux%zu", side, side, channels[i]);
                return true;
            }
    return false;
}

static bool is_side(int64_t said)
{
    return said > 0 && said <= UINT32_MAX;
}

static bool can_become(uint32_t channels, uint32_t wanted)
{
    return channels == wanted || (channels == 1 && wanted == 3) || (channels == 3 && wanted == 1);
}

/* Guess a size from the number of bytes alone, if there is no other information. */
static void guess_count(const struct stored_image *image, char *advice, size_t advice_size)
{
    char guess[64], floats[64];
    const bool may_be_floats = is_bytes(image) && image->byte_count % 4 == 0 &&
                               guess_shape(image->byte_count / 4, floats, sizeof(floats));
    if (guess_shape(image->byte_count, guess, sizeof(guess)))
        snprintf(advice, advice_size, ": as many as images of %s%s%s, and pipetrain --describe lists the networks "
                 "by their images", guess, may_be_floats ? ", or as floats of " : "", may_be_floats ? floats : "");
}

/* Report a wrong number of pixels. The data is probably right and the network is for other images. Sizes that the
 * record gives have been checked. */
static void report_count(const struct stored_image *image, const struct image_shape *shape, size_t wanted,
                         char *problem, size_t problem_size)
{
    char advice[256] = "";
    const int64_t height = image->height.said, width = image->width.said, channels = image->channels.said;
    if (height == IMAGE_SIZE_UNSAID || width == IMAGE_SIZE_UNSAID || channels == IMAGE_SIZE_UNSAID ||
        (is_side(channels) && can_become((uint32_t)channels, shape->channels)))
        guess_count(image, advice, sizeof(advice));
    else
        snprintf(advice, sizeof(advice), ": the record's image is %" PRId64 "x%" PRId64 "x%" PRId64 ", and %" PRId64
                 " channel%s not made %" PRIu32 "%s", height, width, channels, channels,
                 channels == 1 ? " is" : "s are", shape->channels, channels == 4 && shape->channels == 3
                 ? ": store RGB without the fourth (alpha)" : "");
    snprintf(problem, problem_size, "has %zu %s, the network wants %zu (%" PRIu32 "x%" PRIu32 "x%" PRIu32 ")%s",
             image->byte_count, numbers_of(image), wanted, shape->height, shape->width, shape->channels, advice);
}

static int report_shape(const struct stored_image *image, const struct image_shape *shape, char *problem,
                         size_t problem_size)
{
    const char *const encoding = encoding_of(image);
    size_t bytes = 0;
    (void)image_shape_bytes(shape, &bytes);
    if (encoding != NULL)
        snprintf(problem, problem_size,
                 "feature '%s' holds a %s image, but the first record of the set raw pixels: all records have to "
                 "be of one kind", image->key, encoding);
    else if (is_bytes(image) && shard_kind_text_image(image->bytes, image->byte_count) != NULL)
        snprintf(problem, problem_size, "feature '%s' holds the base64 text of a %s image: decode the text when the "
                 "records are written", image->key, shard_kind_text_image(image->bytes, image->byte_count));
    else if (is_bytes(image) && shard_kind_is_text(image->bytes, image->byte_count))
        snprintf(problem, problem_size,
                 "feature '%s' holds a text, perhaps the path of a file: if another one holds the image, choose it "
                 "(data.image_key); pipetrain-convert csv makes records of a list of files", image->key);
    else
        report_count(image, shape, bytes, problem, problem_size);
    return -EBADMSG;
}

/* Do the record's height, width and channels match the number of pixels? True if it does not give all three. */
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
    snprintf(problem, problem_size, "has %zu %s, but its sizes are %" PRId64 "x%" PRId64 "x%" PRId64, image->byte_count,
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

/* Check that pixels of unknown shape match the wanted shape. */
static int check_raw(const struct stored_image *image, const struct image_shape *shape, char *problem,
                     size_t problem_size)
{
    size_t bytes;
    if (!image_shape_bytes(shape, &bytes) || image->byte_count != bytes)
        return pixels_agree(image, problem, problem_size) ? report_shape(image, shape, problem, problem_size)
                                                         : -EBADMSG;
    const bool agrees = size_agrees(&image->height, shape->height, problem, problem_size) &&
                        size_agrees(&image->width, shape->width, problem, problem_size) &&
                        size_agrees(&image->channels, shape->channels, problem, problem_size);
    return agrees ? 0 : -EBADMSG;
}

/* Do the record's height and width match the number of pixels, with this number of channels? */
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

/* Find the shape by the record's height and width. If it does not give the channels, these are the network's, or 3 or
 * 1, whichever matches the number of pixels. False if the record gives no shape, or one that does not match. */
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
    if (is_wanted && is_flat) {         /* a flattened array of the wanted shape */
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

/* ---- copies ---- */

#if defined(__x86_64__)
#define VECTOR_BYTES sizeof(__m128i)

/* Copy whole vectors; `to` is aligned. Returns the number of bytes copied. */
static size_t copy_vectors(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t i = 0;
    for (; i + VECTOR_BYTES <= bytes; i += VECTOR_BYTES)
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
    _mm_sfence();       /* before other threads are notified that the bytes are written */
    return i;
}

void large_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t done = 0;
    if (bytes >= LARGE_COPY_BYTES) {
        done = -(uintptr_t)to % VECTOR_BYTES;
        memcpy(to, from, done);
        done += copy_vectors(to + done, from + done, bytes - done);
    }
    memcpy(to + done, from + done, bytes - done);
}
#else
void large_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

/* ---- decoding ---- */

struct raw {
    struct scale scale;
    struct scratch pixels;      /* pixels of an image stored as planes */
};

/* A storage layout: `write` converts an image to rows of pixels (HWC). */
struct raw_order {
    void (*write)(const uint8_t *bytes, const struct image_shape *shape, uint8_t *pixels_out);
    bool is_planar;             /* stored as planes, so it has to be converted before it can be scaled */
};

static int open_raw(void **codec_out)
{
    *codec_out = calloc(1, sizeof(struct raw));
    return *codec_out != NULL ? 0 : -ENOMEM;
}

static void close_raw(void *codec)
{
    struct raw *const raw = codec;
    scale_release(&raw->scale);
    scratch_release(&raw->pixels);
    free(raw);
}

static void write_rows(const uint8_t *rows, const struct image_shape *shape, uint8_t *pixels_out)
{
    large_copy(pixels_out, rows, (size_t)shape->height * shape->width * shape->channels);
}

static void write_planes(const uint8_t *planes, const struct image_shape *shape, uint8_t *pixels_out)
{
    const size_t plane_bytes = (size_t)shape->height * shape->width;
    for (size_t i = 0; i < plane_bytes; i++)
        for (uint32_t c = 0; c < shape->channels; c++)
            *pixels_out++ = planes[c * plane_bytes + i];
}

static const struct raw_order hwc = { write_rows, false }, chw = { write_planes, true };

/* The image as rows of pixels, or NULL when out of memory. */
static const uint8_t *find_rows(struct raw *raw, const struct raw_order *order, const struct stored_image *image,
                                const struct image_shape *shape)
{
    if (!order->is_planar)
        return image->bytes;
    uint8_t *const pixels = scratch_need(&raw->pixels, image->byte_count);
    if (pixels != NULL)
        order->write(image->bytes, shape, pixels);
    return pixels;
}

static int write_view(struct raw *raw, const uint8_t *rows, const struct image_shape *stored,
                      const struct augment_view *view, const struct image_shape *wanted, uint8_t *pixels_out)
{
    const struct picture picture = {
        .pixels = rows,
        .row_bytes = (size_t)stored->width * stored->channels,
        .width = stored->width,
        .height = stored->height,
        .channels = stored->channels,
    };
    return rows != NULL ? scale_picture(&raw->scale, &picture, view, wanted, pixels_out) : -ENOMEM;
}

/* Does the view cover the whole image, and does the image have the wanted shape? */
static bool is_whole(const struct augment_view *view, const struct image_shape *stored,
                     const struct image_shape *wanted)
{
    return view->left == 0 && view->top == 0 && view->width == wanted->width && view->height == wanted->height &&
           stored->width == wanted->width && stored->height == wanted->height &&
           stored->channels == wanted->channels && !view->is_flipped && view->resize.x_step == 0;
}

static int raw_decode(struct raw *raw, const struct raw_order *order, const struct stored_image *image,
                  const struct image_request *request, uint8_t *pixels_out, char *problem, size_t problem_size)
{
    struct image_shape stored;
    struct augment_view view;
    if (raw_shape_find(image, &request->shape, &stored, problem, problem_size) < 0)
        return -EBADMSG;
    augment_view(request->augment, request, stored.height, stored.width, &view);
    if (is_whole(&view, &stored, &request->shape)) {
        order->write(image->bytes, &stored, pixels_out);
    } else if (write_view(raw, find_rows(raw, order, image, &stored), &stored, &view, &request->shape,
                          pixels_out) < 0) {
        snprintf(problem, problem_size, "there is not enough memory to scale its image");
        return -ENOMEM;
    }
    return 0;
}

static int decode_hwc(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    return raw_decode(codec, &hwc, image, request, pixels_out, problem_out, problem_size);
}

static int decode_chw(void *codec, const struct stored_image *image, const struct image_request *request,
                      uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    return raw_decode(codec, &chw, image, request, pixels_out, problem_out, problem_size);
}

const struct image_ops image_raw_hwc_ops = {
    .name = "raw bytes (H, W, C)",
    .open = open_raw, .close = close_raw, .codec_bytes = CODEC_BYTES, .decode = decode_hwc };
const struct image_ops image_raw_chw_ops = {
    .name = "raw bytes (C, H, W)",
    .open = open_raw, .close = close_raw, .codec_bytes = CODEC_BYTES, .decode = decode_chw };
