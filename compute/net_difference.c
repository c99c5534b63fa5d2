/* Compares two networks layer by layer. Layers with parameters are matched by their names; the layers between two such
 * layers are compared as expressions, whatever their names. */
#include "compute/net_difference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE (UINT32_MAX - 1)   /* no layer; NET_INPUT is the image */

enum side { OURS, THEIRS, SIDE_COUNT };
enum known { KNOWN_NOT, KNOWN_SAME, KNOWN_DIFFERENT };

struct comparison {
    const struct net *net[SIDE_COUNT];
    const bool *is_loaded;
    uint32_t *partners;         /* by layer of theirs: the loaded layer of ours with the same name, or NONE */
    uint8_t *known;             /* enum known, by layer of ours and layer of theirs: results are kept because
                                 * expressions share layers */
    uint32_t different[SIDE_COUNT];     /* the innermost layers of an expression that differ */
};

/* ---- descriptions for messages ---- */

static bool has_window(const struct layer *layer)
{
    return layer->kind == LAYER_CONV2D || layer->kind == LAYER_MAX_POOL || layer->kind == LAYER_AVERAGE_POOL;
}

static bool is_norm(const struct layer *layer)
{
    return layer->kind == LAYER_BATCH_NORM || layer->kind == LAYER_LAYER_NORM;
}

static void describe_values(const struct layer *layer, char *text, size_t text_size)
{
    const struct local_response_norm *const response = &layer->response;
    char groups[24] = "";
    if (layer->kind == LAYER_CONV2D && layer->groups > 1)
        snprintf(groups, sizeof(groups), " groups %u", layer->groups);
    if (layer_is_global_average(layer))
        snprintf(text, text_size, "the mean of the whole image");
    else if (has_window(layer))
        snprintf(text, text_size, "%s kernel %ux%u stride %ux%u padding %u,%u,%u,%u%s", layer_word(layer),
                 layer->kernel_h, layer->kernel_w, layer->stride_h, layer->stride_w, layer->pad_top,
                 layer->pad_bottom, layer->pad_left, layer->pad_right, groups);
    else if (layer->kind == LAYER_ACTIVATION && layer->limit > 0)
        snprintf(text, text_size, "%s limit %g", layer_word(layer), layer->limit);
    else if (is_norm(layer))
        snprintf(text, text_size, "%s epsilon %g", layer_word(layer), layer->epsilon);
    else if (layer->kind == LAYER_LOCAL_RESPONSE_NORM)
        snprintf(text, text_size, "local_response_norm size %u alpha %g beta %g k %g", response->size, response->alpha,
                 response->beta, response->k);
    else if (layer->kind == LAYER_PAD_CHANNELS)
        snprintf(text, text_size, "pad_channels stride %u with %u channels before", layer->stride_h,
                 layer->channels_before);
    else
        snprintf(text, text_size, "%s", layer_word(layer));
}

static bool has_parameters(const struct layer *layer)
{
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind))
            return true;
    return false;
}

/* Describe a layer that another layer reads. */
static void describe_input(const struct net *net, uint32_t index, char *text, size_t text_size)
{
    if (index == NET_INPUT)
        snprintf(text, text_size, "the image");
    else if (has_parameters(&net->layers[index]))
        snprintf(text, text_size, "'%s' (%s)", net->layers[index].name, layer_word(&net->layers[index]));
    else
        describe_values(&net->layers[index], text, text_size);
}

/* ---- layers ---- */

static bool pads_equally(const struct layer *a, const struct layer *b)
{
    return (a->pad_top == b->pad_top && a->pad_bottom == b->pad_bottom && a->pad_left == b->pad_left &&
            a->pad_right == b->pad_right) || (layer_pads_same(a) && layer_pads_same(b));
}

static bool has_same_window(const struct layer *a, const struct layer *b)
{
    return a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w && a->stride_h == b->stride_h &&
           a->stride_w == b->stride_w && a->groups == b->groups && pads_equally(a, b);
}

