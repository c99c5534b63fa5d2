/* The transform of pixels. Called by the main thread. */
#include "tools/lib/config/pixels.h"

#include <math.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

#define DIVISOR_DEFAULT 255.0
#define COLUMNS 79u
#define INPUT_INDENT 10u
#define IMAGES_INDENT 21u       /* indentation of the lines on images */

const char *const pixels_settings[PIXELS_SETTINGS] = { "augment.evaluation", "augment.evaluation_scale",
                                                       "augment.evaluation_resize", "augment.filter",
                                                       "data.label_offset", "data.label_key", "data.image_key",
                                                       "data.image_layout", "data.image_range",
                                                       "augment.orientation",
                                                       "data.validation_split" };

const struct option_row *pixels_option(size_t setting)
{
    const bool is_augment = strncmp(pixels_settings[setting], "augment.", strlen("augment.")) == 0;
    return option_find(is_augment ? SECTION_AUGMENT : SECTION_DATA, strchr(pixels_settings[setting], '.') + 1);
}

void pixels_choose_scaling(struct settings *settings)
{
    const enum origin scale = settings_origin(settings, SECTION_AUGMENT, "evaluation_scale")->origin;
    const enum origin resize = settings_origin(settings, SECTION_AUGMENT, "evaluation_resize")->origin;
    if (scale > resize)
        settings->augment.evaluation_resize = 0;
}

struct shape pixels_train_shape(const struct settings *settings, const struct net *net)
{
    const uint32_t side = (uint32_t)settings->augment.train_size;
    return side > 0 ? (struct shape){ net->input.channels, side, side } : net->input;
}

/* The larger of the images that are cropped after evaluation_resize. */
static struct shape largest_resized(const struct settings *settings, struct shape input)
{
    const uint32_t side = (uint32_t)settings->augment.train_size;
    const bool is_larger = settings->augment.crop == CROP_EVALUATED && side > input.height;
    return is_larger ? (struct shape){ input.channels, side, side } : input;
}

void pixels_check_resize(struct settings *settings, struct shape input, struct problems *problems)
{
    const struct augment_settings *const augment = &settings->augment;
    const struct shape image = largest_resized(settings, input);
    const uint32_t side = image.height > image.width ? image.height : image.width;
    char message[160];
    if (augment->evaluation_resize == 0)
        return;
    if (augment->evaluation_resize < side) {
        snprintf(message, sizeof(message), "resized to %lld pixels an image is smaller than %s %u x %u: at least %u",
                 (long long)augment->evaluation_resize, settings->only_feeds ? "the crop of" : "the network's",
                 image.height, image.width, side);
        settings_report(settings, problems, SECTION_AUGMENT, "evaluation_resize", message);
    }
    if (augment->filter != FILTER_BILINEAR && augment->filter != FILTER_BICUBIC)
        settings_report(settings, problems, SECTION_AUGMENT, "evaluation_resize",
                        "needs filter = bilinear or bicubic; with other filters use evaluation_scale");
}

static void check_range(struct settings *settings, const char *key, const struct numbers *range,
                        struct problems *problems)
{
    const double *const value = range->value;
    if (range->count != 0 && (range->count != 2 || value[0] <= 0 || value[1] < value[0]))
        settings_report(settings, problems, SECTION_AUGMENT, key,
                        "has to be two numbers, the smaller one first and above 0, as in 0.25, 1");
}

void pixels_check_augment(struct settings *settings, uint32_t channels, struct problems *problems)
{
    check_range(settings, "crop_area", &settings->augment.crop_area, problems);
    check_range(settings, "crop_aspect", &settings->augment.crop_aspect, problems);
    char message[160];
    if (settings->augment.policy == POLICY_NONE || channels == 1 || channels == 3)
        return;
    snprintf(message, sizeof(message), "changes images of 1 or 3 channels, and %s have %u: none is possible",
             settings->only_feeds ? "these" : "the network's", channels);
    settings_report(settings, problems, SECTION_AUGMENT, "policy", message);
}

