/* Find the modules of PyTorch that compute a network. */
#include "tools/export/torch_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

bool torch_layer_has_module(const struct layer *layer)
{
    return layer->kind != LAYER_ADD && layer->kind != LAYER_MULTIPLY && layer->kind != LAYER_CONCAT &&
           layer->kind != LAYER_SCALE;
}

static bool is_loss(const struct layer *layer)
{
    return layer->kind == LAYER_SOFTMAX_LOSS || layer->kind == LAYER_AUXILIARY_LOSS;
}

bool torch_value_is_flat(const struct torch_tree *tree, uint32_t value)
{
    return value != TORCH_IMAGE && tree->places[value].is_flat;
}

/* Does the layer work on every number by itself, whatever the shape is? */
static bool is_of_any_shape(const struct layer *layer)
{
    return layer->kind == LAYER_BATCH_NORM || layer->kind == LAYER_RELU || layer->kind == LAYER_ACTIVATION ||
           layer->kind == LAYER_DROPOUT || layer->kind == LAYER_STOCHASTIC_DEPTH || layer->kind == LAYER_ADD ||
           layer->kind == LAYER_MULTIPLY || layer->kind == LAYER_CONCAT;
}

static bool find_flat(const struct torch_tree *tree, const struct torch_place *place)
{
    bool is_flat = is_of_any_shape(place->layer);
    for (uint32_t i = 0; i < place->layer->input_count; i++)
        is_flat = is_flat && torch_value_is_flat(tree, place->inputs[i]);
    return is_flat || place->layer->kind == LAYER_DENSE;
}

enum torch_reshape torch_layer_reshapes(const struct torch_tree *tree, uint32_t place)
{
    const struct layer *const layer = tree->places[place].layer;
    const bool is_flat = torch_value_is_flat(tree, tree->places[place].inputs[0]);
    if (layer->kind == LAYER_DENSE)
        return is_flat ? RESHAPE_NONE : RESHAPE_FLATTEN;
    return is_flat && !is_of_any_shape(layer) ? RESHAPE_TO_IMAGE : RESHAPE_NONE;
}

/* Value `value` is read at place `reader`, which computes something that is needed for the logits or is not. */
static void add_reader(struct torch_tree *tree, uint32_t value, uint32_t reader, bool is_needed)
{
    if (value == TORCH_IMAGE)
        return;
    struct torch_place *const place = &tree->places[value];
    place->readers++;
    place->is_needed = place->is_needed || is_needed;
    if (reader > place->last_reader)
        place->last_reader = reader;
}

static void place_loss(struct torch_tree *tree, const struct layer *layer, uint32_t value)
{
    if (layer->kind == LAYER_SOFTMAX_LOSS)
        tree->logits = value;
    else
        tree->heads[tree->head_count++] = (struct torch_head){ value, layer->loss_weight };
}

static void place_layers(struct torch_tree *tree)
{
    uint32_t places[NET_LAYERS_MAX];
    for (uint32_t i = 0; i < tree->net->layer_count; i++) {
        const struct layer *const layer = &tree->net->layers[i];
        struct torch_place place = { .layer = layer };
        for (uint32_t k = 0; k < layer->input_count; k++)
            place.inputs[k] = layer->inputs[k] == NET_INPUT ? TORCH_IMAGE : places[layer->inputs[k]];
        if (is_loss(layer)) {
            place_loss(tree, layer, place.inputs[0]);
            continue;
        }
        place.is_flat = find_flat(tree, &place);
        places[i] = tree->place_count;
        tree->places[tree->place_count++] = place;
    }
}

static void find_readers(struct torch_tree *tree)
{
    const uint32_t end = tree->place_count;
    add_reader(tree, tree->logits, end, true);
    for (uint32_t i = 0; i < tree->head_count; i++)
        add_reader(tree, tree->heads[i].value, end, false);
    for (uint32_t i = end; i-- > 0;) {
        const struct torch_place *const place = &tree->places[i];
        for (uint32_t k = 0; k < place->layer->input_count; k++)
            add_reader(tree, place->inputs[k], i, place->is_needed);
    }
}

/* ---- the names of layers as a tree ---- */

static bool is_word(const struct torch_node *node, const char *word, uint32_t bytes)
{
    return node->bytes == bytes && memcmp(node->word, word, bytes) == 0;
}

