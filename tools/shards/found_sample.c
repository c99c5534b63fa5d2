/* Identify the image and the label of a record. Called by the main thread and the threads of a scan; pure functions. */
#include "tools/shards/found_sample.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/image_header.h"
#include "loader/images/image.h"
#include "loader/images/raw.h"
#include "loader/images/stored_pixels.h"
#include "loader/images/tensor_image.h"
#include "loader/sample.h"
#include "loader/shards/shard_kind.h"

#define CIFAR_SIDE 32u
#define MNIST_SIDE 28u

struct search {
    const uint8_t *payload;
    size_t bytes;
    size_t *bad_offset;
};

/* Find the configured feature, or else the first one that has a usual name; *name_out is NULL if there is none. 0 or
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
    sample->is_transposed = header.orientation > 4;
    return true;
}

static int read_size(const struct search *search, enum sample_key key, struct image_size *size_out)
{
    struct feature feature;
    const char *name;
    if (find(search, key, NULL, &feature, &name) < 0)
        return -EBADMSG;
    *size_out = stored_size(name, &feature);
    return 0;
}

/* Find the shape in the features of the record, or else derive it from the number of pixels. False if it is unknown. */
static bool find_shape(const struct stored_image *counted, const struct image_shape *any,
                       struct image_shape *shape_out, enum pixel_layout *layout_out)
{
    char problem[512];
    if (counted->byte_count > 0 && raw_shape_find(counted, any, shape_out, problem, sizeof(problem)) == 0)
        return true;
    const bool is_cifar = stored_pixels_are_cifar(counted->key, counted->byte_count);
    *shape_out = (struct image_shape){ 0 };
    if (is_cifar)
        *shape_out = (struct image_shape){ CIFAR_SIDE, CIFAR_SIDE, 3 };
    else if (counted->byte_count == MNIST_SIDE * MNIST_SIDE)
        *shape_out = (struct image_shape){ MNIST_SIDE, MNIST_SIDE, 1 };
    *layout_out = is_cifar ? PIXEL_LAYOUT_CHW : PIXEL_LAYOUT_HWC;
    return shape_out->channels > 0;
}

static void set_kind(struct found_sample *sample)
{
    const bool is_raw = pixel_reading_ops(&sample->reading) == &image_raw_hwc_ops ||
                        pixel_reading_ops(&sample->reading) == &image_raw_chw_ops;
    if (!is_raw)
        sample->image = sample->reading.type->is_float ? FOUND_FLOATS : FOUND_INTEGERS;
    else
        sample->image = sample->reading.layout == PIXEL_LAYOUT_CHW ? FOUND_PLANES : FOUND_ROWS;
}

static void set_shape(struct found_sample *sample, const struct image_shape *shape)
{
    sample->height = shape->height;
    sample->width = shape->width;
    sample->channels = shape->channels;
}

static void set_rows(struct found_sample *sample, const struct image_shape *shape)
{
    sample->reading = (struct pixel_reading){ .type = &number_types[NUMBER_BYTES],
                                              .range = &image_ranges[IMAGE_RANGE_BYTE], .layout = PIXEL_LAYOUT_HWC };
    sample->image = FOUND_ROWS;
    set_shape(sample, shape);
}

/* Derive from this image alone how pixels of this shape are to be read. An image with only 0 and 1 may be a black
 * one of bytes. */
static void choose_reading(struct found_sample *sample, const struct stored_image *image,
                           const struct image_shape *shape, struct pixel_choice *choice,
                           struct pixel_survey *survey)
{
    set_shape(sample, shape);
    if (survey->stats[0].type == &number_types[NUMBER_BYTES])
        choice->range = &image_ranges[IMAGE_RANGE_BYTE];
    if (pixel_survey_add(survey, image, shape) < 0)
        snprintf(sample->flaw, sizeof(sample->flaw), "%s", strerror(ENOMEM));
    else if (pixel_survey_settle(survey, choice, &sample->reading, sample->flaw, sizeof(sample->flaw)) == 0)
        set_kind(sample);
    pixel_survey_release(survey);
}

/* A shape of unknown height and width, with the number of channels in the record, else 3. */
static struct image_shape any_size(const struct stored_image *image)
{
    const bool is_said = image->channels.said > 0 && image->channels.said <= UINT32_MAX;
    return (struct image_shape){ 0, 0, is_said ? (uint32_t)image->channels.said : 3 };
}

/* Find how the numbers of an image are stored. Bytes without a shape, and tensors that are not images, remain
 * FOUND_UNKNOWN. */
static void read_numbers(struct found_sample *sample, struct stored_image *image, enum pixel_layout layout)
{
    struct image_shape shape;
    struct pixel_survey survey;
    struct stored_pixels stored;
    struct image_shape any = any_size(image);
    char text[512];
    if (stored_pixels_find(image, &any, layout, &stored, text, sizeof(text)) < 0 ||
        stored_pixels_unwrap(&stored, image, text, sizeof(text)) < 0)
        return;
    sample->bytes = image->bytes;
    sample->byte_count = image->byte_count;
    any = any_size(image);      /* a tensor has its own number of channels */
    struct pixel_choice choice = { NULL, stored.layout, PIXEL_LAYOUT_HWC, PIXEL_CLEAR_IMAGE };
    struct stored_image counted = *image;
    stored_pixels_begin_survey(&stored, &survey);
    counted.type = survey.stats[0].type;
    counted.byte_count = number_count(&counted);
    const bool is_known = find_shape(&counted, &any, &shape, &choice.usual_layout);
    if (is_known && stored.layout == PIXEL_LAYOUT_HWC && image->height.said != IMAGE_SIZE_UNSAID &&
        counted.type == &number_types[NUMBER_BYTES])
        set_rows(sample, &shape);
    else if (is_known || image->list != NULL)
        choose_reading(sample, image, &shape, &choice, &survey);
}

