/* Tables about models. */
#include "tools/describe.h"

#include <inttypes.h>

#include "compute/model.h"
#include "tools/config/number.h"

static const char *const kind_names[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = "conv2d",
    [LAYER_DENSE] = "dense",
    [LAYER_BATCH_NORM] = "batch_norm",
    [LAYER_RELU] = "relu",
    [LAYER_MAX_POOL] = "max_pool",
    [LAYER_AVERAGE_POOL] = "average_pool",
    [LAYER_DROPOUT] = "dropout",
    [LAYER_ADD] = "add",
    [LAYER_PAD_CHANNELS] = "pad_channels",
    [LAYER_SOFTMAX_LOSS] = "softmax_loss",
};

void describe_models(FILE *out)
{
    for (const struct model *model = model_table; model->name != NULL; model++)
        fprintf(out, "%-12s %s\n", model->name, model->summary);
}

/* Numbers that are trained. */
static uint64_t layer_parameters(const struct net *net, uint32_t layer)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].layer == layer && net->parameters[i].is_trained)
            count += net->parameters[i].count;
    return count;
}

static void describe_window(const struct layer *layer, char *text, size_t text_size)
{
    const int used = snprintf(text, text_size, "%ux%u/%u", layer->kernel_h, layer->kernel_w, layer->stride_h);
    if (layer->pad_top + layer->pad_bottom + layer->pad_left + layer->pad_right > 0)
        snprintf(text + used, text_size - (size_t)used, " pad %u,%u,%u,%u", layer->pad_top, layer->pad_bottom,
                 layer->pad_left, layer->pad_right);
}

static const char *input_name(const struct net *net, uint32_t input)
{
    return input == NET_INPUT ? "the image" : net->layers[input].name;
}

/* What it reads, where that is not the layer before. */
static void describe_inputs(const struct net *net, uint32_t index, char *text, size_t text_size)
{
    const struct layer *const layer = &net->layers[index];
    const uint32_t before = index == 0 ? NET_INPUT : index - 1;
    if (layer->input_count == 2)
        snprintf(text, text_size, "%s + %s", input_name(net, layer->inputs[0]), input_name(net, layer->inputs[1]));
    else if (layer->inputs[0] != before)
        snprintf(text, text_size, "of %s", input_name(net, layer->inputs[0]));
}

static void describe_detail(const struct net *net, uint32_t index, char *text, size_t text_size)
{
    const struct layer *const layer = &net->layers[index];
    text[0] = '\0';
    describe_inputs(net, index, text, text_size);
    if (layer->kernel_h > 0)
        describe_window(layer, text, text_size);
    else if (layer->kind == LAYER_DROPOUT)
        snprintf(text, text_size, "rate %g", (double)layer->rate);
}

static void describe_shape(struct shape shape, char *text, size_t text_size)
{
    if (shape.height == 1 && shape.width == 1)
        snprintf(text, text_size, "%u", shape.channels);
    else
        snprintf(text, text_size, "%ux%ux%u", shape.channels, shape.height, shape.width);
}

void describe_net(const struct net *net, uint32_t batch, FILE *out)
{
    fprintf(out, "%s: image %ux%ux%u, %u classes\n\n", net->model, net->input.height, net->input.width,
            net->input.channels, net->classes);
    fprintf(out, "%-10s %-13s %-24s %-14s %12s %14s\n", "layer", "kind", "", "output (CxHxW)", "parameters", "MACs");
    uint64_t activations = 0;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        char detail[112], shape[40];
        describe_detail(net, i, detail, sizeof(detail));
        describe_shape(layer->out, shape, sizeof(shape));
        fprintf(out, "%-10s %-13s %-24s %-14s %12s %14s\n", layer->name, kind_names[layer->kind], detail, shape,
                number_grouped(layer_parameters(net, i)).text, number_grouped(layer->macs).text);
        activations += shape_count(layer->out);
    }
    fprintf(out, "\nparameters   %s (%s)\n", number_grouped(net->trainable_count).text,
            number_bytes(net->trainable_count * sizeof(float)).text);
    fprintf(out, "MACs         %s an image, forward\n", number_grouped(net->macs).text);
    fprintf(out, "activations  %s at batch %u, gradients the same\n",
            number_bytes(activations * batch * sizeof(float)).text, batch);
}
