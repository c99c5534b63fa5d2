/* Tables about models. */
#include "tools/describe.h"

#include <inttypes.h>
#include <string.h>

#include "compute/model.h"
#include "compute/tower.h"
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

/* One row of the table, and how wide its columns are. */
struct row {
    const char *name, *kind;
    char detail[112], shape[40];
    struct number parameters, macs;
};

struct widths { int name, kind, detail, shape, parameters, macs; };

static struct row describe_row(const struct net *net, uint32_t index)
{
    const struct layer *const layer = &net->layers[index];
    struct row row = { .name = layer->name,
                       .kind = kind_names[layer->kind],
                       .parameters = number_grouped(layer_parameters(net, index)),
                       .macs = number_grouped(layer->macs) };
    describe_detail(net, index, row.detail, sizeof(row.detail));
    describe_shape(layer->out, row.shape, sizeof(row.shape));
    return row;
}

static int wider(int width, const char *text)
{
    const int length = (int)strlen(text);
    return length > width ? length : width;
}

static struct widths find_widths(const struct net *net)
{
    struct widths widths = { .name = 5, .shape = 9, .parameters = 10, .macs = 4 };
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct row row = describe_row(net, i);
        widths.name = wider(widths.name, row.name);
        widths.kind = wider(widths.kind, row.kind);
        widths.detail = wider(widths.detail, row.detail);
        widths.shape = wider(widths.shape, row.shape);
        widths.parameters = wider(widths.parameters, row.parameters.text);
        widths.macs = wider(widths.macs, row.macs.text);
    }
    return widths;
}

static void print_row(const struct row *row, const struct widths *widths, FILE *out)
{
    fprintf(out, "%-*s  %-*s  %-*s  %-*s  %*s  %*s\n", widths->name, row->name, widths->kind, row->kind,
            widths->detail, row->detail, widths->shape, row->shape, widths->parameters, row->parameters.text,
            widths->macs, row->macs.text);
}

static void print_layers(const struct net *net, FILE *out)
{
    const struct row head = { .name = "layer", .kind = "kind", .shape = "out CxHxW",
                              .parameters = { "parameters" }, .macs = { "MACs" } };
    const struct widths widths = find_widths(net);
    print_row(&head, &widths, out);
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct row row = describe_row(net, i);
        print_row(&row, &widths, out);
    }
}

/* Bytes that the reference needs for values and gradients: planned, not taken. */
static int plan_values(const struct net *net, uint32_t batch, struct device *device, size_t *bytes_out)
{
    struct tower_spec spec = { .net = net, .device = device, .backend = &backend_reference_ops,
                               .backend_spec = { .threads = 1, .slice_max = batch }, .train_counts = { batch } };
    struct tower *tower = NULL;
    int rc = device->ops->stream_open(device, STREAM_COMPUTE, "compute", &spec.compute);
    if (rc != 0)
        return rc;
    rc = tower_open(&tower, &spec);
    if (rc == 0)
        *bytes_out = tower_needs(tower).backend.values;
    tower_close(tower);
    device->ops->stream_close(spec.compute);
    return rc;
}

static int find_values(const struct net *net, uint32_t batch, size_t *bytes_out)
{
    const struct device_spec spec = { .name = "cpu0" };
    struct device *device;
    int rc = device_host_ops.open(&device, &spec);
    if (rc != 0)
        return rc;
    rc = plan_values(net, batch, device, bytes_out);
    device->ops->close(device);
    return rc;
}

int describe_net(const struct net *net, uint32_t batch, FILE *out)
{
    size_t values;
    const int rc = find_values(net, batch, &values);
    if (rc != 0)
        return rc;
    fprintf(out, "%s: image %ux%ux%u, %u classes\n\n", net->model, net->input.height, net->input.width,
            net->input.channels, net->classes);
    print_layers(net, out);
    fprintf(out, "\nparameters   %s (%s)\n", number_grouped(net->trainable_count).text,
            number_bytes(net->trainable_count * sizeof(float)).text);
    fprintf(out, "MACs         %s an image, forward\n", number_grouped(net->macs).text);
    fprintf(out, "activations  %s at most, with gradients, training at batch %u\n",
            number_bytes(values).text, batch);
    return 0;
}
