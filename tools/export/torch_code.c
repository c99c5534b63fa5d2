/* Writing the classes of a network. Blocks that differ only in numbers become one class, with the numbers as arguments:
 * each block is first written as a template, in which numbers are a mark, and its numbers are gathered; blocks of the
 * same template are of one class. The numbers that differ between them are its arguments, those that are equal in each
 * of them are one argument. The same functions then write the class. */
#include "tools/export/torch_code.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "stage/text/text_stream.h"
#include "tools/export/python_text.h"

#define LINE_COLUMNS 100u       /* a call that fits is written in one line */
#define JOINED_MOST 3u          /* most elements of an nn.Sequential in one line */
#define NESTED_BYTES 72u        /* longer expressions are not arguments of the next call */
#define FOLDED_LEAST 3u         /* fewest equal elements of an nn.Sequential that are written as a loop */
#define NAMED_MOST 4u           /* blocks that are named in the comment of a class */
#define MARK '\1'               /* a number in a template */
#define INDENT 4u

enum slot_kind { SLOT_CHANNELS, SLOT_KERNEL, SLOT_STRIDE, SLOT_PADDING, SLOT_RATE, SLOT_NUMBER, SLOT_KIND_COUNT };

/* A number in the text of a block. */
struct slot {
    enum slot_kind kind;
    char value[64];
};

struct slots { struct slot *slot; uint32_t count, room; };

struct argument { uint32_t slot; char name[24]; };      /* the first of its slots */

struct block_class {
    char name[64];
    char *template;
    uint32_t node;              /* the first block of the class */
    uint32_t *argument_of;      /* by slot; TORCH_NONE: a constant */
    struct argument *arguments;
    uint32_t argument_count;
};

/* An expression of forward: the call of a module, or an operation. */
struct step {
    uint32_t block;             /* node; TORCH_NONE: a single layer */
    uint32_t place;             /* of the layer */
    uint32_t output;
};

struct code {
    const struct torch_tree *tree;
    FILE *out;
    unsigned uses;
    bool failed;                /* out of memory */
    uint32_t top;               /* the node of the class that is being written */
    struct slots *gathered;     /* a template is being written; else NULL */
    const struct block_class *written;  /* the class that is being written; NULL: a template, or the whole network */
    uint32_t slot;              /* of the class: the next one */
    struct slots *slots;        /* by node: of blocks that are classes */
    uint32_t *class_of;         /* by node */
    struct block_class *classes;
    uint32_t class_count;
    struct step *steps;         /* of the class that is being written */
    uint32_t step_count;
    uint32_t *last_use, *uses_of, *variable_of;         /* by value in this class; [place_count]: TORCH_IMAGE */
    uint32_t *holds;            /* by variable: its value */
};

/* ---- numbers ---- */

static int slots_add(struct slots *slots, enum slot_kind kind, const char *value)
{
    if (slots->count == slots->room) {
        const uint32_t room = 2 * slots->room + 16;
        struct slot *const grown = realloc(slots->slot, room * sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        slots->slot = grown;
        slots->room = room;
    }
    struct slot *const slot = &slots->slot[slots->count++];
    slot->kind = kind;
    snprintf(slot->value, sizeof(slot->value), "%s", value);
    return 0;
}

/* Write a number after `keyword`; both are omitted if it is `usual` (NULL: never) in all blocks of the class. */
static void put_number(struct code *code, enum slot_kind kind, const char *keyword, const char *usual,
                       const char *value)
{
    const uint32_t slot = code->slot++;
    if (code->gathered != NULL) {
        fprintf(code->out, "%s%c", keyword, MARK);
        code->failed = slots_add(code->gathered, kind, value) != 0 || code->failed;
        return;
    }
    const struct block_class *const class = code->written;
    if (class != NULL && class->argument_of[slot] != TORCH_NONE)
        fprintf(code->out, "%s%s", keyword, class->arguments[class->argument_of[slot]].name);
    else if (usual == NULL || strcmp(value, usual) != 0)
        fprintf(code->out, "%s%s", keyword, value);
}

static void put_count(struct code *code, enum slot_kind kind, const char *keyword, const char *usual, uint32_t count)
{
    char value[16];
    snprintf(value, sizeof(value), "%u", count);
    put_number(code, kind, keyword, usual, value);
}

static void put_pair(struct code *code, enum slot_kind kind, const char *keyword, const char *usual, uint32_t height,
                     uint32_t width)
{
    char value[32];
    snprintf(value, sizeof(value), height == width ? "%u" : "(%u, %u)", height, width);
    put_number(code, kind, keyword, usual, value);
}

static void put_float(struct code *code, enum slot_kind kind, const char *keyword, const char *usual, float number)
{
    char value[DECIMAL_SIZE];
    decimal_write_float(number, value, sizeof(value));
    put_number(code, kind, keyword, usual, value);
}

/* ---- the modules of layers ---- */

static bool is_even(const struct layer *layer)
{
    return layer->pad_top == layer->pad_bottom && layer->pad_left == layer->pad_right;
}

/* Does PyTorch's pool take the padding? It allows half of the window. */
static bool is_pool_even(const struct layer *layer)
{
    return is_even(layer) && 2 * layer->pad_top <= layer->kernel_h && 2 * layer->pad_left <= layer->kernel_w;
}

static void put_padding(struct code *code, const struct layer *layer, bool is_of_pytorch)
{
    char value[64];
    if (is_of_pytorch) {
        put_pair(code, SLOT_PADDING, ", padding=", "0", layer->pad_top, layer->pad_left);
        return;
    }
    snprintf(value, sizeof(value), "(%u, %u, %u, %u)", layer->pad_left, layer->pad_right, layer->pad_top,
             layer->pad_bottom);
    put_number(code, SLOT_PADDING, ", pad=", NULL, value);
}

static void put_bias(struct code *code, const struct layer *layer)
{
    fputs(layer_has(layer, PARAMETER_BIAS) ? ")" : ", bias=False)", code->out);
}

static void put_conv2d(struct code *code, const struct layer *layer)
{
    code->uses |= is_even(layer) ? 0 : USE_PADDED_CONV | USE_FUNCTIONAL;
    fputs(is_even(layer) ? "nn.Conv2d(" : "PaddedConv2d(", code->out);
    put_count(code, SLOT_CHANNELS, "", NULL, layer->in.channels);
    put_count(code, SLOT_CHANNELS, ", ", NULL, layer->out.channels);
    put_pair(code, SLOT_KERNEL, ", ", NULL, layer->kernel_h, layer->kernel_w);
    put_pair(code, SLOT_STRIDE, ", stride=", "1", layer->stride_h, layer->stride_w);
    put_padding(code, layer, is_even(layer));
    put_count(code, SLOT_CHANNELS, ", groups=", "1", layer->groups);
    put_bias(code, layer);
}

static void put_dense(struct code *code, const struct layer *layer)
{
    fputs("nn.Linear(", code->out);
    put_count(code, SLOT_CHANNELS, "", NULL, (uint32_t)shape_count(layer->in));
    put_count(code, SLOT_CHANNELS, ", ", NULL, layer->out.channels);
    put_bias(code, layer);
}

/* 1 - decay with the fewest digits that are the same number as the decay. */
static void write_momentum(double decay, char *text, size_t text_size)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, text_size, "%.*g", digits, 1 - decay);
        if (1 - decimal_read(text) == decay)
            return;
    }
}

