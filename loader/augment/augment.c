/* Which part of an image becomes the sample, and a description of the augmentation. Called by decoders for every
 * record. */
#include "loader/augment/augment.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "loader/augment/draw.h"
#include "loader/shards/text.h"

#define RESIZED_TRIES 10u
static const struct augment_range usual_area = { 0.08, 1 }, usual_aspect = { 3.0 / 4.0, 4.0 / 3.0 };

/* tf_cnn_benchmarks requires an area of at least 0.05 and at least a tenth of the object, which here is the whole
 * image. */
#define BOX_TRIES 100u
#define BOX_AREA_ASKED 0.05
#define BOX_AREA_SEEN 0.1
#define BOX_ASPECT_MIN 0.75
#define BOX_ASPECT_MAX 1.33

/* An image to be cropped. */
struct crop_job {
    const struct augment *augment;
    const struct image_request *request;
    uint32_t height, width;
};

static struct augment_view view_whole(const struct crop_job *job)
{
    return (struct augment_view){ .width = job->width, .height = job->height, .filter = job->augment->filter };
}

static struct augment_view view_part(const struct crop_job *job, double top, double left, double height, double width)
{
    return (struct augment_view){ .left = left, .top = top, .width = width, .height = height,
                                  .filter = job->augment->filter };
}

/* ---- central crops ---- */

struct interval { double from, length; };

/* The part of an axis that becomes the middle `wanted` pixels when the axis is scaled to `scaled` pixels. */
static struct interval find_middle(uint32_t image, double scaled, uint32_t wanted)
{
    const double pixel = image / scaled;
    return (struct interval){ .from = floor((scaled - wanted) / 2) * pixel, .length = wanted * pixel };
}

/* One axis of an image that is resized as a whole: where the middle `wanted` pixels begin in the result, and the pixels
 * of the image that they depend on. The widest filter reaches two output pixels to each side. */
struct resized_axis { double step, first, from, length; };

static struct resized_axis resize_axis(uint32_t image, double resized, uint32_t wanted)
{
    const double step = image / resized, reach = 2 * fmax(step, 1) + 1;
    const double first = nearbyint((resized - wanted) / 2);     /* round half to even, as Python's round */
    const double from = fmax(floor(first * step - reach), 0);
    const double end = fmin(ceil((first + wanted) * step + reach), image);
    return (struct resized_axis){ step, first, from, end - from };
}

/* torchvision's Resize(resize) and CenterCrop; the longer side is rounded down. */
static struct augment_view view_resized_whole(const struct crop_job *job)
{
    const struct image_shape *const wanted = &job->request->shape;
    const uint32_t shorter = job->height < job->width ? job->height : job->width;
    const double side = job->augment->resize;
    const struct resized_axis y = resize_axis(job->height, floor(side * job->height / shorter), wanted->height);
    const struct resized_axis x = resize_axis(job->width, floor(side * job->width / shorter), wanted->width);
    struct augment_view view = view_part(job, y.from, x.from, y.length, x.length);
    view.resize = (struct augment_resize){ y.step, x.step, y.first, x.first };
    return view;
}

/* Scale the image, keeping its aspect ratio, until it is `scale` times as large as the smallest size that covers the
 * sample, and crop the middle. Sizes are rounded down. */
static struct augment_view view_central(const struct crop_job *job)
{
    const struct image_shape *const wanted = &job->request->shape;
    if (job->augment->resize > 0)
        return view_resized_whole(job);
    const double factor = job->augment->scale *
                          fmax((double)wanted->height / job->height, (double)wanted->width / job->width);
    const double height = fmax(wanted->height, floor(job->height * factor));
    const double width = fmax(wanted->width, floor(job->width * factor));
    const struct interval y = find_middle(job->height, height, wanted->height);
    const struct interval x = find_middle(job->width, width, wanted->width);
    return view_part(job, y.from, x.from, y.length, x.length);
}

/* ---- random crops of whole pixels ---- */

struct part { double height, width; };

/* Choose the position of a crop of whole pixels that fits into the image by the last two random words. */
static struct augment_view place_part(const struct crop_job *job, const struct draw *draw, const struct part *part)
{
    const uint32_t top = draw_below(draw->word[2], job->height - (uint32_t)part->height + 1);
    const uint32_t left = draw_below(draw->word[3], job->width - (uint32_t)part->width + 1);
    return view_part(job, top, left, part->height, part->width);
}

static bool part_fits(const struct crop_job *job, const struct part *part)
{
    return part->height >= 1 && part->width >= 1 && part->height <= job->height && part->width <= job->width;
}

static struct augment_range resized_area(const struct augment *augment)
{
    return augment->area.high > 0 ? augment->area : usual_area;
}

static struct augment_range resized_aspect(const struct augment *augment)
{
    return augment->aspect.high > 0 ? augment->aspect : usual_aspect;
}

