/* The forms of layers: which words their lines take, how the values of the words are read, and which layer is
 * appended. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "compute/netfile/net_text.h"
#include "stage/text/names.h"

enum net_word {
    WORD_FROM,
    WORD_FILTERS,
    WORD_GROUPS,
    WORD_UNITS,
    WORD_CHANNELS,
    WORD_KERNEL,
    WORD_STRIDE,
    WORD_PADDING,
    WORD_NO_BIAS,
    WORD_NO_GAMMA,
    WORD_DECAY,
    WORD_EPSILON,
    WORD_RATE,
    WORD_LIMIT,
    WORD_SIZE,
    WORD_ALPHA,
    WORD_BETA,
    WORD_K,
    WORD_WEIGHT,
    WORD_INIT,
    WORD_COUNT
};

#define BIT(word) (UINT32_C(1) << (word))
#define WINDOW (BIT(WORD_KERNEL) | BIT(WORD_STRIDE) | BIT(WORD_PADDING))
#define ONE .least_inputs = 1, .most_inputs = 1

const char *const net_parameter_words[PARAMETER_KIND_COUNT] = {
    [PARAMETER_WEIGHT] = "weight",
    [PARAMETER_BIAS] = "bias",
    [PARAMETER_GAMMA] = "gamma",
    [PARAMETER_BETA] = "beta",
    [PARAMETER_RUNNING_MEAN] = "running_mean",
    [PARAMETER_RUNNING_VARIANCE] = "running_variance",
};

const char *const net_initializer_words[INITIALIZER_KIND_COUNT] = {
    [INITIALIZER_CONSTANT] = "constant",
    [INITIALIZER_GLOROT_UNIFORM] = "glorot_uniform",
    [INITIALIZER_TRUNCATED_NORMAL] = "truncated_normal",
    [INITIALIZER_NORMAL] = "normal",
    [INITIALIZER_UNIFORM] = "uniform",
};

/* The initialiser HeNormal of Keras: variance 2 / fan_in after truncation. */
static struct initializer he_normal(uint64_t fan_in)
{
    struct initializer how = initializer_variance_scaling(fan_in);
    how.value = (float)(how.value * sqrt(2));
    return how;
}

const struct net_fan_rule net_fan_rules[NET_FAN_RULES] = {
    { "variance_scaling", initializer_variance_scaling, false },
    { "he_normal", he_normal, false },
    { "he_normal_fan_out", initializer_he_normal, true },
};

bool net_fan_rule_use(const struct net_fan_rule *rule, const struct parameter *parameter,
                      struct initializer *initializer_out)
{
    const uint64_t fan = rule->of_fan_out ? parameter->fan_out : parameter->fan_in;
    if (fan == 0)
        return false;
    *initializer_out = rule->initializer(fan);
    return true;
}

/* ---- words and their values ---- */

/* The arguments of a reader: the first value, the rest of the line, and the field for the result. Readers take the
 * values that they need from the line and return the problem with them, or NULL. */
struct value {
    const char *text;
    struct net_words *words;
    struct net_layer_text *layer;
    void *field;
};

static const char *read_count(struct value *value)
{
    return net_read_product(value->text, value->field) ? NULL : "is no whole number from 1 to 2147483647";
}

static const char *read_units(struct value *value)
{
    if (strcmp(value->text, "classes") != 0)
        return read_count(value);
    *(uint32_t *)value->field = value->layer->classes;
    return NULL;
}

static const char not_a_number[] = "is not a finite number, product or quotient (as 0.2*3/16)";

static const char *read_double(struct value *value)
{
    return net_read_double(value->text, value->field) ? NULL : not_a_number;
}

static const char *read_number(struct value *value)
{
    return net_read_number(value->text, value->field) ? NULL : not_a_number;
}

/* Read a pair of numbers: "1x7", or "3" for two equal numbers. */
static const char *read_pair(const char *text, uint32_t *height, uint32_t *width)
{
    const char *end;
    bool fits = net_read_count(text, 1, height, &end);
    if (fits && *end == '\0')
        *width = *height;
    else
        fits = fits && *end == 'x' && net_read_whole(end + 1, 1, width);
    return fits ? NULL : "is neither a whole number above 0 nor HEIGHTxWIDTH";
}

static const char *read_kernel(struct value *value)
{
    struct window *const window = value->field;
    return read_pair(value->text, &window->kernel_h, &window->kernel_w);
}

