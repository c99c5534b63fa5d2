/* Images stored as JPEG or PNG files, recognised by their first bytes. Called by decoders for every record. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/images/image.h"
#include "loader/images/image_memory.h"
#include "loader/images/orientation.h"
#include "loader/images/picture.h"
#include "loader/images/scale.h"
#include "loader/shards/shard_kind.h"

/* Memory of a thread's decoders for a typical photograph. */
#define CODEC_BYTES ((size_t)4 << 20)

static const struct picture_ops *const formats[] = { &picture_jpeg_ops, &picture_png_ops };

enum { FORMAT_COUNT = sizeof(formats) / sizeof(*formats) };

struct encoded {
    void *decoders[FORMAT_COUNT];
    struct scale scale;
    struct scratch turned;      /* pixels of an image that is turned upright */
};

static void close_encoded(void *codec)
{
    struct encoded *const encoded = codec;
    for (int i = 0; i < FORMAT_COUNT; i++)
        formats[i]->close(encoded->decoders[i]);
    scale_release(&encoded->scale);
    scratch_release(&encoded->turned);
    free(encoded);
}

static int open_encoded(void **codec_out)
{
    struct encoded *const encoded = calloc(1, sizeof(*encoded));
    int rc = encoded != NULL ? 0 : -ENOMEM;
    for (int i = 0; i < FORMAT_COUNT && rc == 0; i++)
        rc = formats[i]->open(&encoded->decoders[i]);
    if (rc == 0)
        *codec_out = encoded;
    else if (encoded != NULL)
        close_encoded(encoded);
    return rc;
}

/* The index of a format in `formats`, or FORMAT_COUNT. */
static int find_format(const char *name)
{
    int format = name != NULL ? 0 : FORMAT_COUNT;
    while (format < FORMAT_COUNT && strcmp(formats[format]->name, name) != 0)
        format++;
    return format;
}

static void add_subject(struct text *problem, const struct stored_image *image)
{
    if (image->key != NULL)
        text_add(problem, "feature '%s' ", image->key);
}

static void report_file(const struct stored_image *image, const char *name, const struct image_shape *shape,
                        struct text *problem)
{
    const char *const other = image_other_kind(image->bytes, image->byte_count);
    if (shape->channels != 1 && shape->channels != 3)
        text_add(problem, "JPEG and PNG images have 1 or 3 channels; the network wants %" PRIu32, shape->channels);
    else if (other != NULL)
        text_add(problem, "%s: JPEG and PNG can be read", other);
    else if (name != NULL)
        text_add(problem, "holds a %s image: JPEG and PNG can be read", name);
    else
        text_add(problem, "is neither a JPEG nor a PNG (%zu byte%s)", image->byte_count,
                 image->byte_count == 1 ? "" : "s");
}

static void report_kind(const struct stored_image *image, const char *name, const struct image_shape *shape,
                        struct text *problem)
{
    size_t bytes;
    if (image->key == NULL)
        report_file(image, name, shape, problem);
    else if (shape->channels != 1 && shape->channels != 3)
        text_add(problem, "feature '%s' is of encoded images, which have 1 or 3 channels; the network wants %" PRIu32,
                 image->key, shape->channels);
    else if (name != NULL)
        text_add(problem, "feature '%s' holds a %s image: JPEG, PNG and raw pixels can be read", image->key, name);
    else if (image_shape_bytes(shape, &bytes) && image->byte_count == bytes)
        text_add(problem, "feature '%s' holds raw pixels, but the first record of the set an encoded image: all "
                 "records have to be of one kind", image->key);
    else if (image_other_kind(image->bytes, image->byte_count) != NULL)
        text_add(problem, "feature '%s' is neither a JPEG nor a PNG: it %s", image->key,
                 image_other_kind(image->bytes, image->byte_count));
    else
        text_add(problem, "feature '%s' is neither a JPEG nor a PNG (%zu byte%s)", image->key, image->byte_count,
                 image->byte_count == 1 ? "" : "s");
}

/* An image whose header was read, and how it becomes upright. */
struct encoded_image {
    int format;
    struct image_size_pair stored;
    struct orientation orientation;
    struct augment_view view;           /* of the upright image */
    const struct image_request *request;
};

/* The size of the reduced image, as libjpeg-turbo rounds it. */
static uint32_t reduced_side(uint32_t side, uint32_t eighths)
{
    return (uint32_t)(((uint64_t)side * eighths + PICTURE_FULL_EIGHTHS - 1) / PICTURE_FULL_EIGHTHS);
}

static struct image_size_pair reduced_size(const struct image_size_pair *stored, uint32_t eighths)
{
    return (struct image_size_pair){ reduced_side(stored->height, eighths), reduced_side(stored->width, eighths) };
}

