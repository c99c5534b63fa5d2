/* A record's payload read as a sample. Called by decoders for every record. */
#include "loader/samples/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "loader/samples/tensor_image.h"

static int read_features(const struct sample_format *format, struct feature features[SAMPLE_KEY_COUNT],
                         const struct payload_problem *problem)
{
    const struct example_query query = { format->keys, format->key_bytes, SAMPLE_KEY_COUNT };
    size_t bad_offset;
    return example_find(problem->payload, problem->bytes, &query, features, &bad_offset) == 0
               ? 0
               : feature_tell_bad(problem, bad_offset);
}

/* The checks of a sample; their texts follow "record N at byte B: ". */
static int tell_image(const struct sample_format *format, const struct feature *image,
                      const struct payload_problem *problem)
{
    char first[128];
    if (image->kind == FEATURE_MISSING)
        return feature_tell_missing(problem, "image", format->keys[SAMPLE_IMAGE]);
    sample_describe_images(format, first, sizeof(first));
    if (image->kind == format->stored_as)
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, one with pixels is needed", format->keys[SAMPLE_IMAGE],
                 feature_values_text(image).text);
    else
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, and the first record of the set %s: one set holds one or the other",
                 format->keys[SAMPLE_IMAGE], feature_values_text(image).text, first);
    return -EBADMSG;
}

static bool is_image(const struct sample_format *format, const struct feature *image)
{
    return image->kind == format->stored_as && (image->kind != FEATURE_BYTES || image->value_count == 1);
}

static struct image_size said_size(const struct sample_format *format,
                                   const struct feature features[SAMPLE_KEY_COUNT], enum sample_key key)
{
    const struct feature *const feature = &features[key];
    const bool is_said = feature->kind == FEATURE_INT64S && feature->value_count > 0;
    return (struct image_size){ format->keys[key], is_said ? feature->int64 : IMAGE_SIZE_UNSAID };
}

/* The image as it is stored. 0, or -EBADMSG with a text where it is no tensor like that of the first record. */
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
        .height = said_size(format, features, SAMPLE_HEIGHT),
        .width = said_size(format, features, SAMPLE_WIDTH),
        .channels = said_size(format, features, SAMPLE_DEPTH),
    };
    return format->is_tensor ? tensor_image_read(image_out, format->numbers, format->layout, problem_out, problem_size)
                             : 0;
}

int sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                const struct sample_target *target, char *problem_out, size_t problem_size)
{
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    struct feature features[SAMPLE_KEY_COUNT];
    if (read_features(format, features, &problem) < 0)
        return -EBADMSG;
    if (!is_image(format, &features[SAMPLE_IMAGE]))
        return tell_image(format, &features[SAMPLE_IMAGE], &problem);
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

/* The label's feature; MISSING where the payload cannot be read. */
static struct feature find_label(const struct sample_format *format, const struct payload_problem *problem)
{
    struct feature features[SAMPLE_KEY_COUNT];
    return read_features(format, features, problem) == 0 ? features[SAMPLE_LABEL]
                                                         : (struct feature){ .kind = FEATURE_MISSING };
}

bool sample_label_is_open(const struct sample_format *format, const uint8_t *payload, size_t bytes)
{
    char text[128];
    const struct payload_problem problem = { payload, bytes, text, sizeof(text) };
    const struct feature label = find_label(format, &problem);
    return label_is_open(&format->label, &label);
}

bool sample_label_is_number_byte(const struct sample_format *format, const uint8_t *payload, size_t bytes)
{
    char text[128];
    const struct payload_problem problem = { payload, bytes, text, sizeof(text) };
    const struct feature label = find_label(format, &problem);
    return label_is_number_byte(&label);
}

int sample_settle_label(struct sample_format *format, const uint8_t *payload, size_t bytes, bool is_number,
                        char *problem_out, size_t problem_size)
{
    const struct payload_problem problem = { payload, bytes, problem_out, problem_size };
    const struct feature label = find_label(format, &problem);
    return label_settle(&format->label, format->keys[SAMPLE_LABEL], &label, is_number, &problem);
}

void sample_begin_survey(const struct sample_format *format, struct pixel_survey *survey)
{
    if (format->is_tensor || format->stored_as != FEATURE_BYTES)
        pixel_survey_begin_type(survey, format->numbers);
    else
        pixel_survey_begin(survey, format->number_bytes);
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