static const char *read_stride(struct value *value)
{
    struct window *const window = value->field;
    return read_pair(value->text, &window->stride_h, &window->stride_w);
}

/* Read "1" (all sides) or "0,1,0,1" (top, bottom, left, right). */
static bool read_sides(const char *text, struct window *window)
{
    uint32_t *const sides[] = { &window->top, &window->bottom, &window->left, &window->right };
    if (net_read_whole(text, 0, sides[0])) {
        window->bottom = window->left = window->right = window->top;
        return true;
    }
    for (int i = 0; i < 4; i++) {
        if (!net_read_count(text, 0, sides[i], &text) || *text != (i < 3 ? ',' : '\0'))
            return false;
        text++;
    }
    return true;
}

static const char *read_padding(struct value *value)
{
    struct window *const window = value->field;
    if (strcmp(value->text, "valid") == 0)
        window->padding = PADDING_VALID;
    else if (strcmp(value->text, "same") == 0)
        window->padding = PADDING_SAME;
    else if (read_sides(value->text, window))
        window->padding = PADDING_EXPLICIT;
    else
        return "is none of: valid, same, PIXELS, TOP,BOTTOM,LEFT,RIGHT";
    return NULL;
}

/* Read the names between the commas, which are replaced by terminating zeros. */
static const char *read_from(struct value *value)
{
    char *at = value->words->text + (value->text - value->words->text);
    for (bool is_last = false; !is_last; at++) {
        if (value->layer->from_count == LAYER_INPUTS_MAX)
            return "names more layers than a layer can read";
        value->layer->from[value->layer->from_count++] = at;
        at += strcspn(at, ",");
        is_last = *at == '\0';
        *at = '\0';
    }
    return NULL;
}

static bool find_text(const char *const *words, uint32_t count, const char *word, uint32_t *found_out)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0) {
            *found_out = i;
            return true;
        }
    return false;
}

static const char *read_initializer(struct value *value, struct net_init *init)
{
    uint32_t kind;
    const char *const word = net_words_next(value->words);
    if (word == NULL)
        return "is not followed by an initialiser";
    value->text = word;
    for (uint32_t i = 0; i < NET_FAN_RULES; i++)
        if (strcmp(net_fan_rules[i].word, word) == 0) {
            init->rule = &net_fan_rules[i];
            return NULL;
        }
    if (!find_text(net_initializer_words, INITIALIZER_KIND_COUNT, word, &kind))
        return "is none of: constant, glorot_uniform, truncated_normal, normal, uniform, variance_scaling, he_normal, "
               "he_normal_fan_out";
    init->initializer = (struct initializer){ .kind = kind };
    if (kind == INITIALIZER_GLOROT_UNIFORM)
        return NULL;
    const char *const number = net_words_next(value->words);
    if (number == NULL)
        return "is not followed by its number";
    value->text = number;
    if (!net_read_number(number, &init->initializer.value))
        return not_a_number;
    return kind == INITIALIZER_CONSTANT || init->initializer.value >= 0 ? NULL : "is below 0";
}

static const char *read_init(struct value *value)
{
    uint32_t kind;
    if (!find_text(net_parameter_words, PARAMETER_KIND_COUNT, value->text, &kind))
        return "is none of: weight, bias, gamma, beta, running_mean, running_variance";
    struct net_init *const init = &value->layer->inits[kind];
    if (init->is_given)
        return "is initialised twice";
    init->is_given = true;
    return read_initializer(value, init);
}

/* A word, and the reader of its values; NULL: the word has no values. */
struct word_row {
    const char *name;
    const char *(*read)(struct value *value);
    size_t offset;
};

#define FIELD(name) offsetof(struct net_layer_text, name)

