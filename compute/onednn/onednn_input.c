/* The input step: uint8 pixels to numbers of the net's input in its layout. The tower's threads share the samples. */
#include "compute/onednn/onednn_plan.h"

#include "compute/mixing.h"
#include "compute/team.h"
#include "compute/vector.h"

ALWAYS_INLINE void divide(enum value_type type, const uint8_t *restrict pixels, float divisor, void *restrict values,
                          size_t count)
{
    for (size_t i = 0; i < count; i++)
        value_write(type, values, i, (float)pixels[i] / divisor);
}

VECTOR_LOOPS
static void divide_any(enum value_type type, const uint8_t *pixels, float divisor, void *values, size_t count)
{
    FOR_TYPE(type, divide, pixels, divisor, values, count);
}

/* NHWC pixels, each channel with its own mean and deviation. */
ALWAYS_INLINE void transform(enum value_type type, const struct input_transform *how, size_t channels,
                             const uint8_t *restrict pixels, void *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i += channels)
        for (size_t c = 0; c < channels; c++)
            value_write(type, values, i + c, ((float)pixels[i + c] / how->divisor - how->mean[c]) / how->std[c]);
}

VECTOR_LOOPS
static void transform_any(enum value_type type, const struct input_transform *how, size_t channels,
                          const uint8_t *pixels, void *values, size_t count)
{
    FOR_TYPE(type, transform, how, channels, pixels, values, count);
}

/* Channel by channel into a blocked layout; padding channels become 0. */
static void transform_blocked(enum value_type type, const struct input_transform *how,
                              const struct tensor_layout *tensor, const uint8_t *restrict pixels, void *restrict values)
{
    const size_t channels = tensor->shape.channels, pixel_count = tensor_pixels(tensor);
    for (size_t c = 0; c < tensor_blocks(tensor) * tensor->block; c++) {
        const float mean = how->is_plain || c >= channels ? 0.0f : how->mean[c];
        const float std = how->is_plain || c >= channels ? 1.0f : how->std[c];
        const size_t at = tensor_at(tensor, c, 0);
        for (size_t p = 0; p < pixel_count; p++)
            value_write(type, values, at + p * tensor->block,
                        c < channels ? ((float)pixels[p * channels + c] / how->divisor - mean) / std : 0.0f);
    }
}

/* ---- mixed samples ---- */

/* Pixels [left, right) of a row of one channel; they are written from the first value on. */
struct mixed_row {
    struct mix mix;
    const uint8_t *own, *other;         /* the channel of this row in both samples */
    uint32_t y, left, right;
    size_t channels, step;              /* distance between adjacent pixels: in the samples, in the values */
    float divisor, mean, std;
};

ALWAYS_INLINE void mix_row(enum value_type type, const struct mixed_row *row, void *restrict values)
{
    for (uint32_t x = row->left; x < row->right; x++) {
        const float pixel = mixing_pixel(&row->mix, row->own[x * row->channels], row->other[x * row->channels],
                                         row->y, x);
        value_write(type, values, (x - row->left) * row->step, (pixel / row->divisor - row->mean) / row->std);
    }
}

VECTOR_LOOPS
static void mix_row_any(enum value_type type, const struct mixed_row *row, void *values)
{
    FOR_TYPE(type, mix_row, row, values);
}

/* Overwrites the mixed part of a sample that is converted already: all of it (Mixup) or a box (CutMix). */
static void mix_sample(enum value_type type, const struct input_transform *how, const struct tensor_layout *tensor,
                       const struct mix *mix, const uint8_t *own, const uint8_t *other, void *values)
{
    const bool has_box = mix->top < mix->bottom;
    const uint32_t channels = tensor->shape.channels, width = tensor->shape.width;
    const uint32_t top = has_box ? mix->top : 0, bottom = has_box ? mix->bottom : tensor->shape.height;
    struct mixed_row row = { .mix = *mix, .left = has_box ? mix->left : 0, .right = has_box ? mix->right : width,
                             .channels = channels, .step = tensor_step(tensor), .divisor = how->divisor };
    for (uint32_t c = 0; c < channels; c++) {
        row.mean = how->is_plain ? 0.0f : how->mean[c];
        row.std = how->is_plain ? 1.0f : how->std[c];
        for (row.y = top; row.y < bottom; row.y++) {
            const size_t first = (size_t)row.y * width;
            row.own = own + first * channels + c;
            row.other = other + first * channels + c;
            mix_row_any(type, &row, value_at(type, values, tensor_at(tensor, c, first + row.left)));
        }
    }
}

static void mix_samples(const struct plan *plan, const struct backend_input *input, size_t first, size_t end)
{
    const struct tensor_layout *const tensor = &plan->tensors[0];
    const enum value_type type = plan_type(plan);
    const size_t bytes = shape_count(tensor->shape);
    for (size_t i = first; i < end; i++) {
        const uint32_t partner = mixing_partner((uint32_t)i, plan->base.count);
        const struct mix mix = mixing_find(input->mixes, input->labels, (uint32_t)i, plan->base.count);
        if (mix.share < 1)
            mix_sample(type, &plan->base.net->transform, tensor, &mix, input->pixels + i * bytes,
                       input->pixels + partner * bytes, value_at(type, plan_value(plan, 0), i * tensor_count(tensor)));
    }
}

/* ---- a batch ---- */

struct convert_work {
    const struct plan *plan;
    const struct backend_input *input;
};

static void convert_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct convert_work *const work = arg;
    const struct input_transform *const how = &work->plan->base.net->transform;
    const struct tensor_layout *const tensor = &work->plan->tensors[0];
    const enum value_type type = plan_type(work->plan);
    const size_t bytes = shape_count(tensor->shape), count = tensor_count(tensor);
    const uint8_t *const pixels = work->input->pixels + first * bytes;
    void *const values = value_at(type, plan_value(work->plan, 0), first * count);
    (void)member;
    if (tensor->block == tensor->shape.channels && how->is_plain)
        divide_any(type, pixels, how->divisor, values, (end - first) * bytes);
    else if (tensor->block == tensor->shape.channels)
        transform_any(type, how, tensor->shape.channels, pixels, values, (end - first) * bytes);
    for (size_t i = 0; i < end - first && tensor->block != tensor->shape.channels; i++)
        transform_blocked(type, how, tensor, pixels + i * bytes, value_at(type, values, i * count));
    if (work->input->mixes != NULL)
        mix_samples(work->plan, work->input, first, end);
}

void input_convert(const struct plan *plan, const struct backend_input *input)
{
    struct convert_work work = { plan, input };
    plan_run(plan, plan->base.count, 1, convert_samples, &work);
}