static void put_batch_norm(struct code *code, const struct torch_place *place)
{
    static const char *const names[2][2] = { { "ShiftedNorm2d(", "ShiftedNorm1d(" },
                                             { "nn.BatchNorm2d(", "nn.BatchNorm1d(" } };
    const struct layer *const layer = place->layer;
    const bool has_gamma = layer_has(layer, PARAMETER_GAMMA);
    char momentum[DECIMAL_SIZE];
    write_momentum(layer->decay, momentum, sizeof(momentum));
    if (!has_gamma)
        code->uses |= place->is_flat ? USE_FLAT_NORM_OF_SHIFT : USE_NORM_OF_SHIFT;
    fputs(names[has_gamma][place->is_flat], code->out);
    put_count(code, SLOT_CHANNELS, "", NULL, layer->out.channels);
    put_float(code, SLOT_NUMBER, ", eps=", "1e-05", layer->epsilon);
    put_number(code, SLOT_NUMBER, ", momentum=", "0.1", momentum);
    fputc(')', code->out);
}

static void put_layer_norm(struct code *code, const struct layer *layer)
{
    code->uses |= USE_LAYER_NORM | USE_FUNCTIONAL;
    fputs("LayerNorm2d(", code->out);
    put_count(code, SLOT_CHANNELS, "", NULL, layer->out.channels);
    put_float(code, SLOT_NUMBER, ", eps=", NULL, layer->epsilon);
    fputc(')', code->out);
}

static void put_activation(struct code *code, const struct layer *layer)
{
    static const char *const names[ACTIVATION_COUNT] = {
        [ACTIVATION_CLIPPED_RELU] = "nn.ReLU6()",       [ACTIVATION_SIGMOID] = "nn.Sigmoid()",
        [ACTIVATION_HARD_SIGMOID] = "nn.Hardsigmoid()", [ACTIVATION_SILU] = "nn.SiLU()",
        [ACTIVATION_HARD_SWISH] = "nn.Hardswish()",     [ACTIVATION_GELU] = "nn.GELU()",
    };
    if (layer->activation != ACTIVATION_CLIPPED_RELU || layer->limit == 6.0f) {
        fputs(names[layer->activation], code->out);
        return;
    }
    put_float(code, SLOT_NUMBER, "nn.Hardtanh(0.0, ", NULL, layer->limit);
    fputc(')', code->out);
}

static void put_pool(struct code *code, const struct layer *layer)
{
    const bool is_max = layer->kind == LAYER_MAX_POOL, is_of_pytorch = is_pool_even(layer);
    const bool is_padded = (layer->pad_top | layer->pad_bottom | layer->pad_left | layer->pad_right) != 0;
    const char *const kind = is_max ? "MaxPool2d(" : "AvgPool2d(";
    if (!is_of_pytorch)
        code->uses |= (is_max ? USE_PADDED_MAX_POOL : USE_PADDED_AVERAGE_POOL) | USE_FUNCTIONAL;
    fprintf(code->out, "%s%s", is_of_pytorch ? "nn." : "Padded", kind);
    put_pair(code, SLOT_KERNEL, "", NULL, layer->kernel_h, layer->kernel_w);
    put_pair(code, SLOT_STRIDE, ", ", NULL, layer->stride_h, layer->stride_w);
    put_padding(code, layer, is_of_pytorch);
    fputs(!is_max && is_of_pytorch && is_padded ? ", count_include_pad=False)" : ")", code->out);
}

static void put_average_pool(struct code *code, const struct layer *layer)
{
    if (layer_is_global_average(layer))
        fputs("nn.AdaptiveAvgPool2d(1)", code->out);
    else
        put_pool(code, layer);
}