/* The child of this name, which is added if there is none. */
static uint32_t find_child(struct torch_tree *tree, uint32_t parent, const char *word, uint32_t bytes)
{
    uint32_t *link = &tree->nodes[parent].child;
    while (*link != TORCH_NONE && !is_word(&tree->nodes[*link], word, bytes))
        link = &tree->nodes[*link].next;
    if (*link != TORCH_NONE)
        return *link;
    const uint32_t added = tree->node_count++;
    tree->nodes[added] = (struct torch_node){ .word = word, .bytes = bytes, .parent = parent, .child = TORCH_NONE,
                                              .next = TORCH_NONE, .place = TORCH_NONE };
    *link = added;
    return added;
}

static void add_to_range(struct torch_node *node, uint32_t place)
{
    if (node->count++ == 0)
        node->first = place;
    node->last = place;
}

static void add_name(struct torch_tree *tree, uint32_t place)
{
    const char *word = tree->places[place].layer->name;
    uint32_t node = 0;
    add_to_range(&tree->nodes[0], place);
    for (bool is_last = false; !is_last;) {
        const size_t bytes = strcspn(word, ".");
        is_last = word[bytes] == '\0';
        node = find_child(tree, node, word, (uint32_t)bytes);
        add_to_range(&tree->nodes[node], place);
        word += bytes + 1;
    }
    tree->nodes[node].place = place;
    tree->places[place].node = node;
}

/* ---- blocks ---- */

static bool reads_one_value(const struct torch_tree *tree, struct torch_node *node)
{
    bool is_known = false;
    for (uint32_t i = node->first; i <= node->last; i++)
        for (uint32_t k = 0; k < tree->places[i].layer->input_count; k++) {
            const uint32_t value = tree->places[i].inputs[k];
            if (value != TORCH_IMAGE && value >= node->first)
                continue;
            if (is_known && value != node->input)
                return false;
            is_known = true;
            node->input = value;
        }
    return is_known;
}

static bool provides_one_value(const struct torch_tree *tree, struct torch_node *node)
{
    uint32_t count = 0;
    for (uint32_t i = node->first; i <= node->last; i++)
        if (tree->places[i].last_reader > node->last) {
            node->output = i;
            count++;
        }
    return count == 1;
}

/* ---- words ---- */

static int compare_words(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}

/* Keywords of Python, and the attributes of all modules of PyTorch. */
static bool is_taken(const char *word)
{
    static const char *const taken[] = {
        "False", "None", "T_destination", "True", "add_module", "and", "append", "apply", "as", "assert", "async",
        "await", "bfloat16", "break", "buffers", "call_super_init", "children", "class", "compile", "continue", "cpu",
        "cuda", "def", "del", "double", "dump_patches", "elif", "else", "eval", "except", "extend", "extra_repr",
        "finally", "float", "for", "forward", "from", "get_buffer", "get_extra_state", "get_parameter",
        "get_submodule", "global", "half", "if", "import", "in", "insert", "ipu", "is", "lambda", "load_state_dict",
        "modules", "mtia", "named_buffers", "named_children", "named_modules", "named_parameters", "nonlocal", "not",
        "or", "parameters", "pass", "pop", "raise", "register_backward_hook", "register_buffer",
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
        "register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
        "register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook",
        "requires_grad_", "return", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to",
        "to_empty", "train", "training", "try", "type", "while", "with", "xpu", "yield", "zero_grad",
    };
    return bsearch(word, taken, sizeof(taken) / sizeof(*taken), sizeof(*taken), compare_words) != NULL;
}

/* The attributes of layers, of PyTorch and of the file that is written. */
static bool is_taken_in_layers(const char *word)
{
    static const char *const taken[] = {
        "affine", "after", "alpha", "approximate", "before", "beta", "bias", "ceil_mode", "count_include_pad",
        "dilation", "divisor_override", "elementwise_affine", "eps", "groups", "in_channels", "in_features",
        "inplace", "k", "kernel_size", "max_val", "min_val", "momentum", "normalized_shape", "num_batches_tracked",
        "num_features", "out_channels", "out_features", "output_padding", "output_size", "p", "pad", "padding",
        "padding_mode", "rate", "reset_parameters", "reset_running_stats", "return_indices", "running_mean",
        "running_var", "size", "stride", "track_running_stats", "transposed", "weight",
    };
    return bsearch(word, taken, sizeof(taken) / sizeof(*taken), sizeof(*taken), compare_words) != NULL;
}

