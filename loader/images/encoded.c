/* Images stored as JPEG or PNG files, recognised by their first bytes. Called by decoders for every record. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/images/image.h"
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
};

static void close_encoded(void *codec)
{
    struct encoded *const encoded = codec;
    for (int i = 0; i < FORMAT_COUNT; i++)
        formats[i]->close(encoded->decoders[i]);
    scale_release(&encoded->scale);
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

static struct augment_view scale_view(const struct augment_view *view, uint32_t eighths)
{
    const double size = (double)eighths / PICTURE_FULL_EIGHTHS;
    struct augment_view scaled = *view;
    scaled.left *= size;
    scaled.top *= size;
    scaled.width *= size;
    scaled.height *= size;
    return scaled;
}

/* Decode and scale the image whose header was read. */
static int read_sample(struct encoded *encoded, int format, const struct picture_request *request, uint8_t *pixels_out,
                       struct text *reason)
{
    struct picture picture;
    uint32_t eighths;
    int rc = formats[format]->read(encoded->decoders[format], request, &picture, &eighths, reason);
    if (rc < 0)
        return rc;
    const struct augment_view view = scale_view(request->view, eighths);
    rc = scale_picture(&encoded->scale, &picture, &view, request->shape, pixels_out);
    if (rc < 0)
        text_add(reason, "there is not enough memory to scale it");
    return rc;
}

static int decode_format(struct encoded *encoded, int format, const struct stored_image *image,
                         const struct image_request *request, uint8_t *pixels_out, struct text *reason)
{
    uint32_t height, width;
    struct augment_view view;
    int rc = formats[format]->begin(encoded->decoders[format], image->bytes, image->byte_count, &height, &width,
                                    reason);
    if (rc < 0)
        return rc;
    augment_view(request->augment, request, height, width, &view);
    const struct picture_request part = { &view, &request->shape, request->to_end };
    rc = read_sample(encoded, format, &part, pixels_out, reason);
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