/* Do layers of the same kind compute the same with the same inputs and parameters? */
static bool has_same_values(const struct layer *a, const struct layer *b)
{
    const struct local_response_norm *const x = &a->response, *const y = &b->response;
    if (has_window(a))
        return (layer_is_global_average(a) && layer_is_global_average(b)) || has_same_window(a, b);
    if (a->kind == LAYER_LOCAL_RESPONSE_NORM)
        return x->size == y->size && x->alpha == y->alpha && x->beta == y->beta && x->k == y->k;
    if (a->kind == LAYER_ACTIVATION)
        return a->activation == b->activation && a->limit == b->limit;
    if (a->kind == LAYER_PAD_CHANNELS)
        return a->stride_h == b->stride_h && a->channels_before == b->channels_before;
    return !is_norm(a) || a->epsilon == b->epsilon;
}

static bool is_loaded(const struct comparison *comparison, const struct layer *layer)
{
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind) && comparison->is_loaded[layer->parameters[kind]])
            return true;
    return false;
}

static uint32_t find_loaded(const struct comparison *comparison, const char *name)
{
    const struct net *const net = comparison->net[OURS];
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return is_loaded(comparison, &net->layers[i]) ? i : NONE;
    return NONE;
}

/* ---- expressions ---- */

static bool is_copy(const struct layer *layer)
{
    return layer->kind == LAYER_DROPOUT || layer->kind == LAYER_STOCHASTIC_DEPTH ||
           (layer->kind == LAYER_CONCAT && layer->input_count == 1);
}

/* The layer that computes the output of layer `index`: dropout, which does nothing in evaluation, and a concatenation
 * of one input are skipped. */
static uint32_t skip_copies(const struct net *net, uint32_t index)
{
    while (index != NET_INPUT && is_copy(&net->layers[index]))
        index = net->layers[index].inputs[0];
    return index;
}

static bool is_new(const struct comparison *comparison, enum side side, uint32_t index)
{
    if (index == NET_INPUT || !has_parameters(&comparison->net[side]->layers[index]))
        return false;
    return side == OURS ? !is_loaded(comparison, &comparison->net[OURS]->layers[index])
                        : comparison->partners[index] == NONE;
}

static bool same(struct comparison *comparison, uint32_t our, uint32_t their);

static bool same_inputs(struct comparison *comparison, const struct layer *ours, const struct layer *theirs)
{
    const uint32_t count = ours->input_count;
    bool is_same = count == theirs->input_count;
    for (uint32_t i = 0; i < count && is_same; i++)
        is_same = same(comparison, ours->inputs[i], theirs->inputs[i]);
    if (is_same || (ours->kind != LAYER_ADD && ours->kind != LAYER_MULTIPLY) || count != theirs->input_count)
        return is_same;
    /* The order of the terms of a sum, or of the factors of a product, makes no difference. */
    const uint32_t different[SIDE_COUNT] = { comparison->different[OURS], comparison->different[THEIRS] };
    is_same = same(comparison, ours->inputs[0], theirs->inputs[1]) &&
              same(comparison, ours->inputs[1], theirs->inputs[0]);
    comparison->different[OURS] = is_same ? NONE : different[OURS];
    comparison->different[THEIRS] = is_same ? NONE : different[THEIRS];
    return is_same;
}

static bool same_layers(struct comparison *comparison, uint32_t our, uint32_t their)
{
    const struct layer *const ours = &comparison->net[OURS]->layers[our];
    const struct layer *const theirs = &comparison->net[THEIRS]->layers[their];
    if (has_parameters(ours) || has_parameters(theirs))
        return comparison->partners[their] == our;
    return ours->kind == theirs->kind && has_same_values(ours, theirs) && same_inputs(comparison, ours, theirs);
}

/* Do two layers compute the same? A layer that is not loaded counts as equal to every layer. Each pair of layers is
 * compared once. */