static const struct word_row word_rows[WORD_COUNT] = {
    [WORD_FROM] = { "from", read_from, 0 },
    [WORD_FILTERS] = { "filters", read_units, FIELD(filters) },
    [WORD_GROUPS] = { "groups", read_count, FIELD(groups) },
    [WORD_UNITS] = { "units", read_units, FIELD(units) },
    [WORD_CHANNELS] = { "channels", read_count, FIELD(channels) },
    [WORD_KERNEL] = { "kernel", read_kernel, FIELD(window) },
    [WORD_STRIDE] = { "stride", read_stride, FIELD(window) },
    [WORD_PADDING] = { "padding", read_padding, FIELD(window) },
    [WORD_NO_BIAS] = { "no_bias", NULL, 0 },
    [WORD_NO_GAMMA] = { "no_gamma", NULL, 0 },
    [WORD_DECAY] = { "decay", read_double, FIELD(decay) },
    [WORD_EPSILON] = { "epsilon", read_number, FIELD(epsilon) },
    [WORD_LIMIT] = { "limit", read_number, FIELD(limit) },
    [WORD_RATE] = { "rate", read_number, FIELD(rate) },
    [WORD_SIZE] = { "size", read_count, FIELD(size) },
    [WORD_ALPHA] = { "alpha", read_number, FIELD(alpha) },
    [WORD_BETA] = { "beta", read_number, FIELD(beta) },
    [WORD_K] = { "k", read_number, FIELD(k) },
    [WORD_WEIGHT] = { "weight", read_number, FIELD(weight) },
    [WORD_INIT] = { "init", read_init, 0 },
};

static const char *word_name(enum net_word word)
{
    return word_rows[word].name;
}

static enum net_word find_word(const char *name)
{
    enum net_word word = 0;
    while (word < WORD_COUNT && strcmp(word_rows[word].name, name) != 0)
        word++;
    return word;
}

bool net_form_has_word(const char *name)
{
    return find_word(name) != WORD_COUNT;
}

void net_form_set_defaults(struct net_layer_text *text)
{
    *text = (struct net_layer_text){ .groups = 1, .window = window_square(1, 1, PADDING_VALID),
                                     .decay = 0.9, .epsilon = 1e-5f,
                                     .alpha = 1e-4f, .beta = 0.75f, .k = 1.0f };
}

static bool read_values(enum net_word word, struct net_words *words, struct net_layer_text *text, uint32_t line,
                   struct net_problems *problems)
{
    const struct word_row *const row = &word_rows[word];
    if (row->read == NULL)
        return true;
    struct value value = { net_words_next(words), words, text, (char *)text + row->offset };
    if (value.text == NULL) {
        net_problems_add(problems, line, "%s: the value is missing", row->name);
        return false;
    }
    const char *const problem = row->read(&value);
    if (problem != NULL)
        net_problems_add(problems, line, "%s: '%.60s' %s", row->name, value.text, problem);
    return problem == NULL || word != WORD_INIT;
}

/* ---- appending the layer of a line ---- */

static bool has(const struct net_layer_text *text, enum net_word word)
{
    return (text->given & BIT(word)) != 0;
}

static int64_t append_conv2d(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    const struct conv2d how = { text->filters, text->groups, text->window, !has(text, WORD_NO_BIAS) };
    return net_grouped_conv2d(net, name, from[0], how);
}

static int64_t append_dense(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    return net_dense(net, name, from[0], text->units, !has(text, WORD_NO_BIAS));
}

static int64_t append_batch_norm(struct net *net, const char *name, const uint32_t *from,
                                 const struct net_layer_text *text)
{
    const struct batch_norm how = { text->decay, text->epsilon, !has(text, WORD_NO_GAMMA) };
    return net_batch_norm(net, name, from[0], how);
}

#define LAYER_NORM_EPSILON 1e-6f

static int64_t append_layer_norm(struct net *net, const char *name, const uint32_t *from,
                                 const struct net_layer_text *text)
{
    return net_layer_norm(net, name, from[0], has(text, WORD_EPSILON) ? text->epsilon : LAYER_NORM_EPSILON);
}

static int64_t append_scale(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    (void)text;
    return net_scale(net, name, from[0]);
}

static int64_t append_relu(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    return has(text, WORD_LIMIT) ? net_clipped_relu(net, name, from[0], text->limit) : net_relu(net, name, from[0]);
}

static int64_t append_activation(struct net *net, const char *name, const uint32_t *from,
                                 const struct net_layer_text *text)
{
    return net_activation(net, name, from[0], text->activation);
}

/* The window of a pool. Its stride is the size of the window unless the line gives a stride. */
static struct window pool_window(const struct net_layer_text *text)
{
    struct window window = text->window;
    if (!has(text, WORD_STRIDE)) {
        window.stride_h = window.kernel_h;
        window.stride_w = window.kernel_w;
    }
    return window;
}

static int64_t append_max_pool(struct net *net, const char *name, const uint32_t *from,
                               const struct net_layer_text *text)
{
    return net_max_pool(net, name, from[0], pool_window(text));
}

