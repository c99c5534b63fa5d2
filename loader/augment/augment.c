/* What is done to an image, and how that is said. Called by decoders for every record. */
#include "loader/augment/augment.h"

#include <stdarg.h>
#include <stdio.h>

#include "loader/augment/crop.h"
#include "loader/augment/draw.h"

/* What becomes of images that have not the sample's size. */
static const enum crop fitting[PHASE_COUNT] = { [PHASE_TRAIN] = CROP_RESIZED, [PHASE_EVALUATE] = CROP_CENTRAL };

/* Whose rule holds for the images of a pass. */
static enum phase rule_of(const struct augment *augment, enum phase phase)
{
    return augment->crop[phase] == CROP_EVALUATED ? PHASE_EVALUATE : phase;
}

static enum crop choose_crop(const struct crop_job *job)
{
    const struct image_request *const request = job->request;
    const enum phase rule = rule_of(job->augment, request->phase);
    const enum crop crop = job->augment->crop[rule];
    if (crop != CROP_AUTO)
        return crop;
    const bool fits = request->shape.height == job->height && request->shape.width == job->width;
    return fits ? CROP_NONE : fitting[rule];
}

void augment_view(const struct augment *augment, const struct image_request *request, uint32_t image_height,
                  uint32_t image_width, struct augment_view *view_out)
{
    *view_out = (struct augment_view){ .width = image_width, .height = image_height };
    if (augment == NULL)
        return;
    const struct crop_job job = { augment, request, image_height, image_width };
    *view_out = crop_view(choose_crop(&job), &job);
    if (augment->flips && request->phase == PHASE_TRAIN)
        view_out->is_flipped = draw_make(augment, request, DRAW_FLIP).word[0] >> 31 != 0;
}

/* ---- in words ---- */

struct text { char *end; size_t room; };

/* Append to the text; what does not fit is left out. */
__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const int wanted = vsnprintf(text->end, text->room, format, values);
    va_end(values);
    const size_t used = wanted < 0 ? 0 : (size_t)wanted < text->room ? (size_t)wanted : text->room - 1;
    text->end += used;
    text->room -= used;
}

static void append_crop(struct text *text, const struct augment *augment, enum crop crop)
{
    const double numbers[CROP_COUNT] = { [CROP_CENTRAL] = augment->scale, [CROP_PAD] = augment->pad,
                                         [CROP_SHIFT] = augment->shift };
    static const struct { const char *before, *behind; } words[CROP_COUNT] = {
        [CROP_NONE] = { "the whole image", NULL },
        [CROP_CENTRAL] = { "the middle, scaled to ", " x the size" },
        [CROP_RESIZED] = { "a random part (area 0.08 to 1, aspect 3/4 to 4/3)", NULL },
        [CROP_BOX] = { "a random part (area 0.1 to 1, aspect 0.75 to 1.33)", NULL },
        [CROP_PAD] = { "padded by ", " zeros, a random part" },
        [CROP_SHIFT] = { "shifted by up to ", " of each side" },
    };
    if (crop == CROP_CENTRAL && augment->resize > 0) {
        append(text, "the shorter side resized to %u pixels, then the middle", augment->resize);
        return;
    }
    append(text, "%s", words[crop].before);
    if (words[crop].behind != NULL)
        append(text, "%g%s", numbers[crop], words[crop].behind);
}

static void append_mixing(struct text *text, const struct augment *augment)
{
    if (augment->mixup == 0 && augment->cutmix == 0)
        return;
    append(text, augment->mixed < 1 ? ", %g %% of them mixed by " : ", mixed by ", 100 * augment->mixed);
    if (augment->mixup > 0)
        append(text, "mixup %g%s", augment->mixup, augment->cutmix > 0 ? " or " : "");
    if (augment->cutmix > 0)
        append(text, "CutMix %g", augment->cutmix);
}

void augment_describe(const struct augment *augment, enum phase phase, char *text, size_t text_size)
{
    static const char *const filters[FILTER_COUNT] = { [FILTER_BILINEAR] = "bilinear", [FILTER_AREA] = "area",
                                                       [FILTER_BICUBIC] = "bicubic", [FILTER_NEAREST] = "nearest" };
    const enum phase rule = rule_of(augment, phase);
    const enum crop crop = augment->crop[rule];
    struct text line = { text, text_size };
    if (crop == CROP_AUTO)
        append(&line, "as it is where it has the size, else ");
    append_crop(&line, augment, crop == CROP_AUTO ? fitting[rule] : crop);
    append(&line, ", %s", filters[augment->filter]);
    if (augment->flips && phase == PHASE_TRAIN)
        append(&line, ", half of them mirrored");
    if (augment->changes_colour && phase == PHASE_TRAIN)
        append(&line, ", colours changed");
    if (phase == PHASE_TRAIN)
        append_mixing(&line, augment);
}