/* Draw a uniform area and an aspect ratio with uniform logarithm. */
static struct part draw_resized(const struct crop_job *job, const struct draw *draw)
{
    const struct augment_range areas = resized_area(job->augment), aspects = resized_aspect(job->augment);
    const double area = (double)job->height * job->width * draw_uniform(draw->word[0], areas.low, areas.high);
    const double aspect = exp(draw_uniform(draw->word[1], log(aspects.low), log(aspects.high)));
    return (struct part){ .height = nearbyint(sqrt(area / aspect)), .width = nearbyint(sqrt(area * aspect)) };
}

/* The largest central crop with an allowed aspect ratio. */
static struct augment_view view_allowed_aspect(const struct crop_job *job)
{
    const struct augment_range aspects = resized_aspect(job->augment);
    const double height = fmin(job->height, fmax(1, nearbyint(job->width / aspects.low)));
    const double width = fmin(job->width, fmax(1, nearbyint(job->height * aspects.high)));
    return view_part(job, floor((job->height - height) / 2), floor((job->width - width) / 2), height, width);
}

static struct augment_view view_resized(const struct crop_job *job)
{
    for (uint32_t i = 0; i < RESIZED_TRIES; i++) {
        const struct draw draw = draw_make(job->augment, job->request, DRAW_CROP + i);
        const struct part part = draw_resized(job, &draw);
        if (part_fits(job, &part))
            return place_part(job, &draw, &part);
    }
    return view_allowed_aspect(job);
}

static struct part part_of_height(double height, double aspect)
{
    return (struct part){ .height = height, .width = nearbyint(height * aspect) };
}

/* The greatest height of a crop with this aspect ratio in the image. */
static double box_height_most(const struct crop_job *job, double aspect)
{
    double height = nearbyint(sqrt((double)job->height * job->width / aspect));
    if (nearbyint(height * aspect) > job->width)
        height = floor((job->width + 0.5) / aspect);
    if (nearbyint(height * aspect) > job->width)
        height--;
    return fmin(height, job->height);
}

/* Draw a uniform aspect ratio, then a uniform height among those possible with it. If rounding makes the crop too small
 * or too large, its height is changed by a pixel. */
static struct part draw_box(const struct crop_job *job, const struct draw *draw)
{
    const double area = (double)job->height * job->width;
    const double aspect = draw_uniform(draw->word[0], BOX_ASPECT_MIN, BOX_ASPECT_MAX);
    const double most = box_height_most(job, aspect);
    const double least = fmin(most, nearbyint(sqrt(BOX_AREA_ASKED * area / aspect)));
    const double height = least + draw_below(draw->word[1], (uint32_t)(most - least) + 1);
    struct part part = part_of_height(height, aspect);
    if (part.height * part.width < BOX_AREA_ASKED * area)
        part = part_of_height(part.height + 1, aspect);
    if (part.height * part.width > area)
        part = part_of_height(part.height - 1, aspect);
    return part;
}

static struct augment_view view_box(const struct crop_job *job)
{
    const double area_least = BOX_AREA_SEEN * job->height * job->width;
    for (uint32_t i = 0; i < BOX_TRIES; i++) {
        const struct draw draw = draw_make(job->augment, job->request, DRAW_CROP + i);
        const struct part part = draw_box(job, &draw);
        if (part_fits(job, &part) && part.height * part.width >= area_least)
            return place_part(job, &draw, &part);
    }
    return view_whole(job);
}

/* ---- shifts of the whole image ---- */

/* Draw the shift of an axis of `image` pixels, for a sample of `wanted` pixels; in pixels of the image. */
static double draw_padding(uint32_t word, uint32_t pad, uint32_t image, uint32_t wanted)
{
    const uint32_t reach = pad < wanted ? pad : wanted - 1;
    return ((double)draw_below(word, 2 * reach + 1) - reach) * image / wanted;
}

static struct augment_view view_padded(const struct crop_job *job)
{
    const struct image_shape *const wanted = &job->request->shape;
    const struct draw draw = draw_make(job->augment, job->request, DRAW_CROP);
    struct augment_view view = view_whole(job);
    view.top = draw_padding(draw.word[0], job->augment->pad, job->height, wanted->height);
    view.left = draw_padding(draw.word[1], job->augment->pad, job->width, wanted->width);
    view.beyond = BEYOND_ZERO;
    return view;
}

/* Images of the sample's size take the nearest pixels, as interpolation would blur them. */
static struct augment_view view_shifted(const struct crop_job *job)
{
    const struct image_shape *const wanted = &job->request->shape;
    const double most = job->augment->shift;
    const struct draw draw = draw_make(job->augment, job->request, DRAW_CROP);
    struct augment_view view = view_whole(job);
    view.top = draw_uniform(draw.word[0], -most, most) * job->height;
    view.left = draw_uniform(draw.word[1], -most, most) * job->width;
    view.beyond = BEYOND_EDGE;
    if (job->height == wanted->height && job->width == wanted->width)
        view.filter = FILTER_NEAREST;
    return view;
}

