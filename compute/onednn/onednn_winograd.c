/* Which convolutions are computed by Winograd's algorithm F(4 x 4, 3 x 3): tiles of 4 x 4 results from 6 x 6 inputs
 * by 36 multiplications for each pair of channels instead of 144 (Lavin and Gray 2016, "Fast Algorithms for
 * Convolutional Neural Networks"). Decided by counting, never by timing, so that all towers decide alike. */
#include "compute/onednn/onednn_plan.h"

enum { TILE = 4, TILE_PRODUCTS = 36, VECTOR = 16 };

/* Bringing a number to where tiles are multiplied, or back, takes as long as about so many multiplications: 0.4 ns
 * of a core that does 57 in a nanosecond (Zen 4, oneDNN 2.6), and 0.6 ns for a weight. */
#define VALUE_COST 24.0
#define WEIGHT_COST 34.0
#define LEAST_GAIN 1.1

static double whole_vectors(uint32_t channels)
{
    return (double)((channels + VECTOR - 1) / VECTOR * VECTOR);
}

/* oneDNN 2.6's gradient of the input is wrong where there is a row of padding above and none below, or the other way
 * round. */
static bool has_shape(const struct layer *layer)
{
    return layer->kind == LAYER_CONV2D && layer->kernel_h == 3 && layer->kernel_w == 3 && layer->stride_h == 1 &&
           layer->stride_w == 1 && layer->pad_top == layer->pad_bottom;
}

/* Places of windows that lie in the image, along one side: what is around it is not multiplied. */
static double places(uint32_t out, uint32_t before, uint32_t after)
{
    return 3.0 * out - before - after;
}

static double direct_cost(const struct layer *layer, uint32_t count)
{
    return count * places(layer->out.height, layer->pad_top, layer->pad_bottom) *
           places(layer->out.width, layer->pad_left, layer->pad_right) * layer->in.channels *
           whole_vectors(layer->out.channels);
}

static double winograd_cost(const struct layer *layer, uint32_t count)
{
    const double in = whole_vectors(layer->in.channels), out = whole_vectors(layer->out.channels);
    const double tiles = (double)count * ((layer->out.height + TILE - 1) / TILE) *
                         ((layer->out.width + TILE - 1) / TILE);
    return TILE_PRODUCTS * (tiles * in * out + VALUE_COST * tiles * (in + out) + WEIGHT_COST * in * out);
}

/* Bringing many channels for one vector of results takes about as long as computing these directly: 28 to 148
 * channels to 12 take 0.9 to 1.7 times as long (Zen 5, 64 images of 32 x 32). */
static bool has_few_results(const struct layer *layer)
{
    return layer->out.channels <= VECTOR;
}

size_t winograd_room(const struct backend *backend, const struct layer *layer, uint32_t count, double *saved_out)
{
    if (!has_shape(layer) || backend->type != VALUE_FP32 || backend->spec.convolution == CONVOLUTION_DIRECT)
        return 0;
    const bool is_asked = backend->spec.convolution == CONVOLUTION_WINOGRAD;
    if (has_few_results(layer) && !is_asked)
        return 0;
    const double direct = direct_cost(layer, count), winograd = is_asked ? 0 : winograd_cost(layer, count);
    if (saved_out != NULL)
        *saved_out = direct - winograd;
    return direct > winograd * LEAST_GAIN ? backend_workspace(&backend->spec) : 0;
}

/* The scratch memory that the kernels of these directions take; SIZE_MAX where there is none. */
static size_t scratch_bytes(const struct backend *backend, const struct layer *layer, const struct weighted_mds *mds,
                            bool with_data)
{
    size_t most = 0;
    for (int i = NN_FORWARD; i <= (with_data ? NN_BACKWARD_DATA : NN_FORWARD); i++) {
        const struct weighted_how how = { .direction = (enum nn_direction)i, .winograd = SIZE_MAX, .training = true };
        struct nn_op op;
        weighted_op(&op, layer, mds, how);
        const size_t bytes = pd_winograd_bytes(backend->engine, &op);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint32_t winograd_samples(const struct backend *backend, const struct layer *layer, const struct tensor_layout *in,
                          const struct tensor_layout *out, uint32_t count, bool with_data)
{
    for (uint32_t samples = count;; samples = (samples + 1) / 2) {
        const size_t room = winograd_room(backend, layer, samples, NULL);
        struct weighted_mds mds;
        if (room == 0 || conv_mds_open(&mds, layer, in, out, samples, VALUE_FP32) != 0)
            return 0;
        const size_t bytes = scratch_bytes(backend, layer, &mds, with_data);
        weighted_mds_close(&mds);
        if (bytes <= room)
            return samples;
        if (bytes == SIZE_MAX || samples == 1)
            return 0;
    }
}