static int read_sizes(const struct search *search, struct stored_image *image)
{
    const bool is_read = read_size(search, SAMPLE_HEIGHT, &image->height) == 0 &&
                         read_size(search, SAMPLE_WIDTH, &image->width) == 0 &&
                         read_size(search, SAMPLE_DEPTH, &image->channels) == 0;
    return is_read ? 0 : -EBADMSG;
}

static int read_bytes(struct found_sample *sample, const struct search *search, const struct feature *feature,
                      bool is_in_rows)
{
    struct stored_image image = { .key = sample->key, .bytes = feature->bytes, .byte_count = feature->byte_count };
    sample->image = FOUND_UNKNOWN;
    sample->bytes = feature->bytes;
    sample->byte_count = feature->byte_count;
    if (read_header(sample))
        return 0;
    if (read_sizes(search, &image) < 0)
        return -EBADMSG;
    const bool is_tensor = tensor_image_is(image.bytes, image.byte_count);
    read_numbers(sample, &image, is_in_rows && !is_tensor ? PIXEL_LAYOUT_HWC : PIXEL_LAYOUT_AUTO);
    sample->is_unsized = sample->image == FOUND_UNKNOWN && image.byte_count > 0 && sample->flaw[0] == '\0' &&
                         image.height.said == IMAGE_SIZE_UNSAID && image.width.said == IMAGE_SIZE_UNSAID &&
                         !is_tensor && shard_kind_image(feature->bytes, feature->byte_count) == NULL;
    return 0;
}

static int read_list(struct found_sample *sample, const struct search *search, const struct feature *feature)
{
    struct stored_image image = { .key = sample->key, .list = feature };
    sample->image = feature->kind == FEATURE_FLOATS ? FOUND_FLOATS : FOUND_INTEGERS;
    sample->list = *feature;
    if (read_sizes(search, &image) < 0)
        return -EBADMSG;
    read_numbers(sample, &image, PIXEL_LAYOUT_AUTO);
    return 0;
}

static int read_image(struct found_sample *sample, const struct search *search, const struct sample_names *names)
{
    struct feature feature;
    const char *name;
    const int rc = find(search, SAMPLE_IMAGE, names->image, &feature, &name);
    if (rc < 0 || name == NULL)
        return rc;
    sample->key = name;
    if (feature.kind == FEATURE_BYTES && feature.value_count > 0)
        return read_bytes(sample, search, &feature, names->is_in_rows);
    return feature.kind != FEATURE_BYTES && feature.value_count > 1 ? read_list(sample, search, &feature) : 0;
}

int found_sample_read(const struct sample_names *names, const uint8_t *payload, size_t bytes,
                      struct found_sample *sample_out, size_t *bad_offset_out)
{
    const struct search search = { payload, bytes, bad_offset_out };
    struct found_sample sample = { .image = FOUND_NOTHING };
    struct feature feature;
    const char *name;
    if (read_image(&sample, &search, names) < 0 ||
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

/* The decoder for the image; *image_out describes the image to it. */
static const struct image_ops *find_decoder(const struct found_sample *sample, struct stored_image *image_out)
{
    *image_out = (struct stored_image){
        .key = sample->key,
        .bytes = sample->bytes,
        .byte_count = sample->byte_count,
        .list = sample->bytes == NULL ? &sample->list : NULL,
        .type = sample->reading.type,
        .range = sample->reading.range,
        .height = { "height", sample->height > 0 ? sample->height : IMAGE_SIZE_UNSAID },
        .width = { "width", sample->width > 0 ? sample->width : IMAGE_SIZE_UNSAID },
        .channels = { "channels", sample->channels > 0 ? sample->channels : IMAGE_SIZE_UNSAID },
    };
    return sample->image == FOUND_JPEG || sample->image == FOUND_PNG ? &image_encoded_ops
                                                                     : pixel_reading_ops(&sample->reading);
}

int found_decoder_decode(struct found_decoder *decoder, const struct found_sample *sample,
                         const struct image_shape *shape, uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    static const struct augment upright = { .crop = { CROP_NONE, CROP_NONE }, .filter = FILTER_BILINEAR,
                                            .orientation = ORIENTATION_EXIF };
    struct stored_image image;
    const struct image_request request = { .augment = decoder->turns_upright ? &upright : NULL, .shape = *shape,
                                           .to_end = true };
    const struct image_ops *const ops = find_decoder(sample, &image);
    size_t i = 0;
    while (decoder->codecs[i].ops != NULL && decoder->codecs[i].ops != ops)
        i++;
    if (decoder->codecs[i].ops == NULL && ops->open(&decoder->codecs[i].codec) < 0)
        return -ENOMEM;
    decoder->codecs[i].ops = ops;
    return ops->decode(decoder->codecs[i].codec, &image, &request, pixels_out, problem_out, problem_size);
}

void found_decoder_release(struct found_decoder *decoder)
{
    for (size_t i = 0; i < FOUND_CODECS && decoder->codecs[i].ops != NULL; i++)
        decoder->codecs[i].ops->close(decoder->codecs[i].codec);
}

const char *found_image_text(enum found_image image)
{
    static const char *const texts[] = {
        [FOUND_NOTHING] = "no image", [FOUND_ROWS] = "raw pixels", [FOUND_PLANES] = "raw planes", [FOUND_JPEG] = "JPEG",
        [FOUND_PNG] = "PNG", [FOUND_FLOATS] = "floats", [FOUND_INTEGERS] = "integers", [FOUND_UNKNOWN] = "unknown",
    };
    return texts[image];
}