static void put_dropout(struct code *code, const struct layer *layer)
{
    const bool is_of_samples = layer->kind == LAYER_STOCHASTIC_DEPTH;
    code->uses |= is_of_samples ? USE_STOCHASTIC_DEPTH : 0;
    put_float(code, SLOT_RATE, is_of_samples ? "StochasticDepth(" : "nn.Dropout(", NULL, layer->rate);
    fputc(')', code->out);
}

static void put_response_norm(struct code *code, const struct layer *layer)
{
    put_count(code, SLOT_NUMBER, "nn.LocalResponseNorm(", NULL, layer->response.size);
    put_float(code, SLOT_NUMBER, ", alpha=", NULL, layer->response.alpha);
    put_float(code, SLOT_NUMBER, ", beta=", NULL, layer->response.beta);
    put_float(code, SLOT_NUMBER, ", k=", NULL, layer->response.k);
    fputc(')', code->out);
}

static void put_pad_channels(struct code *code, const struct layer *layer)
{
    const uint32_t after = layer->out.channels - layer->in.channels - layer->channels_before;
    code->uses |= USE_PAD_CHANNELS | USE_FUNCTIONAL;
    put_count(code, SLOT_CHANNELS, "PadChannels(", NULL, layer->channels_before);
    put_count(code, SLOT_CHANNELS, ", ", NULL, after);
    put_pair(code, SLOT_STRIDE, ", ", NULL, layer->stride_h, layer->stride_w);
    fputc(')', code->out);
}

static void put_relu(struct code *code, const struct layer *layer)
{
    (void)layer;
    fputs("nn.ReLU()", code->out);
}

/* Kinds that are not expressions in forward, except batch_norm, whose module depends on the shape of the value. */
static void (*const layer_table[LAYER_KIND_COUNT])(struct code *, const struct layer *) = {
    [LAYER_CONV2D] = put_conv2d,
    [LAYER_DENSE] = put_dense,
    [LAYER_LAYER_NORM] = put_layer_norm,
    [LAYER_RELU] = put_relu,
    [LAYER_ACTIVATION] = put_activation,
    [LAYER_MAX_POOL] = put_pool,
    [LAYER_AVERAGE_POOL] = put_average_pool,
    [LAYER_DROPOUT] = put_dropout,
    [LAYER_STOCHASTIC_DEPTH] = put_dropout,
    [LAYER_LOCAL_RESPONSE_NORM] = put_response_norm,
    [LAYER_PAD_CHANNELS] = put_pad_channels,
};

static void put_layer(struct code *code, const struct torch_place *place)
{
    if (place->layer->kind == LAYER_BATCH_NORM)
        put_batch_norm(code, place);
    else
        layer_table[place->layer->kind](code, place->layer);
}

/* ---- the modules of blocks ---- */

static void put_module(struct code *code, uint32_t node, uint32_t indent);

/* Write a part of the text to memory. The caller frees it; NULL: out of memory. */
static char *module_text(struct code *code, uint32_t node, uint32_t indent)
{
    FILE *const out = code->out;
    char *text = NULL;
    size_t bytes;
    code->out = open_memstream(&text, &bytes);
    if (code->out != NULL) {
        put_module(code, node, indent);
        (void)text_stream_end(code->out, &text);
    }
    code->out = out;
    code->failed = code->failed || text == NULL;
    return text;
}

static void put_instance(struct code *code, uint32_t node)
{
    const struct block_class *const class = &code->classes[code->class_of[node]];
    const struct slots *const slots = &code->slots[node];
    fprintf(code->out, "%s(", class->name);
    for (uint32_t i = 0; i < class->argument_count; i++) {
        const struct slot *const slot = &slots->slot[class->arguments[i].slot];
        put_number(code, slot->kind, i == 0 ? "" : ", ", NULL, slot->value);
    }
    fputc(')', code->out);
}

/* The elements of an nn.Sequential or nn.ModuleList. */
struct elements {
    char **text;
    uint32_t *node;
    uint32_t count;
    bool have_names;
};

static void put_element(struct code *code, const struct elements *elements, uint32_t i)
{
    const struct torch_node *const node = &code->tree->nodes[elements->node[i]];
    if (!elements->have_names) {
        fputs(elements->text[i], code->out);
        return;
    }
    fputc('(', code->out);
    python_literal_write(code->out, node->word, node->bytes);
    fprintf(code->out, ", %s)", elements->text[i]);
}

static bool fit_one_line(const struct elements *elements, uint32_t indent)
{
    size_t bytes = indent + strlen("self.sequential = nn.Sequential()");
    for (uint32_t i = 0; i < elements->count; i++) {
        if (strchr(elements->text[i], '\n') != NULL)
            return false;
        bytes += strlen(elements->text[i]) + 2;
    }
    return elements->count <= JOINED_MOST && !elements->have_names && bytes <= LINE_COLUMNS;
}

/* The number of equal elements from i on. */
static uint32_t count_equal(const struct elements *elements, uint32_t i)
{
    uint32_t count = 1;
    while (i + count < elements->count && !elements->have_names &&
           strcmp(elements->text[i], elements->text[i + count]) == 0)
        count++;
    return strchr(elements->text[i], '\n') == NULL ? count : 1;
}

static void put_lines(struct code *code, const struct elements *elements, uint32_t indent)
{
    const int inner = (int)(indent + INDENT);
    for (uint32_t i = 0; i < elements->count;) {
        const uint32_t equal = count_equal(elements, i);
        fprintf(code->out, "\n%*s", inner, "");
        if (equal >= FOLDED_LEAST)
            fprintf(code->out, "*[%s for _ in range(%u)],", elements->text[i], equal);
        else {
            put_element(code, elements, i);
            fputc(',', code->out);
        }
        i += equal >= FOLDED_LEAST ? equal : 1;
    }
    fprintf(code->out, "\n%*s", (int)indent, "");
}