static struct augment_view crop_view(enum crop crop, const struct crop_job *job)
{
    static struct augment_view (*const rules[CROP_COUNT])(const struct crop_job *) = {
        [CROP_NONE] = view_whole,
        [CROP_CENTRAL] = view_central,
        [CROP_RESIZED] = view_resized,
        [CROP_BOX] = view_box,
        [CROP_PAD] = view_padded,
        [CROP_SHIFT] = view_shifted,
    };
    assert(rules[crop] != NULL);
    return rules[crop](job);
}

/* ---- choosing a crop ---- */

/* The crops that CROP_AUTO uses for images that do not have the sample's size. */
static const enum crop fitting[PHASE_COUNT] = { [PHASE_TRAIN] = CROP_RESIZED, [PHASE_EVALUATE] = CROP_CENTRAL };

/* The phase whose crop is used for the images of this phase. */
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

/* ---- description ---- */

static void add_resized(struct text *text, const struct augment *augment)
{
    const struct augment_range area = resized_area(augment), aspect = resized_aspect(augment);
    text_add(text, "random resized crop (area %g to %g, aspect ", area.low, area.high);
    if (aspect.low == usual_aspect.low && aspect.high == usual_aspect.high)
        text_add(text, "3/4 to 4/3)");
    else
        text_add(text, "%g to %g)", aspect.low, aspect.high);
}

static void add_crop(struct text *text, const struct augment *augment, enum crop crop)
{
    switch (crop) {
    case CROP_CENTRAL:
        if (augment->resize > 0)
            text_add(text, "shorter side resized to %u pixels, central crop", augment->resize);
        else
            text_add(text, "scaled to %g x the input's size, central crop", augment->scale);
        break;
    case CROP_RESIZED:
        add_resized(text, augment);
        break;
    case CROP_BOX:
        text_add(text, "random crop (area 0.1 to 1, aspect 0.75 to 1.33)");
        break;
    case CROP_PAD:
        text_add(text, "random crop with %u pixel%s of zero padding", augment->pad, augment->pad == 1 ? "" : "s");
        break;
    case CROP_SHIFT:
        text_add(text, "random shift by up to %g of each side", augment->shift);
        break;
    default:
        assert(crop == CROP_NONE);
        text_add(text, "the whole image");
    }
}

static void add_policy(struct text *text, const struct augment *augment)
{
    static const char *const names[POLICY_COUNT] = { [POLICY_TRIVIAL_AUGMENT_WIDE] = "TrivialAugmentWide",
                                                     [POLICY_RAND_AUGMENT] = "RandAugment",
                                                     [POLICY_AUTO_AUGMENT] = "AutoAugment (ImageNet policy)" };
    if (augment->policy != POLICY_NONE)
        text_add(text, ", %s", names[augment->policy]);
    if (augment->policy == POLICY_RAND_AUGMENT)
        text_add(text, " (%u operation%s of magnitude %u)", augment->policy_operations,
                 augment->policy_operations == 1 ? "" : "s", augment->policy_magnitude);
}

static void add_mixing(struct text *text, const struct augment *augment)
{
    if (augment->mixup == 0 && augment->cutmix == 0)
        return;
    text_add(text, augment->mixed < 1 ? ", %g %% of images mixed by " : ", mixed by ", 100 * augment->mixed);
    if (augment->mixup > 0)
        text_add(text, "mixup %g%s", augment->mixup, augment->cutmix > 0 ? " or " : "");
    if (augment->cutmix > 0)
        text_add(text, "CutMix %g", augment->cutmix);
}

/* What happens to a training image after it was cropped and scaled. */
static void add_changes(struct text *text, const struct augment *augment)
{
    if (augment->flips)
        text_add(text, ", random horizontal flip");
    if (augment->flips_vertically)
        text_add(text, ", random vertical flip");
    if (augment->rotation > 0)
        text_add(text, ", rotated by up to %g degrees", augment->rotation);
    add_policy(text, augment);
    if (augment->changes_colour)
        text_add(text, ", colour jitter");
    if (augment->erase > 0)
        text_add(text, ", random erasing of %g %%", 100 * augment->erase);
    add_mixing(text, augment);
}

void augment_describe(const struct augment *augment, enum phase phase, char *text, size_t text_size)
{
    static const char *const filters[FILTER_COUNT] = { [FILTER_BILINEAR] = "bilinear", [FILTER_AREA] = "area",
                                                       [FILTER_BICUBIC] = "bicubic", [FILTER_NEAREST] = "nearest" };
    const enum phase rule = rule_of(augment, phase);
    const enum crop crop = augment->crop[rule];
    struct text line;
    text_init(&line, text, text_size);
    if (augment->orientation == ORIENTATION_EXIF)
        text_add(&line, "upright by EXIF orientation, ");
    if (crop == CROP_AUTO)
        text_add(&line, "unchanged if it has the input's size, else ");
    add_crop(&line, augment, crop == CROP_AUTO ? fitting[rule] : crop);
    text_add(&line, ", %s", filters[augment->filter]);
    if (phase == PHASE_TRAIN)
        add_changes(&line, augment);
}