static bool same(struct comparison *comparison, uint32_t our, uint32_t their)
{
    our = skip_copies(comparison->net[OURS], our);
    their = skip_copies(comparison->net[THEIRS], their);
    if (is_new(comparison, OURS, our) || is_new(comparison, THEIRS, their))
        return true;
    bool is_same = our == NET_INPUT && their == NET_INPUT;
    if (our != NET_INPUT && their != NET_INPUT) {
        uint8_t *const known = &comparison->known[(size_t)our * comparison->net[THEIRS]->layer_count + their];
        if (*known != KNOWN_NOT)
            return *known == KNOWN_SAME;
        is_same = same_layers(comparison, our, their);
        *known = is_same ? KNOWN_SAME : KNOWN_DIFFERENT;
    }
    if (!is_same && comparison->different[OURS] == NONE) {
        comparison->different[OURS] = our;
        comparison->different[THEIRS] = their;
    }
    return is_same;
}

/* ---- the whole ---- */

/* Describe how a layer differs: in itself, or in a layer that it reads. */
static void describe(const struct comparison *comparison, const struct layer *ours, const struct layer *theirs,
                     bool is_own, char text[NET_DIFFERENCE_SIZE])
{
    char here[160], there[160];
    if (is_own) {
        describe_values(ours, here, sizeof(here));
        describe_values(theirs, there, sizeof(there));
    } else {
        describe_input(comparison->net[OURS], comparison->different[OURS], here, sizeof(here));
        describe_input(comparison->net[THEIRS], comparison->different[THEIRS], there, sizeof(there));
    }
    snprintf(text, NET_DIFFERENCE_SIZE, "'%s' %s %s, there %s", ours->name, is_own ? "is" : "reads", here, there);
}

/* Does a layer of ours compute something else than its counterpart? The first such layer is described. */
static bool differs(struct comparison *comparison, uint32_t our, uint32_t their, bool is_first,
                    char text[NET_DIFFERENCE_SIZE])
{
    const struct layer *const ours = &comparison->net[OURS]->layers[our];
    const struct layer *const theirs = &comparison->net[THEIRS]->layers[their];
    const bool is_own = ours->kind != theirs->kind || !has_same_values(ours, theirs);
    comparison->different[OURS] = comparison->different[THEIRS] = NONE;
    if (!is_own && same_inputs(comparison, ours, theirs))
        return false;
    if (is_first)
        describe(comparison, ours, theirs, is_own, text);
    return true;
}

static int compare(struct comparison *comparison, char text[NET_DIFFERENCE_SIZE])
{
    const struct net *const ours = comparison->net[OURS], *const theirs = comparison->net[THEIRS];
    int count = 0;
    for (uint32_t i = 0; i < theirs->layer_count; i++)
        comparison->partners[i] = has_parameters(&theirs->layers[i]) ? find_loaded(comparison, theirs->layers[i].name)
                                                                     : NONE;
    for (uint32_t i = 0; i < theirs->layer_count; i++)
        if (comparison->partners[i] != NONE)
            count += differs(comparison, comparison->partners[i], i, count == 0, text);
    return count + differs(comparison, ours->layer_count - 1, theirs->layer_count - 1, count == 0, text);
}

int net_layers_differ(const struct net *ours, const struct net *theirs, const bool *is_loaded,
                      char text_out[NET_DIFFERENCE_SIZE])
{
    struct comparison comparison = {
        .net = { [OURS] = ours, [THEIRS] = theirs }, .is_loaded = is_loaded,
        .partners = calloc(theirs->layer_count, sizeof(uint32_t)),
        .known = calloc((size_t)ours->layer_count * theirs->layer_count, 1),
    };
    text_out[0] = '\0';
    const int rc = comparison.partners != NULL && comparison.known != NULL ? compare(&comparison, text_out) : -ENOMEM;
    free(comparison.partners);
    free(comparison.known);
    return rc;
}