static void put_elements(struct code *code, const struct elements *elements, uint32_t indent)
{
    if (!fit_one_line(elements, indent)) {
        put_lines(code, elements, indent);
        return;
    }
    for (uint32_t i = 0; i < elements->count; i++)
        fprintf(code->out, "%s%s", i == 0 ? "" : ", ", elements->text[i]);
}

static uint32_t child_count(const struct torch_tree *tree, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t child = tree->nodes[node].child; child != TORCH_NONE; child = tree->nodes[child].next)
        count++;
    return count;
}

static void put_children(struct code *code, uint32_t node, bool have_names, uint32_t indent)
{
    const uint32_t count = child_count(code->tree, node);
    struct elements elements = { .text = calloc(count, sizeof(char *)), .node = calloc(count, sizeof(uint32_t)),
                                 .have_names = have_names };
    bool is_whole = elements.text != NULL && elements.node != NULL;
    for (uint32_t child = code->tree->nodes[node].child; child != TORCH_NONE && is_whole;
         child = code->tree->nodes[child].next) {
        elements.node[elements.count] = child;
        elements.text[elements.count] = module_text(code, child, indent + INDENT);
        is_whole = elements.text[elements.count++] != NULL;
    }
    if (is_whole)
        put_elements(code, &elements, indent);
    for (uint32_t i = 0; elements.text != NULL && i < elements.count; i++)
        free(elements.text[i]);
    free(elements.text);
    free(elements.node);
    code->failed = code->failed || !is_whole;
}

static void put_sequential(struct code *code, uint32_t node, uint32_t indent)
{
    const bool have_names = !torch_node_is_numbered(code->tree, node);
    code->uses |= have_names ? USE_ORDERED_DICT : 0;
    fputs(have_names ? "nn.Sequential(OrderedDict([" : "nn.Sequential(", code->out);
    put_children(code, node, have_names, indent);
    fputs(have_names ? "]))" : ")", code->out);
}

/* Write the expression that makes the module of a node, in a line that is indented by `indent`. */
static void put_module(struct code *code, uint32_t node, uint32_t indent)
{
    const struct torch_node *const own = &code->tree->nodes[node];
    switch (own->kind) {
    case TORCH_LAYER:
        put_layer(code, &code->tree->places[own->place]);
        break;
    case TORCH_NAMESPACE:
        fputs("nn.Module()", code->out);
        break;
    case TORCH_LIST:
        fputs("nn.ModuleList([", code->out);
        put_children(code, node, false, indent);
        fputs("])", code->out);
        break;
    case TORCH_SEQUENTIAL:
        put_sequential(code, node, indent);
        break;
    case TORCH_CLASS:
        put_instance(code, node);
    }
}

/* ---- __init__ ---- */

static bool is_parameter(const struct torch_tree *tree, const struct torch_node *node)
{
    return node->place != TORCH_NONE && tree->places[node->place].layer->kind == LAYER_SCALE;
}

static bool is_attribute(const struct torch_tree *tree, const struct torch_node *node)
{
    const bool is_both = is_parameter(tree, node) && node->child != TORCH_NONE;
    const bool is_in_layer = tree->nodes[node->parent].kind == TORCH_LAYER;
    return torch_word_is_attribute(node->word, node->bytes, is_in_layer) && !is_both;
}

/* Write how the class reaches a node: "self.layer1[0].conv1". */
static void put_access(struct code *code, uint32_t node, bool as_parameter)
{
    const struct torch_node *const own = &code->tree->nodes[node];
    if (node == code->top) {
        fputs("self", code->out);
        return;
    }
    put_access(code, own->parent, false);
    if (code->tree->nodes[own->parent].kind == TORCH_LIST)
        fprintf(code->out, "[%.*s]", (int)own->bytes, own->word);
    else if (is_attribute(code->tree, own))
        fprintf(code->out, ".%.*s", (int)own->bytes, own->word);
    else {
        fputs(as_parameter ? "._parameters[" : "._modules[", code->out);
        python_literal_write(code->out, own->word, own->bytes);
        fputc(']', code->out);
    }
}

static void put_parameter(struct code *code, uint32_t node)
{
    const struct torch_node *const own = &code->tree->nodes[node];
    fprintf(code->out, "%*s", (int)(2 * INDENT), "");
    put_access(code, node, true);
    put_count(code, SLOT_CHANNELS, " = nn.Parameter(torch.ones(", NULL,
              code->tree->places[own->place].layer->out.channels);
    fputs(", 1, 1))\n", code->out);
}

static void declare(struct code *code, uint32_t node);

/* Declare the modules in the module of a node that its expression does not contain. */
static void declare_inner(struct code *code, uint32_t node)
{
    const enum torch_kind kind = code->tree->nodes[node].kind;
    if (node != code->top && (kind == TORCH_SEQUENTIAL || kind == TORCH_CLASS))
        return;
    for (uint32_t child = code->tree->nodes[node].child; child != TORCH_NONE; child = code->tree->nodes[child].next) {
        if (kind == TORCH_LIST)
            declare_inner(code, child);
        else
            declare(code, child);
    }
}