static struct augment_range range_of(const struct numbers *numbers)
{
    return numbers->count == 2 ? (struct augment_range){ numbers->value[0], numbers->value[1] }
                               : (struct augment_range){ 0, 0 };
}

/* The pixel that becomes 0 in the input of the network, rounded. */
static void find_mean_pixel(const struct input_transform *transform, uint8_t values_out[AUGMENT_CHANNELS_MAX])
{
    _Static_assert(AUGMENT_CHANNELS_MAX == NET_CHANNELS_MAX, "every channel with a mean has a value");
    for (size_t c = 0; c < AUGMENT_CHANNELS_MAX; c++) {
        const float value = transform->is_plain ? 0 : transform->mean[c] * transform->divisor;
        values_out[c] = (uint8_t)(fminf(fmaxf(value, 0), 255) + 0.5f);
    }
}

struct augment pixels_augment(const struct settings *settings, const struct net *net)
{
    const struct augment_settings *const augment = &settings->augment;
    struct augment made = {
        .seed = (uint64_t)settings->run.seed,
        .crop = { [PHASE_TRAIN] = augment->crop, [PHASE_EVALUATE] = augment->evaluation },
        .orientation = augment->orientation,
        .filter = augment->filter,
        .scale = augment->evaluation_scale,
        .resize = (uint32_t)augment->evaluation_resize,
        .area = range_of(&augment->crop_area),
        .aspect = range_of(&augment->crop_aspect),
        .pad = (uint32_t)augment->pad,
        .shift = augment->shift,
        .flips = augment->flip,
        .flips_vertically = augment->vertical_flip,
        .rotation = augment->rotation,
        .policy = augment->policy,
        .policy_operations = (uint32_t)augment->operations,
        .policy_magnitude = (uint32_t)augment->magnitude,
        .changes_colour = augment->colour,
        .erase = augment->erase,
        .mixup = augment->mixup,
        .cutmix = augment->cutmix,
        .mixed = augment->mixed,
    };
    if (net != NULL)
        find_mean_pixel(&net->transform, made.erased);
    return made;
}

/* The number for a channel; `otherwise` if there are no numbers. */
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
        transform_out->std[c] = number_of(&model->deviation, c, 1);
    }
    return true;
}

static double largest(const struct numbers *numbers)
{
    double most = 0;
    for (uint32_t i = 0; i < numbers->count; i++)
        most = fabs(numbers->value[i]) > most ? fabs(numbers->value[i]) : most;
    return most;
}

/* Are these the means of ImageNet's images in the order blue, green, red (Caffe, OpenCV)? */
static bool is_bgr(const struct numbers *mean, double divisor)
{
    static const double bgr[] = { 103.7, 116.5, 123.7 };
    bool is_near = mean->count == 3;
    for (uint32_t c = 0; is_near && c < 3; c++)
        is_near = fabs(mean->value[c] * divisor - bgr[c]) < 1.5;
    return is_near;
}

static void warn_order(const struct numbers *mean, double divisor)
{
    const double *const value = mean->value;
    if (is_bgr(mean, divisor) || is_bgr(mean, 1) || is_bgr(mean, 255))
        log_message(LOG_RUN, "model.mean = %g, %g, %g is in the order blue, green, red; JPEG and PNG images are read "
                    "as red, green, blue: %g, %g, %g, and weights for BGR need the input channels of their first layer "
                    "reversed", value[0], value[1], value[2], value[2], value[1], value[0]);
}

/* Pixels are 0 to 255, so the mean of pixel / divisor is at most 255 / divisor, and its standard deviation at most half
 * of that. A deviation of 1 is accepted, because it often means that there is none. */
