/* The input step: uint8 pixels to numbers of the net's input in its layout. The tower's threads share the samples. */
#include "compute/onednn/onednn_plan.h"

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

/* Pixels of `channels` channels, each with its own mean and deviation. */
ALWAYS_INLINE void transform(enum value_type type, const struct input_transform *how, size_t channels,
                             const uint8_t *restrict pixels, void *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i += channels)
        for (size_t c = 0; c < channels; c++)
            value_write(type, values, i + c, ((float)pixels[i + c] / how->divisor - how->mean[c]) / how->deviation[c]);
}

VECTOR_LOOPS
static void transform_any(enum value_type type, const struct input_transform *how, size_t channels,
                          const uint8_t *pixels, void *values, size_t count)
{
    FOR_TYPE(type, transform, how, channels, pixels, values, count);
}

/* Channel by channel, with zeros in the channels that only fill a block. */
static void transform_blocked(enum value_type type, const struct input_transform *how, const struct edge *edge,
                              const uint8_t *restrict pixels, void *restrict values)
{
    const size_t channels = edge->shape.channels, pixel_count = edge_pixels(edge);
    for (size_t c = 0; c < edge_blocks(edge) * edge->block; c++) {
        const float mean = how->is_plain || c >= channels ? 0.0f : how->mean[c];
        const float deviation = how->is_plain || c >= channels ? 1.0f : how->deviation[c];
        const size_t at = edge_at(edge, c, 0);
        for (size_t p = 0; p < pixel_count; p++)
            value_write(type, values, at + p * edge->block,
                        c < channels ? ((float)pixels[p * channels + c] / how->divisor - mean) / deviation : 0.0f);
    }
}

struct convert_work {
    const struct plan *plan;
    const uint8_t *pixels;
};

static void convert_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct convert_work *const work = arg;
    const struct input_transform *const how = &work->plan->base.net->transform;
    const struct edge *const edge = &work->plan->edges[0];
    const enum value_type type = plan_type(work->plan);
    const size_t bytes = shape_count(edge->shape), count = edge_count(edge);
    const uint8_t *const pixels = work->pixels + first * bytes;
    void *const values = value_at(type, plan_value(work->plan, 0), first * count);
    (void)member;
    if (edge->block == edge->shape.channels && how->is_plain)
        divide_any(type, pixels, how->divisor, values, (end - first) * bytes);
    else if (edge->block == edge->shape.channels)
        transform_any(type, how, edge->shape.channels, pixels, values, (end - first) * bytes);
    for (size_t i = 0; i < end - first && edge->block != edge->shape.channels; i++)
        transform_blocked(type, how, edge, pixels + i * bytes, value_at(type, values, i * count));
}

void input_convert(const struct plan *plan, const uint8_t *pixels)
{
    struct convert_work work = { plan, pixels };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, convert_samples, &work);
}
