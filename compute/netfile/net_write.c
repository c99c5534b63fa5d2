/* Writing a network as a text: a line per layer; layers that repeat, except for a number that counts up, are written as
 * a repeat. Padding of 0, default initialisers, and an input that is the layer before are omitted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_text.h"
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

/* Write the numbers of all channels, or one number if they are equal. */
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

/* ---- the values of layers, by kind ---- */

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

/* A number of units that is that of the classes is written as the word `classes`, so that it follows another number of
 * classes. */
static void write_units(const char *word, uint32_t units, bool are_classes, FILE *out)
{
    if (are_classes)
        fprintf(out, " %s classes", word);
    else
        fprintf(out, " %s %u", word, units);
}

/* Is it the last layer with weights? Others may have as many channels as there are classes by chance. */
static bool is_last_with_weights(const struct net *net, const struct layer *layer)
{
    const struct layer *last = &net->layers[net->layer_count - 1];
    while (!layer_has(last, PARAMETER_WEIGHT) && last->inputs[0] != NET_INPUT)
        last = &net->layers[last->inputs[0]];
    return last == layer;
}

static void write_conv2d(const struct net *net, const struct layer *layer, FILE *out)
{
    const uint32_t filters = layer->out.channels;
    write_units("filters", filters, filters == net->classes && is_last_with_weights(net, layer), out);
    write_window(layer, out);
    if (layer->groups > 1)
        fprintf(out, " groups %u", layer->groups);
    write_bias(layer, out);
}