static void declare(struct code *code, uint32_t node)
{
    const struct torch_node *const own = &code->tree->nodes[node];
    const bool is_layer = own->kind == TORCH_LAYER;
    if (is_parameter(code->tree, own))
        put_parameter(code, node);
    if (!is_layer || (torch_layer_has_module(code->tree->places[own->place].layer) &&
                      !torch_node_is_function(code->tree, node))) {
        fprintf(code->out, "%*s", (int)(2 * INDENT), "");
        put_access(code, node, false);
        fputs(" = ", code->out);
        put_module(code, node, 2 * INDENT);
        fputc('\n', code->out);
    }
    declare_inner(code, node);
}

static void put_init(struct code *code)
{
    fputs("    def __init__(self", code->out);
    for (uint32_t i = 0; code->written != NULL && i < code->written->argument_count; i++)
        fprintf(code->out, ", %s", code->written->arguments[i].name);
    fputs("):\n        super().__init__()\n", code->out);
    declare_inner(code, code->top);
}

/* ---- forward: what is computed ---- */

static uint32_t value_index(const struct code *code, uint32_t value)
{
    return value == TORCH_IMAGE ? code->tree->place_count : value;
}

static const uint32_t *step_inputs(const struct code *code, const struct step *step, uint32_t *count_out)
{
    if (step->block != TORCH_NONE) {
        *count_out = 1;
        return &code->tree->nodes[step->block].input;
    }
    *count_out = code->tree->places[step->place].layer->input_count;
    return code->tree->places[step->place].inputs;
}

static void find_steps(struct code *code)
{
    const struct torch_tree *const tree = code->tree;
    const struct torch_node *const top = &tree->nodes[code->top];
    code->step_count = 0;
    for (uint32_t i = top->first; i < top->first + top->count; i++) {
        const uint32_t block = torch_node_find_block(tree, code->top, tree->places[i].node);
        const uint32_t output = block == TORCH_NONE ? i : tree->nodes[block].output;
        code->steps[code->step_count++] = (struct step){ block, i, output };
        i = block == TORCH_NONE ? i : tree->nodes[block].last;
    }
}

static void find_uses(struct code *code)
{
    const size_t bytes = ((size_t)code->tree->place_count + 1) * sizeof(uint32_t);
    uint32_t count;
    memset(code->last_use, 0, bytes);
    memset(code->uses_of, 0, bytes);
    for (uint32_t i = 0; i < code->step_count; i++) {
        const uint32_t *const inputs = step_inputs(code, &code->steps[i], &count);
        for (uint32_t k = 0; k < count; k++) {
            code->last_use[value_index(code, inputs[k])] = i;
            code->uses_of[value_index(code, inputs[k])]++;
        }
    }
}

/* A value that the class returns is used after the last step. */
static void add_output(struct code *code, uint32_t value)
{
    code->last_use[value_index(code, value)] = code->step_count;
    code->uses_of[value_index(code, value)]++;
}

static void find_outputs(struct code *code)
{
    const struct torch_tree *const tree = code->tree;
    if (code->top != 0) {
        add_output(code, tree->nodes[code->top].output);
        return;
    }
    add_output(code, tree->logits);
    for (uint32_t i = 0; i < tree->head_count; i++)
        add_output(code, tree->heads[i].value);
}

/* ---- forward: expressions ---- */

static void put_variable(struct code *code, uint32_t value)
{
    static const char letters[] = "xyzuvw";
    const uint32_t variable = code->variable_of[value_index(code, value)];
    if (variable < sizeof(letters) - 1)
        fputc(letters[variable], code->out);
    else
        fprintf(code->out, "x%u", variable);
}

static void put_reshaped(struct code *code, uint32_t value, const char *nested, enum torch_reshape reshape)
{
    static const char *const suffixes[] = {
        [RESHAPE_NONE] = "", [RESHAPE_FLATTEN] = ".flatten(1)", [RESHAPE_TO_IMAGE] = "[:, :, None, None]",
    };
    if (nested != NULL)
        fputs(nested, code->out);
    else
        put_variable(code, value);
    fputs(suffixes[reshape], code->out);
}

/* Write the inputs of an operation, which are images if not all of them are flat. */
static void put_operands(struct code *code, const struct torch_place *place, const char *between)
{
    for (uint32_t i = 0; i < place->layer->input_count; i++) {
        const bool is_flat = torch_value_is_flat(code->tree, place->inputs[i]);
        fputs(i > 0 ? between : "", code->out);
        put_reshaped(code, place->inputs[i], NULL, is_flat && !place->is_flat ? RESHAPE_TO_IMAGE : RESHAPE_NONE);
    }
}

static void put_operation(struct code *code, const struct torch_place *place, const char *nested)
{
    switch (place->layer->kind) {
    case LAYER_ADD:
        put_operands(code, place, " + ");
        break;
    case LAYER_MULTIPLY:
        put_operands(code, place, " * ");
        break;
    case LAYER_CONCAT:
        fputs("torch.cat([", code->out);
        put_operands(code, place, ", ");
        fputs("], 1)", code->out);
        break;
    default:
        put_access(code, place->node, true);
        fputs(" * ", code->out);
        put_reshaped(code, place->inputs[0], nested,
                     torch_layer_reshapes(code->tree, (uint32_t)(place - code->tree->places)));
    }
}