static int64_t append_average_pool(struct net *net, const char *name, const uint32_t *from,
                                   const struct net_layer_text *text)
{
    return net_average_pool(net, name, from[0], pool_window(text));
}

static int64_t append_global_average(struct net *net, const char *name, const uint32_t *from,
                                     const struct net_layer_text *text)
{
    (void)text;
    return net_global_average(net, name, from[0]);
}

static int64_t append_dropout(struct net *net, const char *name, const uint32_t *from,
                              const struct net_layer_text *text)
{
    return net_dropout(net, name, from[0], text->rate);
}

static int64_t append_stochastic_depth(struct net *net, const char *name, const uint32_t *from,
                                       const struct net_layer_text *text)
{
    return net_stochastic_depth(net, name, from[0], text->rate);
}

static int64_t append_response_norm(struct net *net, const char *name, const uint32_t *from,
                                    const struct net_layer_text *text)
{
    const struct local_response_norm how = { text->size, text->alpha, text->beta, text->k };
    return net_local_response_norm(net, name, from[0], how);
}

static int64_t append_add(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    (void)text;
    return net_add(net, name, from[0], from[1]);
}

static int64_t append_multiply(struct net *net, const char *name, const uint32_t *from,
                               const struct net_layer_text *text)
{
    (void)text;
    return net_multiply(net, name, from[0], from[1]);
}

static int64_t append_concat(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    return net_concat(net, name, from, text->from_count == 0 ? 1 : text->from_count);
}

static int64_t append_pad_channels(struct net *net, const char *name, const uint32_t *from,
                                   const struct net_layer_text *text)
{
    if (text->window.stride_h != text->window.stride_w)
        return net_fail(net, name, "its stride is one number");
    return net_pad_channels(net, name, from[0], text->channels, text->window.stride_h);
}

static int64_t append_auxiliary_loss(struct net *net, const char *name, const uint32_t *from,
                                     const struct net_layer_text *text)
{
    return net_auxiliary_loss(net, name, from[0], text->weight);
}

static int64_t append_softmax_loss(struct net *net, const char *name, const uint32_t *from,
                                   const struct net_layer_text *text)
{
    (void)text;
    return net_softmax_loss(net, name, from[0]);
}

/* An activation without words. */
#define FORM_OF(function) { 0, 0, ONE, append_activation, .keeps_shape = true, .activation = function }

const struct net_form net_forms[NET_FORM_COUNT] = {
    [LAYER_CONV2D] = { WINDOW | BIT(WORD_FILTERS) | BIT(WORD_GROUPS) | BIT(WORD_NO_BIAS) | BIT(WORD_INIT),
                       BIT(WORD_FILTERS) | BIT(WORD_KERNEL), ONE, append_conv2d },
    [LAYER_DENSE] = { BIT(WORD_UNITS) | BIT(WORD_NO_BIAS) | BIT(WORD_INIT), BIT(WORD_UNITS), ONE,
                      append_dense },
    [LAYER_BATCH_NORM] = { BIT(WORD_DECAY) | BIT(WORD_EPSILON) | BIT(WORD_NO_GAMMA) | BIT(WORD_INIT), 0,
                           ONE, append_batch_norm, .keeps_shape = true },
    [LAYER_LAYER_NORM] = { BIT(WORD_EPSILON) | BIT(WORD_INIT), 0, ONE, append_layer_norm, .keeps_shape = true },
    [LAYER_SCALE] = { BIT(WORD_INIT), 0, ONE, append_scale, .keeps_shape = true },
    [LAYER_RELU] = { BIT(WORD_LIMIT), 0, ONE, append_relu, .keeps_shape = true },
    [LAYER_ACTIVATION] = { 0, 0, ONE, NULL },           /* each activation has a form of its own */
    [LAYER_MAX_POOL] = { WINDOW, BIT(WORD_KERNEL), ONE, append_max_pool },
    [LAYER_AVERAGE_POOL] = { WINDOW, BIT(WORD_KERNEL), ONE, append_average_pool },
    [LAYER_DROPOUT] = { BIT(WORD_RATE), BIT(WORD_RATE), ONE, append_dropout, .keeps_shape = true },
    [LAYER_STOCHASTIC_DEPTH] = { BIT(WORD_RATE), BIT(WORD_RATE), ONE, append_stochastic_depth, .keeps_shape = true },
    [LAYER_LOCAL_RESPONSE_NORM] = { BIT(WORD_SIZE) | BIT(WORD_ALPHA) | BIT(WORD_BETA) | BIT(WORD_K), BIT(WORD_SIZE),
                                    ONE, append_response_norm, .keeps_shape = true },
    [LAYER_ADD] = { 0, BIT(WORD_FROM), .least_inputs = 2, .most_inputs = 2, append_add },
    [LAYER_MULTIPLY] = { 0, BIT(WORD_FROM), .least_inputs = 2, .most_inputs = 2, append_multiply },
    [LAYER_CONCAT] = { 0, BIT(WORD_FROM), .least_inputs = 1, .most_inputs = LAYER_INPUTS_MAX,
                       append_concat },
    [LAYER_PAD_CHANNELS] = { BIT(WORD_CHANNELS) | BIT(WORD_STRIDE), BIT(WORD_CHANNELS), ONE,
                             append_pad_channels },
    [LAYER_AUXILIARY_LOSS] = { BIT(WORD_WEIGHT), BIT(WORD_WEIGHT), ONE, append_auxiliary_loss },
    [LAYER_SOFTMAX_LOSS] = { 0, 0, ONE, append_softmax_loss },
    [NET_GLOBAL_AVERAGE] = { 0, 0, ONE, append_global_average },
    [NET_ACTIVATION(ACTIVATION_SIGMOID)] = FORM_OF(ACTIVATION_SIGMOID),
    [NET_ACTIVATION(ACTIVATION_HARD_SIGMOID)] = FORM_OF(ACTIVATION_HARD_SIGMOID),
    [NET_ACTIVATION(ACTIVATION_SILU)] = FORM_OF(ACTIVATION_SILU),
    [NET_ACTIVATION(ACTIVATION_HARD_SWISH)] = FORM_OF(ACTIVATION_HARD_SWISH),
    [NET_ACTIVATION(ACTIVATION_GELU)] = FORM_OF(ACTIVATION_GELU),
};

