/* A network becomes a text, a line a layer, and layers that repeat themselves the lines of a repeat. What holds without
 * being said is left out, where that is short. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_file.h"
#include "compute/netfile/net_fold.h"
#include "compute/netfile/net_form.h"
#include "compute/netfile/net_names.h"
#include "stage/text/decimal.h"
#include "stage/text/text_stream.h"

static void write_number(const char *word, float number, FILE *out)
{
    char text[DECIMAL_SIZE];
    decimal_write_float(number, text, sizeof(text));
    fprintf(out, "%s%s", word, text);
}

static void write_pair(const char *word, uint32_t height, uint32_t width, FILE *out)
{
    if (height == width)
        fprintf(out, " %s %u", word, height);
    else
        fprintf(out, " %s %ux%u", word, height, width);
}

/* ---- the header ---- */

/* What is the same in all channels is said once. */
static void write_channels(const char *word, const float *numbers, uint32_t channels, FILE *out)
{
    uint32_t count = 1;
    for (uint32_t c = 1; c < channels; c++)
        if (memcmp(&numbers[c], &numbers[0], sizeof(*numbers)) != 0)
            count = channels;
    for (uint32_t c = 0; c < count; c++)
        write_number(c == 0 ? word : ",", numbers[c], out);
}

static void write_header(const struct net *net, FILE *out)
{
    const struct shape image = net->input;
    const struct input_transform *const transform = &net->transform;
    fprintf(out, "model %s\nimage %ux%ux%u\nclasses %u\n", net->model, image.height, image.width, image.channels,
            net->classes);
    write_number("transform divisor ", transform->divisor, out);
    if (!transform->is_plain) {
        write_channels(" mean ", transform->mean, image.channels, out);
        write_channels(" deviation ", transform->std, image.channels, out);
    }
    fputs("\n\n", out);
}

/* ---- what kinds of layers say ---- */

static void write_window(const struct layer *layer, FILE *out)
{
    const uint32_t sides[] = { layer->pad_top, layer->pad_bottom, layer->pad_left, layer->pad_right };
    const bool is_padded = (sides[0] | sides[1] | sides[2] | sides[3]) != 0;
    write_pair("kernel", layer->kernel_h, layer->kernel_w, out);
    write_pair("stride", layer->stride_h, layer->stride_w, out);
    if (is_padded && layer_pads_same(layer))
        fputs(" padding same", out);
    else if (is_padded && sides[0] == sides[1] && sides[0] == sides[2] && sides[0] == sides[3])
        fprintf(out, " padding %u", sides[0]);
    else if (is_padded)
        fprintf(out, " padding %u,%u,%u,%u", sides[0], sides[1], sides[2], sides[3]);
}

static void write_bias(const struct layer *layer, FILE *out)
{
    if (!layer_has(layer, PARAMETER_BIAS))
        fputs(" no_bias", out);
}

static void write_conv2d(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    fprintf(out, " filters %u", layer->out.channels);
    write_window(layer, out);
    write_bias(layer, out);
}

/* Where as many units are wanted as there are classes, a loss reads them. */
static void write_dense(const struct net *net, const struct layer *layer, FILE *out)
{
    if (layer->out.channels == net->classes)
        fputs(" units classes", out);
    else
        fprintf(out, " units %u", layer->out.channels);
    write_bias(layer, out);
}

static void write_batch_norm(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    char decay[DECIMAL_SIZE];
    decimal_write(layer->decay, decay, sizeof(decay));
    fprintf(out, " decay %s", decay);
    write_number(" epsilon ", layer->epsilon, out);
    if (!layer_has(layer, PARAMETER_GAMMA))
        fputs(" no_gamma", out);
}

static void write_pool(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    write_window(layer, out);
}

static void write_dropout(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    write_number(" rate ", layer->rate, out);
}

static void write_response_norm(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    fprintf(out, " size %u", layer->response.size);
    write_number(" alpha ", layer->response.alpha, out);
    write_number(" beta ", layer->response.beta, out);
    write_number(" k ", layer->response.k, out);
}

static void write_pad_channels(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    fprintf(out, " channels %u stride %u", layer->out.channels, layer->stride_h);
}

static void write_auxiliary_loss(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    write_number(" weight ", layer->loss_weight, out);
}

/* Kinds without a row say nothing but their name and what they read. */
static void (*const writers[LAYER_KIND_COUNT])(const struct net *, const struct layer *, FILE *) = {
    [LAYER_CONV2D] = write_conv2d,
    [LAYER_DENSE] = write_dense,
    [LAYER_BATCH_NORM] = write_batch_norm,
    [LAYER_MAX_POOL] = write_pool,
    [LAYER_AVERAGE_POOL] = write_pool,
    [LAYER_DROPOUT] = write_dropout,
    [LAYER_LOCAL_RESPONSE_NORM] = write_response_norm,
    [LAYER_PAD_CHANNELS] = write_pad_channels,
    [LAYER_AUXILIARY_LOSS] = write_auxiliary_loss,
};