static void put_function(struct code *code, const struct layer *layer, uint32_t value, const char *nested)
{
    static const char *const names[ACTIVATION_COUNT] = {
        [ACTIVATION_CLIPPED_RELU] = "F.hardtanh(",       [ACTIVATION_SIGMOID] = "torch.sigmoid(",
        [ACTIVATION_HARD_SIGMOID] = "F.hardsigmoid(",    [ACTIVATION_SILU] = "F.silu(",
        [ACTIVATION_HARD_SWISH] = "F.hardswish(",        [ACTIVATION_GELU] = "F.gelu(",
    };
    code->uses |= USE_FUNCTIONAL;
    fputs(layer->kind == LAYER_RELU ? "F.relu(" : names[layer->activation], code->out);
    put_reshaped(code, value, nested, RESHAPE_NONE);
    if (layer->kind == LAYER_ACTIVATION && layer->activation == ACTIVATION_CLIPPED_RELU)
        put_float(code, SLOT_NUMBER, ", 0.0, ", NULL, layer->limit);
    fputc(')', code->out);
}

/* Write the expression of a step. `nested`: the expression of its input, where that has no variable of its own. */
static void put_step(struct code *code, const struct step *step, const char *nested)
{
    const struct torch_tree *const tree = code->tree;
    const struct torch_place *const place = &tree->places[step->place];
    const uint32_t node = step->block != TORCH_NONE ? step->block : place->node;
    if (step->block == TORCH_NONE && !torch_layer_has_module(place->layer)) {
        put_operation(code, place, nested);
        return;
    }
    const uint32_t input = step->block != TORCH_NONE ? tree->nodes[node].input : place->inputs[0];
    if (step->block == TORCH_NONE && torch_node_is_function(tree, node)) {
        put_function(code, place->layer, input, nested);
        return;
    }
    put_access(code, node, false);
    fputc('(', code->out);
    put_reshaped(code, input, nested,
                 step->block != TORCH_NONE ? torch_node_reshapes(tree, node) : torch_layer_reshapes(tree, step->place));
    fputc(')', code->out);
}

/* The caller frees it; NULL: out of memory. */
static char *step_text(struct code *code, const struct step *step, const char *nested)
{
    FILE *const out = code->out;
    char *text = NULL;
    size_t bytes;
    code->out = open_memstream(&text, &bytes);
    if (code->out != NULL) {
        put_step(code, step, nested);
        (void)text_stream_end(code->out, &text);
    }
    code->out = out;
    code->failed = code->failed || text == NULL;
    return text;
}

/* ---- forward: statements ---- */

static bool is_in_training_only(const struct code *code, uint32_t step)
{
    return !code->tree->places[code->steps[step].output].is_needed && code->top == 0;
}

/* Is the result of a step the argument of the next one, in the same line? So are normalisations and activations
 * written. */
static bool is_nested(const struct code *code, uint32_t step, const char *text)
{
    const struct torch_tree *const tree = code->tree;
    const struct step *const own = &code->steps[step], *const next = own + 1;
    if (step + 1 == code->step_count || next->block != TORCH_NONE || code->uses_of[own->output] != 1 ||
        tree->places[next->place].inputs[0] != own->output || strlen(text) > NESTED_BYTES ||
        is_in_training_only(code, step) != is_in_training_only(code, step + 1))
        return false;
    const enum layer_kind kind = tree->places[next->place].layer->kind;
    const bool is_call = text[strlen(text) - 1] == ')' && (own->block != TORCH_NONE ||
                         torch_layer_has_module(tree->places[own->place].layer) ||
                         tree->places[own->place].layer->kind == LAYER_CONCAT);
    return kind == LAYER_BATCH_NORM || kind == LAYER_RELU || kind == LAYER_ACTIVATION ||
           kind == LAYER_STOCHASTIC_DEPTH || (is_call && (kind == LAYER_LAYER_NORM || kind == LAYER_SCALE));
}

/* Choose the variable for the result of a step: the first one whose value is not used any more. */
static void choose_variable(struct code *code, uint32_t step)
{
    const uint32_t value = code->steps[step].output;
    uint32_t variable = 0;
    while (code->holds[variable] != TORCH_NONE && code->last_use[code->holds[variable]] > step)
        variable++;
    code->holds[variable] = value;
    code->variable_of[value] = variable;
}

static void put_statement(struct code *code, uint32_t step, const char *text)
{
    const struct torch_tree *const tree = code->tree;
    const bool is_last = step + 1 == code->step_count;
    const bool is_logits = code->top == 0 && tree->head_count == 0 && tree->places[code->steps[step].output].is_flat;
    fprintf(code->out, "%*s", (int)(is_in_training_only(code, step) ? 3 * INDENT : 2 * INDENT), "");
    if (is_last && (code->top != 0 || is_logits) && code->last_use[code->steps[step].output] == code->step_count) {
        fprintf(code->out, "return %s\n", text);
        return;
    }
    choose_variable(code, step);
    put_variable(code, code->steps[step].output);
    fprintf(code->out, " = %s\n", text);
}

static void put_logits(struct code *code, uint32_t value)
{
    put_reshaped(code, value, NULL, torch_value_is_flat(code->tree, value) ? RESHAPE_NONE : RESHAPE_FLATTEN);
}

static void put_return_of_network(struct code *code)
{
    const struct torch_tree *const tree = code->tree;
    if (tree->head_count > 0) {
        fputs("        if self.training:\n            return ", code->out);
        put_logits(code, tree->logits);
        for (uint32_t i = 0; i < tree->head_count; i++) {
            fputs(", ", code->out);
            put_logits(code, tree->heads[i].value);
        }
        fputc('\n', code->out);
    }
    fputs("        return ", code->out);
    put_logits(code, tree->logits);
    fputc('\n', code->out);
}