const char *net_form_name(const struct net_form *form)
{
    const size_t kind = (size_t)(form - net_forms);
    if (kind > NET_GLOBAL_AVERAGE)
        return activation_name(form->activation);
    return kind < LAYER_KIND_COUNT ? layer_kind_name(kind) : "global_average";
}

/* Layers under the names of other programs, which are not similar to those here. */
static const struct { const char *there, *here; } net_form_others[] = {
    { "swish", "silu" }, { "relu6", "relu NAME limit 6" }, { "linear", "dense" }, { "fc", "dense" },
    { "fully_connected", "dense" }, { "bn", "batch_norm" }, { "ln", "layer_norm" },
    { "lrn", "local_response_norm" }, { "avg_pool", "average_pool" }, { "adaptive_avg_pool", "global_average" },
    { "global_avg_pool", "global_average" }, { "mul", "multiply" }, { "cat", "concat" },
    { "drop_path", "stochastic_depth" }, { "droppath", "stochastic_depth" }, { "layer_scale", "scale" },
    { "softmax", "softmax_loss" }, { "cross_entropy", "softmax_loss" },
    { "depthwise_conv2d", "conv2d NAME ... groups CHANNELS" }, { "depthwise", "conv2d NAME ... groups CHANNELS" },
};

const struct net_form *net_form_find(const char *name, const char **near_out)
{
    static const char *const others[] = { "repeat", "end", "model", "image", "classes", "transform" };
    struct nearest nearest = { .name = name };
    for (size_t i = 0; i < sizeof(net_form_others) / sizeof(*net_form_others); i++)
        if (strcmp(net_form_others[i].there, name) == 0) {
            *near_out = net_form_others[i].here;
            return NULL;
        }
    for (size_t i = 0; i < NET_FORM_COUNT; i++) {
        const char *const form = net_form_name(&net_forms[i]);
        if (net_forms[i].append == NULL)
            continue;
        if (strcmp(form, name) == 0)
            return &net_forms[i];
        nearest_offer(&nearest, form, form);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        nearest_offer(&nearest, others[i], others[i]);
    *near_out = nearest.best;
    return NULL;
}

/* ---- reading ---- */

/* Report a word that the form does not allow, with the most similar word that it allows. */
static void report_unknown(const struct net_form *form, const char *name, uint32_t line, struct net_problems *problems)
{
    struct nearest nearest = { .name = name };
    for (enum net_word word = 0; word < WORD_COUNT; word++)
        if (((form->takes | BIT(WORD_FROM)) & BIT(word)) != 0)
            nearest_offer(&nearest, word_name(word), word_name(word));
    if (strcmp(name, "momentum") == 0 && ((form->takes | BIT(WORD_FROM)) & BIT(WORD_DECAY)) != 0)
        net_problems_add(problems, line, "%s has no 'momentum': decay is the share of the average that stays: 1 - "
                         "momentum of PyTorch (its 0.1 is decay 0.9), momentum of Keras (its 0.99 is decay 0.99)",
                         net_form_name(form));
    else if (nearest.best != NULL)
        net_problems_add(problems, line, "%s has no '%.60s' (did you mean '%s'?)", net_form_name(form), name,
                         (const char *)nearest.best);
    else
        net_problems_add(problems, line, "%s has no '%.60s'", net_form_name(form), name);
}

/* Read the values of one word. False: reading cannot continue, because the number of values of an unknown word is
 * unknown. */
static bool read_word(const struct net_form *form, const char *name, struct net_words *words,
                      struct net_layer_text *text, uint32_t line, struct net_problems *problems)
{
    const enum net_word word = find_word(name);
    if (word == WORD_COUNT || ((form->takes | BIT(WORD_FROM)) & BIT(word)) == 0) {
        report_unknown(form, name, line, problems);
        return false;
    }
    if (has(text, word) && word != WORD_INIT)
        net_problems_add(problems, line, "'%s' is given twice", name);
    text->given |= BIT(word);
    return read_values(word, words, text, line, problems);
}

static void report_missing(const struct net_form *form, const struct net_layer_text *text, uint32_t line,
                         struct net_problems *problems)
{
    for (enum net_word word = 0; word < WORD_COUNT; word++)
        if ((form->needs & BIT(word) & ~text->given) != 0)
            net_problems_add(problems, line, "%s needs '%s'", net_form_name(form), word_name(word));
    if (!has(text, WORD_FROM))
        return;
    if (text->from_count > form->most_inputs || text->from_count < form->least_inputs)
        net_problems_add(problems, line, "%s reads %s%u layer%s, not %u", net_form_name(form),
                         form->least_inputs < form->most_inputs ? "up to " : "", form->most_inputs,
                         form->most_inputs == 1 ? "" : "s", text->from_count);
}

bool net_form_read(const struct net_form *form, struct net_words *words, struct net_layer_text *text, uint32_t line,
                   struct net_problems *problems)
{
    const uint32_t problems_before = problems->count;
    bool continues = true;
    for (const char *name = net_words_next(words); name != NULL && continues; name = net_words_next(words))
        continues = read_word(form, name, words, text, line, problems);
    if (continues)
        report_missing(form, text, line, problems);
    return problems->count == problems_before;
}

/* ---- appending ---- */

static bool can_be_negative(const struct initializer *initializer)
{
    return initializer->kind == INITIALIZER_CONSTANT ? initializer->value < 0 : initializer->value != 0;
}

static int initialize_parameter(struct net *net, int64_t layer, enum parameter_kind kind,
                           const struct net_init *init)
{
    const struct layer *const made = &net->layers[layer];
    if (!layer_has(made, kind))
        return net_fail(net, made->name, "has no %s to initialise", net_parameter_words[kind]);
    const struct parameter *const parameter = &net->parameters[made->parameters[kind]];
    struct initializer initializer = init->initializer;
    const bool needs_fans = init->rule == NULL && initializer.kind == INITIALIZER_GLOROT_UNIFORM;
    if ((needs_fans && parameter->fan_in + parameter->fan_out == 0) ||
        (init->rule != NULL && !net_fan_rule_use(init->rule, parameter, &initializer)))
        return net_fail(net, made->name, "only weights have a fan-in or fan-out");
    if (kind == PARAMETER_RUNNING_VARIANCE && can_be_negative(&initializer))
        return net_fail(net, made->name, "a running variance is not below 0: write constant and a number from 0 on");
    return net_initialize(net, layer, kind, initializer);
}

int64_t net_form_append(const struct net_form *form, struct net *net, const char *name, const uint32_t *from,
                        const struct net_layer_text *text)
{
    const int64_t layer = form->append(net, name, from, text);
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT && layer >= 0; kind++)
        if (text->inits[kind].is_given && initialize_parameter(net, layer, kind, &text->inits[kind]) != 0)
            return -EINVAL;
    return layer;
}
