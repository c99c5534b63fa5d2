/* Which part of an image is taken: a function for every rule. Called by decoders for every record. */
#include "loader/augment/crop.h"

#include <assert.h>
#include <math.h>

#include "loader/augment/draw.h"

#define RESIZED_TRIES 10u
#define RESIZED_AREA_LEAST 0.08
#define RESIZED_ASPECT_LEAST (3.0 / 4.0)
#define RESIZED_ASPECT_MOST (4.0 / 3.0)

/* An area of 0.05 is asked for, but a tenth of the object, which is the whole image here, has to be seen. */
#define BOX_TRIES 100u
#define BOX_AREA_ASKED 0.05
#define BOX_AREA_SEEN 0.1
#define BOX_ASPECT_LEAST 0.75
#define BOX_ASPECT_MOST 1.33

static struct augment_view view_whole(const struct crop_job *job)
{
    return (struct augment_view){ .width = job->width, .height = job->height, .filter = job->augment->filter };
}

static struct augment_view view_part(const struct crop_job *job, double top, double left, double height, double width)
{
    return (struct augment_view){ .left = left, .top = top, .width = width, .height = height,
                                  .filter = job->augment->filter };
}

/* ---- the middle ---- */

/* Where the `wanted` pixels in the middle of an axis lie, once it is scaled to `scaled` pixels. */
struct stretch { double from, length; };

static struct stretch find_middle(uint32_t image, double scaled, uint32_t wanted)
{
    const double pixel = image / scaled;
    return (struct stretch){ .from = floor((scaled - wanted) / 2) * pixel, .length = wanted * pixel };
}

/* One axis of an image that is resized as a whole: the `wanted` pixels in the middle of the result, and the pixels of
 * the image they are made of. The widest filter reaches two pixels of the result to each side. */
struct resized_axis { double step, first, from, length; };

static struct resized_axis resize_axis(uint32_t image, double resized, uint32_t wanted)
{
    const double step = image / resized, reach = 2 * fmax(step, 1) + 1;
    const double first = nearbyint((resized - wanted) / 2);     /* halves to the even one, as Python's round */
    const double from = fmax(floor(first * step - reach), 0);
    const double end = fmin(ceil((first + wanted) * step + reach), image);
    return (struct resized_axis){ step, first, from, end - from };
}

/* torchvision's Resize(resize) and CenterCrop: the longer side is rounded down. */
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

/* The image is scaled so that both sides are `scale` times the sample's, one of them more where the aspects
 * differ, to whole pixels (rounded down). */
static struct augment_view view_central(const struct crop_job *job)
{
    const struct image_shape *const wanted = &job->request->shape;
    if (job->augment->resize > 0)
        return view_resized_whole(job);
    const double factor = job->augment->scale *
                          fmax((double)wanted->height / job->height, (double)wanted->width / job->width);
    const double height = fmax(wanted->height, floor(job->height * factor));
    const double width = fmax(wanted->width, floor(job->width * factor));
    const struct stretch y = find_middle(job->height, height, wanted->height);
    const struct stretch x = find_middle(job->width, width, wanted->width);
    return view_part(job, y.from, x.from, y.length, x.length);
}

/* ---- random parts of whole pixels ---- */

struct part { double height, width; };

/* A part where the last two words say; it has whole pixels and fits. */
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

/* An area and the logarithm of an aspect, both uniform. */
static struct part draw_resized(const struct crop_job *job, const struct draw *draw)
{
    const double area = (double)job->height * job->width * draw_uniform(draw->word[0], RESIZED_AREA_LEAST, 1);
    const double aspect =
        exp(draw_uniform(draw->word[1], log(RESIZED_ASPECT_LEAST), log(RESIZED_ASPECT_MOST)));
    return (struct part){ .height = nearbyint(sqrt(area / aspect)), .width = nearbyint(sqrt(area * aspect)) };
}

/* The middle, with an aspect that the parts may have. */
static struct augment_view view_allowed_aspect(const struct crop_job *job)
{
    const double height = fmin(job->height, nearbyint(job->width / RESIZED_ASPECT_LEAST));
    const double width = fmin(job->width, nearbyint(job->height * RESIZED_ASPECT_MOST));
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

/* The greatest height of a part of this aspect in the image. */
static double box_height_most(const struct crop_job *job, double aspect)
{
    double height = nearbyint(sqrt((double)job->height * job->width / aspect));
    if (nearbyint(height * aspect) > job->width)
        height = floor((job->width + 0.5) / aspect);
    if (nearbyint(height * aspect) > job->width)
        height--;
    return fmin(height, job->height);
}

/* A uniform aspect, and then one of the heights that a part of this aspect may have. What rounding made too small
 * or too large is put right by a pixel. */
static struct part draw_box(const struct crop_job *job, const struct draw *draw)
{
    const double area = (double)job->height * job->width;
    const double aspect = draw_uniform(draw->word[0], BOX_ASPECT_LEAST, BOX_ASPECT_MOST);
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

/* ---- the whole image, moved ---- */

/* How far an axis of `image` pixels is moved, in them, where its sample has `wanted` pixels. */
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

/* Images of the sample's size are not blurred by the way. */
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

struct augment_view crop_view(enum crop crop, const struct crop_job *job)
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
