/* What is done to pixels. Called by main. */
#include "tools/config/pixels.h"

#include <stdlib.h>
#include <string.h>

#define DIVISOR_DEFAULT 255.0
#define IMAGES_COLUMNS 79u        /* of what is done to images, on a line of 100 */

struct augment pixels_augment(const struct settings *settings)
{
    const struct augment_settings *const augment = &settings->augment;
    return (struct augment){
        .seed = (uint64_t)settings->run.seed,
        .crop = { [PASS_TRAIN] = augment->crop, [PASS_EVALUATE] = augment->evaluation },
        .filter = augment->filter,
        .scale = augment->evaluation_scale,
        .pad = (uint32_t)augment->pad,
        .shift = augment->shift,
        .flips = augment->flip,
        .changes_colour = augment->colour,
    };
}

/* Of a channel. */
static float number_of(const struct numbers *numbers, uint32_t channel, double otherwise)
{
    if (numbers->count == 0)
        return (float)otherwise;
    return (float)numbers->value[numbers->count == 1 ? 0 : channel];
}

bool pixels_transform(const struct settings *settings, struct input_transform *transform_out)
{
    const struct model_settings *const model = &settings->model;
    const bool is_plain = model->mean.count == 0 && model->deviation.count == 0;
    if (model->divisor == 0 && is_plain)
        return false;
    *transform_out = (struct input_transform){
        .divisor = (float)(model->divisor == 0 ? DIVISOR_DEFAULT : model->divisor), .is_plain = is_plain };
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++) {
        transform_out->mean[c] = number_of(&model->mean, c, 0);
        transform_out->deviation[c] = number_of(&model->deviation, c, 1);
    }
    return true;
}

/* A decimal that reads back as `value`, with no more digits than that takes. */
static void format_float(float value, char *text, size_t text_size)
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, text_size, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
}

/* What is the same in all channels is said once. */
static void format_channels(const float *values, uint32_t channels, char *text, size_t text_size)
{
    uint32_t count = 1;
    for (uint32_t c = 1; c < channels; c++)
        if (values[c] != values[0])
            count = channels;
    for (uint32_t c = 0; c < count; c++) {
        const size_t used = c == 0 ? 0 : strlen(text) + 1;
        if (c > 0)
            text[used - 1] = ' ';
        format_float(values[c], text + used, text_size - used);
    }
}

void pixels_describe(const struct settings *settings, const struct net *net, struct pixels_text *text_out)
{
    const struct input_transform *const transform = &net->transform;
    const struct augment augment = pixels_augment(settings);
    const uint32_t told = net->input.channels <= NET_CHANNELS_MAX ? net->input.channels : 1;
    format_float(transform->divisor, text_out->divisor, sizeof(text_out->divisor));
    format_channels(transform->mean, told, text_out->mean, sizeof(text_out->mean));
    format_channels(transform->deviation, told, text_out->deviation, sizeof(text_out->deviation));
    for (enum pass pass = 0; pass < PASS_COUNT; pass++)
        augment_describe(&augment, pass, text_out->images[pass], sizeof(text_out->images[pass]));
}

/* Bytes of a text's first line: all of it, or as far as the last comma that fits. */
static size_t first_line(const char *text)
{
    size_t bytes = strlen(text);
    if (bytes <= IMAGES_COLUMNS)
        return bytes;
    for (const char *comma = strstr(text, ", "); comma != NULL && (size_t)(comma - text) < IMAGES_COLUMNS;
         comma = strstr(comma + 1, ", "))
        bytes = (size_t)(comma - text) + 1;
    return bytes;
}

static void print_images(const char *what, const char *text, FILE *out)
{
    const size_t bytes = first_line(text);
    fprintf(out, "%-21s%.*s\n", what, (int)bytes, text);
    if (text[bytes] != '\0')
        fprintf(out, "%-21s%s\n", "", text + bytes + 1);
}

void pixels_print(const struct settings *settings, const struct net *net, FILE *out)
{
    struct pixels_text text;
    pixels_describe(settings, net, &text);
    if (net->transform.is_plain)
        fprintf(out, "input     pixel / %s\n", text.divisor);
    else
        fprintf(out, "input     (pixel / %s - mean) / deviation, mean %s, deviation %s\n", text.divisor, text.mean,
                text.deviation);
    if (settings->input.source == INPUT_SYNTHETIC)
        return;
    print_images("images    train", text.images[PASS_TRAIN], out);
    print_images("          validation", text.images[PASS_EVALUATE], out);
}