static bool is_free(const char *word, uint32_t bytes, bool is_in_layer)
{
    char copy[sizeof(((struct layer *)NULL)->name)];
    snprintf(copy, sizeof(copy), "%.*s", (int)bytes, word);
    return bytes > 0 && bytes < sizeof(copy) && copy[0] != '_' && !is_taken(copy) &&
           !(is_in_layer && is_taken_in_layers(copy));
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

bool torch_word_is_attribute(const char *word, uint32_t bytes, bool is_in_layer)
{
    return is_free(word, bytes, is_in_layer) && strspn(word, LETTERS) > 0 && strspn(word, LETTERS DIGITS "_") >= bytes;
}

bool torch_node_is_numbered(const struct torch_tree *tree, uint32_t node)
{
    uint32_t number = 0;
    char digits[16];
    for (uint32_t child = tree->nodes[node].child; child != TORCH_NONE; child = tree->nodes[child].next) {
        const int bytes = snprintf(digits, sizeof(digits), "%u", number++);
        if (!is_word(&tree->nodes[child], digits, (uint32_t)bytes))
            return false;
    }
    return number > 0;
}

/* ---- kinds ---- */

bool torch_node_is_function(const struct torch_tree *tree, uint32_t node)
{
    const struct torch_node *const own = &tree->nodes[node], *const parent = &tree->nodes[own->parent];
    if (own->place == TORCH_NONE || own->child != TORCH_NONE || own->parent == 0 || parent->place == TORCH_NONE)
        return false;
    const enum layer_kind kind = tree->places[own->place].layer->kind;
    return (kind == LAYER_RELU || kind == LAYER_ACTIVATION) &&
           torch_layer_has_module(tree->places[parent->place].layer);
}

/* Is the node an element of nn.Sequential or nn.ModuleList? */
static bool has_module(const struct torch_tree *tree, uint32_t node)
{
    const struct torch_node *const own = &tree->nodes[node];
    if (own->kind != TORCH_LAYER)
        return own->place == TORCH_NONE || tree->places[own->place].layer->kind != LAYER_SCALE;
    return torch_layer_has_module(tree->places[own->place].layer) && !torch_node_is_function(tree, node);
}

/* The value that the module of the node reads, and the one that it computes. */
static uint32_t input_of(const struct torch_tree *tree, const struct torch_node *node)
{
    return node->kind == TORCH_LAYER ? tree->places[node->place].inputs[0] : node->input;
}

static uint32_t output_of(const struct torch_node *node)
{
    return node->kind == TORCH_LAYER ? node->place : node->output;
}

enum torch_reshape torch_node_reshapes(const struct torch_tree *tree, uint32_t node)
{
    const struct torch_node *const own = &tree->nodes[node];
    if (own->kind == TORCH_SEQUENTIAL)
        return torch_node_reshapes(tree, own->child);
    return own->kind == TORCH_LAYER ? torch_layer_reshapes(tree, own->place) : RESHAPE_NONE;
}

/* Can the child follow in an nn.Sequential, after a module that computes `input`? */
static bool follows(const struct torch_tree *tree, const struct torch_node *parent, uint32_t child, uint32_t input)
{
    const struct torch_node *const own = &tree->nodes[child];
    const bool is_callable = own->kind == TORCH_LAYER ? own->child == TORCH_NONE
                                                      : own->kind == TORCH_SEQUENTIAL || own->kind == TORCH_CLASS;
    return is_callable && has_module(tree, child) && is_free(own->word, own->bytes, false) &&
           input_of(tree, own) == input &&
           (child == parent->child || torch_node_reshapes(tree, child) == RESHAPE_NONE);
}

static bool are_attributes(const struct torch_tree *tree, const struct torch_node *node)
{
    bool are = true;
    for (uint32_t child = node->child; child != TORCH_NONE; child = tree->nodes[child].next)
        are = are && torch_word_is_attribute(tree->nodes[child].word, tree->nodes[child].bytes, false);
    return are;
}

/* Are the children called one after the other, and have numbers rather than names? With names, as conv, bn and relu, a
 * class reads better. */
static bool is_sequential(const struct torch_tree *tree, const struct torch_node *node)
{
    uint32_t value = node->input, count = 0;
    if (!node->is_block || node->place != TORCH_NONE || are_attributes(tree, node))
        return false;
    for (uint32_t child = node->child; child != TORCH_NONE; child = tree->nodes[child].next) {
        if (!follows(tree, node, child, value))
            return false;
        value = output_of(&tree->nodes[child]);
        count += tree->nodes[child].count;
    }
    return value == node->output && count == node->count;
}

static bool is_list(const struct torch_tree *tree, uint32_t node)
{
    bool are_modules = tree->nodes[node].place == TORCH_NONE && torch_node_is_numbered(tree, node);
    for (uint32_t child = tree->nodes[node].child; child != TORCH_NONE; child = tree->nodes[child].next)
        are_modules = are_modules && has_module(tree, child);
    return are_modules;
}

static enum torch_kind find_kind(const struct torch_tree *tree, uint32_t index)
{
    const struct torch_node *const node = &tree->nodes[index];
    const struct layer *const layer = node->place != TORCH_NONE ? tree->places[node->place].layer : NULL;
    if (index == 0)
        return TORCH_CLASS;
    if (node->child == TORCH_NONE || (layer != NULL && torch_layer_has_module(layer)))
        return TORCH_LAYER;
    if (layer != NULL && layer->kind == LAYER_SCALE)
        return TORCH_NAMESPACE;
    if (is_sequential(tree, node))
        return TORCH_SEQUENTIAL;
    if (is_list(tree, index))
        return TORCH_LIST;
    return node->is_block ? TORCH_CLASS : TORCH_NAMESPACE;
}

/* Children come after their parents, so that going backwards they are known. */
static void find_kinds(struct torch_tree *tree)
{
    for (uint32_t i = tree->node_count; i-- > 0;) {
        struct torch_node *const node = &tree->nodes[i];
        node->is_block = node->count > 0 && node->last - node->first + 1 == node->count &&
                         reads_one_value(tree, node) && provides_one_value(tree, node);
        node->kind = find_kind(tree, i);
        node->height += node->kind == TORCH_CLASS;
        struct torch_node *const parent = &tree->nodes[node->parent];
        if (i > 0 && node->height > parent->height)
            parent->height = node->height;
    }
}

uint32_t torch_node_find_block(const struct torch_tree *tree, uint32_t top, uint32_t node)
{
    uint32_t found = TORCH_NONE;
    for (; node != top; node = tree->nodes[node].parent)
        if (tree->nodes[node].kind == TORCH_CLASS || tree->nodes[node].kind == TORCH_SEQUENTIAL)
            found = node;
    return found;
}

/* ---- the whole ---- */

static size_t words_in(const char *name)
{
    size_t words = 1;
    for (; *name != '\0'; name++)
        words += *name == '.';
    return words;
}

static int allocate(struct torch_tree *tree)
{
    size_t nodes = 1;
    const uint32_t layers = tree->net->layer_count;
    for (uint32_t i = 0; i < layers; i++)
        nodes += words_in(tree->net->layers[i].name);
    tree->places = calloc((size_t)layers + 1, sizeof(*tree->places));
    tree->heads = calloc((size_t)layers + 1, sizeof(*tree->heads));
    tree->nodes = calloc(nodes, sizeof(*tree->nodes));
    return tree->places == NULL || tree->heads == NULL || tree->nodes == NULL ? -ENOMEM : 0;
}

int torch_tree_init(struct torch_tree *tree, const struct net *net)
{
    *tree = (struct torch_tree){ .net = net, .logits = TORCH_IMAGE };
    if (allocate(tree) != 0) {
        torch_tree_release(tree);
        return -ENOMEM;
    }
    tree->nodes[tree->node_count++] = (struct torch_node){ .word = "", .child = TORCH_NONE, .next = TORCH_NONE,
                                                           .place = TORCH_NONE };
    place_layers(tree);
    find_readers(tree);
    for (uint32_t i = 0; i < tree->place_count; i++)
        add_name(tree, i);
    find_kinds(tree);
    return 0;
}

void torch_tree_release(struct torch_tree *tree)
{
    free(tree->places);
    free(tree->nodes);
    free(tree->heads);
    *tree = (struct torch_tree){ .net = NULL };
}