static void put_return(struct code *code)
{
    const uint32_t last = code->step_count - 1;
    const uint32_t output = code->top == 0 ? code->tree->logits : code->tree->nodes[code->top].output;
    const bool is_last = code->step_count > 0 && code->steps[last].output == output;
    if (code->top == 0 && !(is_last && code->tree->head_count == 0 && torch_value_is_flat(code->tree, output)))
        put_return_of_network(code);
    else if (code->top != 0 && !is_last) {
        fputs("        return ", code->out);
        put_variable(code, output);
        fputc('\n', code->out);
    }
}

static void start_variables(struct code *code)
{
    const uint32_t input = value_index(code, code->top == 0 ? TORCH_IMAGE : code->tree->nodes[code->top].input);
    for (uint32_t i = 0; i <= code->tree->place_count; i++)
        code->holds[i] = TORCH_NONE;
    code->holds[0] = input;
    code->variable_of[input] = 0;
}

static void put_forward(struct code *code)
{
    char *nested = NULL;
    bool was_in_training_only = false;
    find_steps(code);
    find_uses(code);
    find_outputs(code);
    start_variables(code);
    fputs("\n    def forward(self, x):\n", code->out);
    for (uint32_t i = 0; i < code->step_count && !code->failed; i++) {
        char *const text = step_text(code, &code->steps[i], nested);
        free(nested);
        nested = NULL;
        if (text != NULL && is_nested(code, i, text)) {
            nested = text;
            continue;
        }
        if (is_in_training_only(code, i) && !was_in_training_only)
            fputs("        if self.training:\n", code->out);
        was_in_training_only = is_in_training_only(code, i);
        if (text != NULL)
            put_statement(code, i, text);
        free(text);
    }
    free(nested);
    put_return(code);
}

/* ---- classes ---- */

/* Write __init__ and forward of the class of a node. */
static void put_body(struct code *code, uint32_t node)
{
    code->top = node;
    code->slot = 0;
    put_init(code);
    put_forward(code);
}

static char *template_text(struct code *code, uint32_t node)
{
    FILE *const out = code->out;
    char *text = NULL;
    size_t bytes;
    code->out = open_memstream(&text, &bytes);
    if (code->out != NULL) {
        code->gathered = &code->slots[node];
        put_body(code, node);
        code->gathered = NULL;
        (void)text_stream_end(code->out, &text);
    }
    code->out = out;
    code->failed = code->failed || text == NULL;
    return text;
}

static bool is_equal_everywhere(const struct code *code, uint32_t class, uint32_t a, uint32_t b)
{
    for (uint32_t node = 0; node < code->tree->node_count; node++)
        if (code->class_of[node] == class &&
            strcmp(code->slots[node].slot[a].value, code->slots[node].slot[b].value) != 0)
            return false;
    return true;
}

static bool is_constant(const struct code *code, uint32_t class, uint32_t slot)
{
    const struct slot *const first = &code->slots[code->classes[class].node].slot[slot];
    for (uint32_t node = 0; node < code->tree->node_count; node++)
        if (code->class_of[node] == class && strcmp(code->slots[node].slot[slot].value, first->value) != 0)
            return false;
    return true;
}

/* The argument that has the number of this slot, which is added if there is none. */
static uint32_t find_argument(const struct code *code, struct block_class *class, uint32_t slot)
{
    static const char *const names[SLOT_KIND_COUNT] = {
        [SLOT_CHANNELS] = "channels", [SLOT_KERNEL] = "kernel", [SLOT_STRIDE] = "stride", [SLOT_PADDING] = "padding",
        [SLOT_RATE] = "rate", [SLOT_NUMBER] = "number",
    };
    const struct slot *const slots = code->slots[class->node].slot;
    uint32_t same_kind = 0;
    for (uint32_t i = 0; i < class->argument_count; i++) {
        const uint32_t other = class->arguments[i].slot;
        if (slots[other].kind != slots[slot].kind)
            continue;
        if (is_equal_everywhere(code, (uint32_t)(class - code->classes), slot, other))
            return i;
        same_kind++;
    }
    struct argument *const added = &class->arguments[class->argument_count];
    added->slot = slot;
    if (same_kind == 0)
        snprintf(added->name, sizeof(added->name), "%s", names[slots[slot].kind]);
    else
        snprintf(added->name, sizeof(added->name), "%s%u", names[slots[slot].kind], same_kind + 1);
    return class->argument_count++;
}

static void find_arguments(struct code *code, struct block_class *class)
{
    const uint32_t count = code->slots[class->node].count;
    class->argument_of = calloc((size_t)count + 1, sizeof(*class->argument_of));
    class->arguments = calloc((size_t)count + 1, sizeof(*class->arguments));
    if (class->argument_of == NULL || class->arguments == NULL) {
        code->failed = true;
        return;
    }
    for (uint32_t slot = 0; slot < count; slot++)
        class->argument_of[slot] = is_constant(code, (uint32_t)(class - code->classes), slot)
                                       ? TORCH_NONE : find_argument(code, class, slot);
}

/* ---- the names of classes ---- */

static size_t count_letters(const struct torch_node *node)
{
    size_t count = 0;
    while (count < node->bytes && isalpha((unsigned char)node->word[count]) && (unsigned char)node->word[count] < 128)
        count++;
    return count;
}

/* The letters with which the last word of the path begins that begins with a letter, as in LayerBlock for layer1.0. */
static void write_base(const struct torch_tree *tree, uint32_t node, char *text, size_t text_size)
{
    while (node != 0 && count_letters(&tree->nodes[node]) == 0)
        node = tree->nodes[node].parent;
    const int letters = (int)count_letters(&tree->nodes[node]);
    snprintf(text, text_size, "%.*s", letters, tree->nodes[node].word);
    text[0] = (char)toupper((unsigned char)text[0]);
    const bool is_block = letters >= 5 && strcmp(text + letters - 5, "block") == 0;
    snprintf(text + letters, text_size - (size_t)letters, "%s", is_block ? "" : "Block");
}