void pixels_warn(const struct settings *settings)
{
    const struct model_settings *const model = &settings->model;
    const double divisor = model->divisor == 0 ? DIVISOR_DEFAULT : model->divisor;
    const double most = 255 / divisor, mean = largest(&model->mean), deviation = largest(&model->deviation);
    const bool is_mean = mean > most;
    warn_order(&model->mean, divisor);
    if ((is_mean || deviation > 2 * most) && divisor > 1)
        log_message(LOG_RUN, "model.%s = %g: pixel / %g is %g at most: numbers for pixels of 0 to 255 need "
                    "model.divisor = 1", is_mean ? "mean" : "deviation", is_mean ? mean : deviation, divisor, most);
    if (divisor <= 1 && mean > 0 && mean <= 1 && deviation <= 1)
        log_message(LOG_RUN, "model.mean = %g: pixel / %g goes to %g: numbers for pixels of 0 to 1 need "
                    "model.divisor = 255", mean, divisor, most);
}

/* Write the numbers of channels; a single one if all are equal. */
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
        decimal_write_float(values[c], text + used, text_size - used);
    }
}

void pixels_describe(const struct settings *settings, const struct net *net, struct pixels_text *text_out)
{
    const struct input_transform *const transform = &net->transform;
    const struct augment augment = pixels_augment(settings, net);
    const uint32_t channels = net->input.channels <= NET_CHANNELS_MAX ? net->input.channels : 1;
    decimal_write_float(transform->divisor, text_out->divisor, sizeof(text_out->divisor));
    format_channels(transform->mean, channels, text_out->mean, sizeof(text_out->mean));
    format_channels(transform->std, channels, text_out->deviation, sizeof(text_out->deviation));
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++)
        augment_describe(&augment, phase, text_out->images[phase], sizeof(text_out->images[phase]));
    for (size_t i = 0; i < PIXELS_SETTINGS; i++) {
        struct option_text room;
        const char *const value = option_format(pixels_option(i), settings, &room);
        /* A truncated value would be another value. */
        const bool fits = strlen(value) < sizeof(text_out->settings[i]);
        snprintf(text_out->settings[i], sizeof(text_out->settings[i]), "%s", fits ? value : pixels_option(i)->initial);
    }
}

/* The number of bytes for a line: all, or up to the last comma that fits. */
static size_t line_bytes(const char *text, size_t room)
{
    size_t bytes = strlen(text);
    if (bytes <= room)
        return bytes;
    for (const char *comma = strstr(text, ", "); comma != NULL && (size_t)(comma - text) < room;
         comma = strstr(comma + 1, ", "))
        bytes = (size_t)(comma - text) + 1;
    return bytes;
}

static void print_lines(const char *what, size_t indent, const char *text, FILE *out)
{
    for (size_t bytes = 0; *text != '\0'; text += bytes + (text[bytes] == ' ')) {
        bytes = line_bytes(text, COLUMNS - indent);
        fprintf(out, "%-*s%.*s\n", (int)indent, what, (int)bytes, text);
        what = "";
    }
}

void pixels_print(const struct settings *settings, const struct net *net, FILE *out)
{
    const struct shape train = pixels_train_shape(settings, net);
    const bool has_other_size = train.height != net->input.height || train.width != net->input.width;
    struct pixels_text text;
    char formula[sizeof(text) + 64], size[64] = "", images[sizeof(text.images[0]) + sizeof(size)];
    pixels_describe(settings, net, &text);
    snprintf(formula, sizeof(formula),
             net->transform.is_plain ? "pixel / %s" : "(pixel / %s - mean) / deviation, mean %s, deviation %s",
             text.divisor, text.mean, text.deviation);
    print_lines("input", INPUT_INDENT, formula, out);
    if (settings->input.source == INPUT_SYNTHETIC)
        return;
    if (has_other_size)
        snprintf(size, sizeof(size), "%u x %u pixels (validation: %u x %u), ", train.height, train.width,
                 net->input.height, net->input.width);
    snprintf(images, sizeof(images), "%s%s", size, text.images[PHASE_TRAIN]);
    print_lines("images    train", IMAGES_INDENT, images, out);
    print_lines("          validation", IMAGES_INDENT, text.images[PHASE_EVALUATE], out);
}
