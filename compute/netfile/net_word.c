/* Words and values of a line that describes a layer. A reader takes the values it needs from the line and says what
 * is wrong with them, or NULL. */
#include "compute/netfile/net_word.h"

#include <string.h>

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

const struct net_fan_rule net_fan_rules[NET_FAN_RULES] = {
    { "variance_scaling", initializer_variance_scaling, false },
    { "he_normal", initializer_he_normal, true },
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

/* What a reader is given: the first value, the others in the line, where the result goes. */
struct value {
    const char *text;
    struct net_words *words;
    struct net_layer_text *layer;
    void *field;
};

static const char *read_count(struct value *value)
{
    return net_read_whole(value->text, 1, value->field) ? NULL : "is no whole number from 1 to 2147483647";
}

static const char *read_units(struct value *value)
{
    if (strcmp(value->text, "classes") != 0)
        return read_count(value);
    *(uint32_t *)value->field = value->layer->classes;
    return NULL;
}

static const char *read_double(struct value *value)
{
    return net_read_double(value->text, value->field) ? NULL : "is not a number";
}

static const char *read_number(struct value *value)
{
    return net_read_number(value->text, value->field) ? NULL : "is not a number";
}

/* "3" or "1x7". */
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

/* "1", the same on all sides, or "0,1,0,1": top, bottom, left, right. */
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

/* The names between the commas, which become ends of texts. */
static const char *read_from(struct value *value)
{
    char *at = value->words->text + (value->text - value->words->text);
    for (bool is_last = false; !is_last; at++) {
        if (value->layer->from_count == LAYER_INPUTS_MAX)
            return "names more layers than any can read";
        value->layer->from[value->layer->from_count++] = at;
        at += strcspn(at, ",");
        is_last = *at == '\0';
        *at = '\0';
    }
    return NULL;
}

static bool find(const char *const *words, uint32_t count, const char *word, uint32_t *found_out)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0) {
            *found_out = i;
            return true;
        }
    return false;
}

static const char *read_initializer(struct value *value, struct net_beginning *beginning)
{
    uint32_t kind;
    const char *const word = net_words_next(value->words);
    if (word == NULL)
        return "is not followed by how it begins";
    value->text = word;
    for (uint32_t i = 0; i < NET_FAN_RULES; i++)
        if (strcmp(net_fan_rules[i].word, word) == 0) {
            beginning->rule = &net_fan_rules[i];
            return NULL;
        }
    if (!find(net_initializer_words, INITIALIZER_KIND_COUNT, word, &kind))
        return "is none of: constant, glorot_uniform, truncated_normal, normal, uniform, variance_scaling, he_normal";
    beginning->initializer = (struct initializer){ .kind = kind };
    if (kind == INITIALIZER_GLOROT_UNIFORM)
        return NULL;
    const char *const number = net_words_next(value->words);
    if (number == NULL)
        return "is not followed by its number";
    value->text = number;
    if (!net_read_number(number, &beginning->initializer.value))
        return "is not a number";
    return kind == INITIALIZER_CONSTANT || beginning->initializer.value >= 0 ? NULL : "is below 0";
}

static const char *read_init(struct value *value)
{
    uint32_t kind;
    if (!find(net_parameter_words, PARAMETER_KIND_COUNT, value->text, &kind))
        return "is none of: weight, bias, gamma, beta, running_mean, running_variance";
    struct net_beginning *const beginning = &value->layer->beginnings[kind];
    if (beginning->is_given)
        return "begins in two ways";
    beginning->is_given = true;
    return read_initializer(value, beginning);
}

/* A word, and who reads its values; without a reader the word says all. */
struct word_row {
    const char *name;
    const char *(*read)(struct value *value);
    size_t offset;
};

#define FIELD(name) offsetof(struct net_layer_text, name)

static const struct word_row word_rows[WORD_COUNT] = {
    [WORD_FROM] = { "from", read_from, 0 },
    [WORD_FILTERS] = { "filters", read_units, FIELD(filters) },
    [WORD_UNITS] = { "units", read_units, FIELD(units) },
    [WORD_CHANNELS] = { "channels", read_count, FIELD(channels) },
    [WORD_KERNEL] = { "kernel", read_kernel, FIELD(window) },
    [WORD_STRIDE] = { "stride", read_stride, FIELD(window) },
    [WORD_PADDING] = { "padding", read_padding, FIELD(window) },
    [WORD_NO_BIAS] = { "no_bias", NULL, 0 },
    [WORD_NO_GAMMA] = { "no_gamma", NULL, 0 },
    [WORD_DECAY] = { "decay", read_double, FIELD(decay) },
    [WORD_EPSILON] = { "epsilon", read_number, FIELD(epsilon) },
    [WORD_RATE] = { "rate", read_number, FIELD(rate) },
    [WORD_SIZE] = { "size", read_count, FIELD(size) },
    [WORD_ALPHA] = { "alpha", read_number, FIELD(alpha) },
    [WORD_BETA] = { "beta", read_number, FIELD(beta) },
    [WORD_K] = { "k", read_number, FIELD(k) },
    [WORD_WEIGHT] = { "weight", read_number, FIELD(weight) },
    [WORD_INIT] = { "init", read_init, 0 },
};

const char *net_word_name(enum net_word word)
{
    return word_rows[word].name;
}

enum net_word net_word_find(const char *name)
{
    enum net_word word = 0;
    while (word < WORD_COUNT && strcmp(word_rows[word].name, name) != 0)
        word++;
    return word;
}

void net_words_usual(struct net_layer_text *text)
{
    *text = (struct net_layer_text){ .window = window_square(1, 1, PADDING_VALID),
                                     .decay = 0.9, .epsilon = 1e-5f,
                                     .alpha = 1e-4f, .beta = 0.75f, .k = 1.0f };
}

bool net_word_read(enum net_word word, struct net_words *words, struct net_layer_text *text, uint32_t line,
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