static bool has_name(const struct code *code, const char *name)
{
    for (uint32_t i = 0; i < code->class_count; i++)
        if (strcmp(code->classes[i].name, name) == 0)
            return true;
    return false;
}

static void choose_name(const struct code *code, struct block_class *class)
{
    char base[56];
    write_base(code->tree, class->node, base, sizeof(base));
    snprintf(class->name, sizeof(class->name), "%s", base);
    for (unsigned number = 2; has_name(code, class->name); number++)
        snprintf(class->name, sizeof(class->name), "%s%u", base, number);
}

/* ---- from templates to classes ---- */

static void add_block(struct code *code, uint32_t node)
{
    char *const template = template_text(code, node);
    for (uint32_t i = 0; template != NULL && i < code->class_count; i++)
        if (strcmp(code->classes[i].template, template) == 0) {
            code->class_of[node] = i;
            free(template);
            return;
        }
    if (template == NULL)
        return;
    struct block_class class = { .template = template, .node = node };
    choose_name(code, &class);
    code->class_of[node] = code->class_count;
    code->classes[code->class_count++] = class;
}

/* The classes of blocks that contain only blocks whose classes are known. */
static void find_classes(struct code *code, uint32_t height)
{
    const uint32_t known = code->class_count;
    for (uint32_t node = 1; node < code->tree->node_count && !code->failed; node++)
        if (code->tree->nodes[node].kind == TORCH_CLASS && code->tree->nodes[node].height == height)
            add_block(code, node);
    for (uint32_t i = known; i < code->class_count && !code->failed; i++)
        find_arguments(code, &code->classes[i]);
}

static void put_path(struct code *code, uint32_t node)
{
    const struct torch_node *const own = &code->tree->nodes[node];
    if (own->parent != 0) {
        put_path(code, own->parent);
        fputc('.', code->out);
    }
    for (uint32_t i = 0; i < own->bytes; i++)
        fputc(own->word[i] > ' ' && own->word[i] < 127 ? own->word[i] : '?', code->out);
}

/* Write the comment that names the blocks of a class. */
static void put_blocks(struct code *code, uint32_t class)
{
    uint32_t count = 0;
    fputs("# ", code->out);
    for (uint32_t node = 1; node < code->tree->node_count; node++) {
        if (code->class_of[node] != class)
            continue;
        if (count < NAMED_MOST) {
            fputs(count > 0 ? ", " : "", code->out);
            put_path(code, node);
        }
        count++;
    }
    if (count > NAMED_MOST)
        fprintf(code->out, " and %u more", count - NAMED_MOST);
    fputc('\n', code->out);
}

static void put_classes(struct code *code)
{
    for (uint32_t i = 0; i < code->class_count && !code->failed; i++) {
        put_blocks(code, i);
        fprintf(code->out, "class %s(nn.Module):\n", code->classes[i].name);
        code->written = &code->classes[i];
        put_body(code, code->classes[i].node);
        fputs("\n\n", code->out);
    }
    code->written = NULL;
    fputs("class Network(nn.Module):\n", code->out);
    put_body(code, 0);
}

static int allocate(struct code *code)
{
    const size_t nodes = code->tree->node_count, values = (size_t)code->tree->place_count + 1;
    code->slots = calloc(nodes, sizeof(*code->slots));
    code->class_of = calloc(nodes, sizeof(*code->class_of));
    code->classes = calloc(nodes, sizeof(*code->classes));
    code->steps = calloc(values, sizeof(*code->steps));
    code->last_use = calloc(4 * values, sizeof(*code->last_use));
    if (code->slots == NULL || code->class_of == NULL || code->classes == NULL || code->steps == NULL ||
        code->last_use == NULL)
        return -ENOMEM;
    code->uses_of = code->last_use + values;
    code->variable_of = code->uses_of + values;
    code->holds = code->variable_of + values;
    for (size_t i = 0; i < nodes; i++)
        code->class_of[i] = TORCH_NONE;
    return 0;
}

static void release(struct code *code)
{
    for (uint32_t i = 0; i < code->class_count; i++) {
        free(code->classes[i].template);
        free(code->classes[i].argument_of);
        free(code->classes[i].arguments);
    }
    for (uint32_t i = 0; code->slots != NULL && i < code->tree->node_count; i++)
        free(code->slots[i].slot);
    free(code->slots);
    free(code->class_of);
    free(code->classes);
    free(code->steps);
    free(code->last_use);
}

const struct layer *torch_code_find_unknown(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        const bool is_loss = layer->kind == LAYER_SOFTMAX_LOSS || layer->kind == LAYER_AUXILIARY_LOSS;
        if (torch_layer_has_module(layer) && !is_loss && layer->kind != LAYER_BATCH_NORM &&
            layer_table[layer->kind] == NULL)
            return layer;
    }
    return NULL;
}

int torch_code_write(const struct torch_tree *tree, FILE *out, unsigned *uses_out)
{
    struct code code = { .tree = tree, .out = out };
    code.failed = allocate(&code) != 0;
    for (uint32_t height = 1; !code.failed && height < tree->nodes[0].height; height++)
        find_classes(&code, height);
    if (!code.failed)
        put_classes(&code);
    release(&code);
    *uses_out = code.uses;
    return code.failed ? -ENOMEM : 0;
}