/* The view in pixels of the reduced image. The last row and column of a reduced image may show only a part of a pixel;
 * where it is mirrored they come first, and the others are moved by the missing part. */
static struct augment_view scale_view(const struct encoded_image *image, uint32_t eighths)
{
    const struct orientation *const orientation = &image->orientation;
    const double size = (double)eighths / PICTURE_FULL_EIGHTHS;
    const double right = orientation->mirrors_columns
                             ? reduced_side(image->stored.width, eighths) - image->stored.width * size : 0;
    const double down = orientation->mirrors_rows
                            ? reduced_side(image->stored.height, eighths) - image->stored.height * size : 0;
    struct augment_view scaled = image->view;
    scaled.left = scaled.left * size + (orientation->is_transposed ? down : right);
    scaled.top = scaled.top * size + (orientation->is_transposed ? right : down);
    scaled.width *= size;
    scaled.height *= size;
    return scaled;
}

/* Decode the part of the image that the view needs. */
static int read_picture(struct encoded *encoded, const struct encoded_image *image, struct picture *picture_out,
                        uint32_t *eighths_out, struct text *reason)
{
    const struct picture_ops *const format = formats[image->format];
    void *const decoder = encoded->decoders[image->format];
    struct picture_request part = { &image->view, &image->request->shape, image->request->to_end, false };
    if (orientation_is_upright(&image->orientation))
        return format->read(decoder, &part, picture_out, eighths_out, reason);
    struct image_shape shape = image->request->shape;
    const struct augment_view stored_view = orientation_view(&image->orientation, image->stored, &image->view);
    if (image->orientation.is_transposed)
        shape = (struct image_shape){ shape.width, shape.height, shape.channels };
    part = (struct picture_request){ &stored_view, &shape, image->request->to_end, true };
    struct picture stored;
    int rc = format->read(decoder, &part, &stored, eighths_out, reason);
    if (rc < 0)
        return rc;
    rc = orientation_turn(&image->orientation, reduced_size(&image->stored, *eighths_out), &encoded->turned, &stored,
                          picture_out);
    if (rc < 0)
        text_add(reason, "there is not enough memory to turn it upright");
    return rc;
}

/* Decode and scale the image. */
static int read_sample(struct encoded *encoded, const struct encoded_image *image, uint8_t *pixels_out,
                       struct text *reason)
{
    struct picture picture;
    uint32_t eighths;
    int rc = read_picture(encoded, image, &picture, &eighths, reason);
    if (rc < 0)
        return rc;
    const struct augment_view view = scale_view(image, eighths);
    rc = scale_picture(&encoded->scale, &picture, &view, &image->request->shape, pixels_out);
    if (rc < 0)
        text_add(reason, "there is not enough memory to scale it");
    return rc;
}

static bool is_turned(const struct image_request *request)
{
    return request->augment != NULL && request->augment->orientation == ORIENTATION_EXIF;
}

static int decode_format(struct encoded *encoded, int format, const struct stored_image *image,
                         const struct image_request *request, uint8_t *pixels_out, struct text *reason)
{
    struct encoded_image header = { .format = format, .request = request };
    int rc = formats[format]->begin(encoded->decoders[format], image->bytes, image->byte_count, &header.stored.height,
                                    &header.stored.width, reason);
    if (rc < 0)
        return rc;
    if (is_turned(request))
        header.orientation = orientation_of(image->bytes, image->byte_count);
    const struct image_size_pair upright = orientation_size(&header.orientation, header.stored);
    augment_view(request->augment, request, upright.height, upright.width, &header.view);
    rc = read_sample(encoded, &header, pixels_out, reason);
    if (encoded->turned.bytes > IMAGE_OWN_BYTES)
        scratch_release(&encoded->turned);
    formats[format]->end(encoded->decoders[format]);
    return rc;
}

static int decode_encoded(void *codec, const struct stored_image *image, const struct image_request *request,
                          uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    char words[256];
    struct text problem, reason;
    text_init(&problem, problem_out, problem_size);
    text_init(&reason, words, sizeof(words));
    const char *const name = shard_kind_image(image->bytes, image->byte_count);
    const int format = find_format(name);
    int rc = -EBADMSG;
    if (format == FORMAT_COUNT || (request->shape.channels != 1 && request->shape.channels != 3))
        report_kind(image, name, &request->shape, &problem);
    else
        rc = decode_format(codec, format, image, request, pixels_out, &reason);
    if (words[0] == '\0')
        return rc;
    add_subject(&problem, image);
    text_add(&problem, "holds a %s image that %s: %s", name, rc == 0 ? "has flaws" : "cannot be decoded", words);
    return rc;
}

const struct image_ops image_encoded_ops = {
    .name = "JPEG or PNG files", .open = open_encoded, .close = close_encoded, .codec_bytes = CODEC_BYTES,
    .takes_large = true,
    .decode = decode_encoded };