/* ---- what every layer says ---- */

static bool is_same(struct initializer a, struct initializer b)
{
    return a.kind == b.kind && memcmp(&a.value, &b.value, sizeof(a.value)) == 0;
}

/* The rule that makes what there is, or NULL. */
static const struct net_fan_rule *rule_of(const struct parameter *parameter)
{
    struct initializer made;
    for (uint32_t i = 0; i < NET_FAN_RULES; i++)
        if (net_fan_rule_use(&net_fan_rules[i], parameter, &made) && is_same(made, parameter->initializer))
            return &net_fan_rules[i];
    return NULL;
}

static void write_beginning(const struct parameter *parameter, FILE *out)
{
    const struct initializer how = parameter->initializer;
    if (is_same(how, initializer_default(parameter->kind)))
        return;
    const struct net_fan_rule *const rule = rule_of(parameter);
    fprintf(out, " init %s %s", net_parameter_words[parameter->kind],
            rule != NULL ? rule->word : net_initializer_words[how.kind]);
    if (rule == NULL && how.kind != INITIALIZER_GLOROT_UNIFORM)
        write_number(" ", how.value, out);
}

/* An average over the whole image stays one where the image changes. */
static bool is_global(const struct layer *layer)
{
    return layer->kind == LAYER_AVERAGE_POOL && layer->kernel_h == layer->in.height &&
           layer->kernel_w == layer->in.width && layer->stride_h == 1 && layer->stride_w == 1 &&
           (layer->pad_top | layer->pad_bottom | layer->pad_left | layer->pad_right) == 0;
}

/* What it reads stands between the two; both with their ends. */
static void write_layer(const struct net *net, uint32_t index, FILE *out)
{
    const struct layer *const layer = &net->layers[index];
    const size_t form = is_global(layer) ? NET_GLOBAL_AVERAGE : (size_t)layer->kind;
    fprintf(out, "%s %s", net_form_name(&net_forms[form]), layer->name);
    fputc('\0', out);
    if (form != NET_GLOBAL_AVERAGE && writers[form] != NULL)
        writers[form](net, layer, out);
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind))
            write_beginning(&net->parameters[layer->parameters[kind]], out);
    fputc('\0', out);
}

/* ---- the whole ---- */

/* All lines, one behind the other: the caller's to free. */
static int write_layers(const struct net *net, char **text_out)
{
    size_t bytes;
    FILE *const out = open_memstream(text_out, &bytes);
    if (out == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < net->layer_count; i++)
        write_layer(net, i, out);
    return text_stream_end(out, text_out);
}

static void place_layers(const struct net *net, const char *text, const char **front, const char **rest)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        front[i] = text;
        rest[i] = text + strlen(text) + 1;
        text = rest[i] + strlen(rest[i]) + 1;
    }
}

static void write_fold(const struct net_script *script, const struct net_fold *fold, FILE *out)
{
    const bool repeats = fold->turns > 1;
    struct net_row row;
    if (repeats)
        fprintf(out, "repeat %u as i", fold->turns);
    if (repeats && fold->counts_from != 1)
        fprintf(out, " from %u", fold->counts_from);
    fputs(repeats ? "\n" : "", out);
    for (uint32_t line = 0; line < fold->lines; line++) {
        net_fold_line(script, fold, line, &row);
        fprintf(out, "%s%s\n", repeats ? "    " : "", row.text);
    }
    fputs(repeats ? "end\n" : "", out);
}

static void write_script(const struct net_script *script, FILE *out)
{
    for (uint32_t layer = 0; layer < script->net->layer_count;) {
        const struct net_fold fold = net_fold_find(script, layer);
        write_fold(script, &fold, out);
        layer += fold.lines * fold.turns;
    }
}

static int write_body(const struct net *net, FILE *out)
{
    char *text = NULL;
    const char **const places = calloc((size_t)2 * net->layer_count + 1, sizeof(*places));
    const struct net_script script = { net, places, places + net->layer_count };
    const int rc = places == NULL ? -ENOMEM : write_layers(net, &text);
    if (rc == 0) {
        place_layers(net, text, script.front, script.rest);
        write_script(&script, out);
    }
    free(text);
    free(places);
    return rc;
}

static bool can_be_written(const struct net *net)
{
    bool fits = net_name_fits(net->model);
    for (uint32_t i = 0; i < net->layer_count; i++)
        fits = fits && net_name_fits(net->layers[i].name) && !net_name_is_kept(net->layers[i].name);
    return fits;
}

int net_file_write(const struct net *net, FILE *out)
{
    if (!can_be_written(net))
        return -EINVAL;
    write_header(net, out);
    const int rc = write_body(net, out);
    return rc == 0 && ferror(out) ? -EIO : rc;
}