static void write_dense(const struct net *net, const struct layer *layer, FILE *out)
{
    write_units("units", layer->out.channels, layer->out.channels == net->classes, out);
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

static void write_layer_norm(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    write_number(" epsilon ", layer->epsilon, out);
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

static void write_activation(const struct net *net, const struct layer *layer, FILE *out)
{
    (void)net;
    if (layer->activation == ACTIVATION_CLIPPED_RELU)
        write_number(" limit ", layer->limit, out);
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

/* Kinds without a row have no values. */
static void (*const writers[LAYER_KIND_COUNT])(const struct net *, const struct layer *, FILE *) = {
    [LAYER_CONV2D] = write_conv2d,
    [LAYER_DENSE] = write_dense,
    [LAYER_BATCH_NORM] = write_batch_norm,
    [LAYER_LAYER_NORM] = write_layer_norm,
    [LAYER_ACTIVATION] = write_activation,
    [LAYER_MAX_POOL] = write_pool,
    [LAYER_AVERAGE_POOL] = write_pool,
    [LAYER_DROPOUT] = write_dropout,
    [LAYER_STOCHASTIC_DEPTH] = write_dropout,
    [LAYER_LOCAL_RESPONSE_NORM] = write_response_norm,
    [LAYER_PAD_CHANNELS] = write_pad_channels,
    [LAYER_AUXILIARY_LOSS] = write_auxiliary_loss,
};

/* ---- values of layers of every kind ---- */

static bool is_same(struct initializer a, struct initializer b)
{
    return a.kind == b.kind && memcmp(&a.value, &b.value, sizeof(a.value)) == 0;
}

/* The rule that gives the parameter's initialiser, or NULL. */
static const struct net_fan_rule *rule_of(const struct parameter *parameter)
{
    struct initializer made;
    for (uint32_t i = 0; i < NET_FAN_RULES; i++)
        if (net_fan_rule_use(&net_fan_rules[i], parameter, &made) && is_same(made, parameter->initializer))
            return &net_fan_rules[i];
    return NULL;
}

static void write_init(const struct parameter *parameter, FILE *out)
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

/* Write two strings, each with its terminating 0: the text before the layer's inputs, and the text after them. */
static void write_layer(const struct net *net, uint32_t index, FILE *out)
{
    const struct layer *const layer = &net->layers[index];
    const bool is_global_average = layer_is_global_average(layer);
    fprintf(out, "%s %s", is_global_average ? net_form_name(&net_forms[NET_GLOBAL_AVERAGE]) : layer_word(layer),
            layer->name);
    fputc('\0', out);
    if (!is_global_average && writers[layer->kind] != NULL)
        writers[layer->kind](net, layer, out);
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind))
            write_init(&net->parameters[layer->parameters[kind]], out);
    fputc('\0', out);
}

/* ---- finding repeats ---- */

/* In a repeat, a line names its inputs relative to its iteration: the line before, the layer before the iteration, or a
 * layer by its name. Two iterations make a pattern, in which numbers that are one more in the second become the
 * counter; the following iterations must equal the pattern with their numbers filled in. */

#define COUNTER "{i}"
#define COUNTER_DIGITS 6u       /* most digits of a counter */
#define REPEAT_LINES 2u         /* lines that a repeat adds: "repeat" and "end" */
#define NOT_COUNTED UINT32_MAX  /* no number has counted yet */

/* The lines of all layers, without their inputs. */
struct script {
    const struct net *net;
    const char **front, **rest; /* by layer: kind and name; the text after its inputs */
};

struct row { char text[NET_FILE_LINE_MAX + 1]; };

/* A range of layers that is written as a repeat: `turns` iterations of `lines` lines. */
struct fold {
    uint32_t first;             /* first layer of the first iteration */
    uint32_t lines;
    uint32_t turns;             /* 1: a single layer, not a repeat */
    uint32_t counts_from;
};

static void add_bytes(struct row *row, const char *text, size_t bytes)
{
    const size_t used = strlen(row->text), room = sizeof(row->text) - 1 - used;
    const size_t added = bytes < room ? bytes : room;
    memcpy(row->text + used, text, added);
    row->text[used + added] = '\0';
}

static void add_text(struct row *row, const char *text)
{
    add_bytes(row, text, strlen(text));
}

static uint32_t layer_before(uint32_t layer)
{
    return layer == 0 ? NET_INPUT : layer - 1;
}

/* The name of a layer that a line reads. */
static const char *name_of(const struct net *net, uint32_t input)
{
    return input == NET_INPUT ? "image" : net->layers[input].name;
}

/* The name of a layer that line `layer` reads, in an iteration that starts with layer `turn`. */
static const char *name_in_turn(const struct net *net, uint32_t input, uint32_t layer, uint32_t turn)
{
    if (input == layer_before(layer))
        return "before";
    return input == layer_before(turn) ? "start" : name_of(net, input);
}

/* Write the line of a layer. *turn is the first layer of its iteration; turn NULL: the layer is not in a repeat. */
static void write_line(const struct script *script, uint32_t layer, const uint32_t *turn, struct row *row_out)
{
    const struct layer *const what = &script->net->layers[layer];
    const bool reads_before = net_forms[what->kind].most_inputs == 1 && what->inputs[0] == layer_before(layer);
    row_out->text[0] = '\0';
    add_text(row_out, script->front[layer]);
    for (uint32_t i = 0; i < what->input_count && !reads_before; i++) {
        const uint32_t input = what->inputs[i];
        add_text(row_out, i == 0 ? " from " : ",");
        add_text(row_out, turn != NULL ? name_in_turn(script->net, input, layer, *turn) : name_of(script->net, input));
    }
    add_text(row_out, script->rest[layer]);
}

/* ---- patterns ---- */

static size_t digits_at(const char *text)
{
    return strspn(text, "0123456789");
}

/* Read a number that is written as a counter would be. */
static bool read_counter(const char *text, size_t digits, uint32_t *number_out)
{
    if (digits > COUNTER_DIGITS || (digits > 1 && text[0] == '0'))
        return false;
    *number_out = (uint32_t)strtoul(text, NULL, 10);
    return true;
}

/* Is the second number one more than the first, and the first the start of the counter? */
static bool counts(const char *a, size_t a_digits, const char *b, size_t b_digits, uint32_t *counts_from)
{
    uint32_t first, second;
    if (!read_counter(a, a_digits, &first) || !read_counter(b, b_digits, &second) || second != first + 1)
        return false;
    if (*counts_from == NOT_COUNTED)
        *counts_from = first;
    return *counts_from == first;
}

/* Make the pattern of two lines, with the counter in it. False: the lines differ in something else. */
static bool make_pattern(const char *a, const char *b, uint32_t *counts_from, struct row *pattern_out)
{
    pattern_out->text[0] = '\0';
    while (*a != '\0' || *b != '\0') {
        const size_t a_digits = digits_at(a), b_digits = digits_at(b);
        const size_t a_bytes = a_digits > 0 ? a_digits : 1, b_bytes = b_digits > 0 ? b_digits : 1;
        const bool is_same = a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
        if (is_same)
            add_bytes(pattern_out, a, a_bytes);
        else if (a_digits > 0 && b_digits > 0 && counts(a, a_digits, b, b_digits, counts_from))
            add_text(pattern_out, COUNTER);
        else
            return false;
        a += a_bytes;
        b += b_bytes;
    }
    return true;
}

/* Replace the counter of a pattern by a number. */
static void fill_pattern(const struct row *pattern, uint32_t number, struct row *row_out)
{
    char digits[16];
    snprintf(digits, sizeof(digits), "%u", number);
    row_out->text[0] = '\0';
    for (const char *at = pattern->text;;) {
        const char *const counter = strstr(at, COUNTER);
        if (counter == NULL) {
            add_text(row_out, at);
            return;
        }
        add_bytes(row_out, at, (size_t)(counter - at));
        add_text(row_out, digits);
        at = counter + strlen(COUNTER);
    }
}

/* ---- repeats ---- */

/* Find the pattern of a line in the first two iterations. */
static bool find_pattern(const struct script *script, const struct fold *fold, uint32_t line,
                         uint32_t *counts_from, struct row *pattern_out)
{
    const uint32_t second = fold->first + fold->lines;
    struct row a, b;
    if (script->net->layers[fold->first + line].kind != script->net->layers[second + line].kind)
        return false;
    write_line(script, fold->first + line, &fold->first, &a);
    write_line(script, second + line, &second, &b);
    return make_pattern(a.text, b.text, counts_from, pattern_out);
}

static bool begins_twice(const struct script *script, struct fold *fold)
{
    struct row pattern;
    fold->counts_from = NOT_COUNTED;
    for (uint32_t line = 0; line < fold->lines; line++)
        if (!find_pattern(script, fold, line, &fold->counts_from, &pattern))
            return false;
    return true;
}

/* Do the next layers form another iteration? */
static bool goes_on(const struct script *script, const struct fold *fold)
{
    const uint32_t next = fold->first + fold->turns * fold->lines;
    if (next + fold->lines > script->net->layer_count)
        return false;
    for (uint32_t line = 0; line < fold->lines; line++) {
        uint32_t counts_from = fold->counts_from;
        struct row pattern, expected, row;
        find_pattern(script, fold, line, &counts_from, &pattern);
        fill_pattern(&pattern, fold->counts_from + fold->turns, &expected);
        write_line(script, next + line, &next, &row);
        if (strcmp(row.text, expected.text) != 0)
            return false;
    }
    return true;
}

/* Does fold a write fewer lines per layer than fold b? */
static bool is_shorter(const struct fold *a, const struct fold *b)
{
    const uint64_t a_written = a->lines + REPEAT_LINES, b_written = b->turns == 1 ? b->lines : b->lines + REPEAT_LINES;
    return a_written * b->lines * b->turns < b_written * a->lines * a->turns;
}

static struct fold find_fold(const struct script *script, uint32_t first)
{
    struct fold best = { .first = first, .lines = 1, .turns = 1 };
    const uint32_t most = (script->net->layer_count - first) / 2;
    for (uint32_t lines = 1; lines <= most; lines++) {
        struct fold fold = { .first = first, .lines = lines, .turns = 2 };
        if (!begins_twice(script, &fold))
            continue;
        while (goes_on(script, &fold))
            fold.turns++;
        if (is_shorter(&fold, &best))
            best = fold;
    }
    return best;
}

static void fold_line(const struct script *script, const struct fold *fold, uint32_t line, struct row *row_out)
{
    uint32_t counts_from = fold->counts_from;
    if (fold->turns == 1)
        write_line(script, fold->first, NULL, row_out);
    else
        find_pattern(script, fold, line, &counts_from, row_out);
}

/* ---- the whole ---- */

/* Write the strings of all layers, in order. The caller frees them. */
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

static void write_fold(const struct script *script, const struct fold *fold, FILE *out)
{
    const bool repeats = fold->turns > 1;
    struct row row;
    if (repeats)
        fprintf(out, "repeat %u as i", fold->turns);
    if (repeats && fold->counts_from != 1)
        fprintf(out, " from %u", fold->counts_from);
    fputs(repeats ? "\n" : "", out);
    for (uint32_t line = 0; line < fold->lines; line++) {
        fold_line(script, fold, line, &row);
        fprintf(out, "%s%s\n", repeats ? "    " : "", row.text);
    }
    fputs(repeats ? "end\n" : "", out);
}

static void write_script(const struct script *script, FILE *out)
{
    for (uint32_t layer = 0; layer < script->net->layer_count;) {
        const struct fold fold = find_fold(script, layer);
        write_fold(script, &fold, out);
        layer += fold.lines * fold.turns;
    }
}

static int write_body(const struct net *net, FILE *out)
{
    char *text = NULL;
    const char **const places = calloc((size_t)2 * net->layer_count + 1, sizeof(*places));
    const struct script script = { net, places, places + net->layer_count };
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
        fits = fits && net_name_fits(net->layers[i].name) && !net_name_is_reserved(net->layers[i].name);
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
