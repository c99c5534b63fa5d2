/* The kinds of layers as they are written: which words they take, and what is appended. */
#include "compute/netfile/net_form.h"

#include <errno.h>
#include <string.h>

#include "compute/netfile/net_word.h"
#include "stage/text/names.h"

#define BIT(word) (UINT32_C(1) << (word))
#define WINDOW (BIT(WORD_KERNEL) | BIT(WORD_STRIDE) | BIT(WORD_PADDING))
#define ONE .least_inputs = 1, .most_inputs = 1

static bool has(const struct net_layer_text *text, enum net_word word)
{
    return (text->given & BIT(word)) != 0;
}

static int64_t append_conv2d(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    return net_conv2d(net, name, from[0], text->filters, text->window, !has(text, WORD_NO_BIAS));
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

static int64_t append_relu(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text)
{
    (void)text;
    return net_relu(net, name, from[0]);
}

/* Windows of a pool lie side by side unless the line says otherwise. */
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

const struct net_form net_forms[NET_FORM_COUNT] = {
    [LAYER_CONV2D] = { WINDOW | BIT(WORD_FILTERS) | BIT(WORD_NO_BIAS) | BIT(WORD_INIT),
                       BIT(WORD_FILTERS) | BIT(WORD_KERNEL), ONE, append_conv2d },
    [LAYER_DENSE] = { BIT(WORD_UNITS) | BIT(WORD_NO_BIAS) | BIT(WORD_INIT), BIT(WORD_UNITS), ONE,
                      append_dense },
    [LAYER_BATCH_NORM] = { BIT(WORD_DECAY) | BIT(WORD_EPSILON) | BIT(WORD_NO_GAMMA) | BIT(WORD_INIT), 0,
                           ONE, append_batch_norm, .keeps_shape = true },
    [LAYER_RELU] = { 0, 0, ONE, append_relu, .keeps_shape = true },
    [LAYER_MAX_POOL] = { WINDOW, BIT(WORD_KERNEL), ONE, append_max_pool },
    [LAYER_AVERAGE_POOL] = { WINDOW, BIT(WORD_KERNEL), ONE, append_average_pool },
    [LAYER_DROPOUT] = { BIT(WORD_RATE), BIT(WORD_RATE), ONE, append_dropout, .keeps_shape = true },
    [LAYER_LOCAL_RESPONSE_NORM] = { BIT(WORD_SIZE) | BIT(WORD_ALPHA) | BIT(WORD_BETA) | BIT(WORD_K), BIT(WORD_SIZE),
                                    ONE, append_response_norm, .keeps_shape = true },
    [LAYER_ADD] = { 0, BIT(WORD_FROM), .least_inputs = 2, .most_inputs = 2, append_add },
    [LAYER_CONCAT] = { 0, BIT(WORD_FROM), .least_inputs = 1, .most_inputs = LAYER_INPUTS_MAX,
                       append_concat },
    [LAYER_PAD_CHANNELS] = { BIT(WORD_CHANNELS) | BIT(WORD_STRIDE), BIT(WORD_CHANNELS), ONE,
                             append_pad_channels },
    [LAYER_AUXILIARY_LOSS] = { BIT(WORD_WEIGHT), BIT(WORD_WEIGHT), ONE, append_auxiliary_loss },
    [LAYER_SOFTMAX_LOSS] = { 0, 0, ONE, append_softmax_loss },
    [NET_GLOBAL_AVERAGE] = { 0, 0, ONE, append_global_average },
};

const char *net_form_name(const struct net_form *form)
{
    const size_t kind = (size_t)(form - net_forms);
    return kind < LAYER_KIND_COUNT ? layer_kind_name(kind) : "global_average";
}

const struct net_form *net_form_find(const char *name, const char **near_out)
{
    static const char *const others[] = { "repeat", "end", "model", "image", "classes", "transform" };
    struct nearest nearest = { .name = name };
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

/* A word that the form does not take: what was probably meant. */
static void tell_unknown(const struct net_form *form, const char *name, uint32_t line, struct net_problems *problems)
{
    struct nearest nearest = { .name = name };
    for (enum net_word word = 0; word < WORD_COUNT; word++)
        if (((form->takes | BIT(WORD_FROM)) & BIT(word)) != 0)
            nearest_offer(&nearest, net_word_name(word), net_word_name(word));
    if (nearest.best != NULL)
        net_problems_add(problems, line, "%s has no '%.60s' (did you mean '%s'?)", net_form_name(form), name,
                         (const char *)nearest.best);
    else
        net_problems_add(problems, line, "%s has no '%.60s'", net_form_name(form), name);
}

/* The values of one word. Goes reading on behind it? Only what is known says where its values end. */
static bool read_word(const struct net_form *form, const char *name, struct net_words *words,
                      struct net_layer_text *text, uint32_t line, struct net_problems *problems)
{
    const enum net_word word = net_word_find(name);
    if (word == WORD_COUNT || ((form->takes | BIT(WORD_FROM)) & BIT(word)) == 0) {
        tell_unknown(form, name, line, problems);
        return false;
    }
    if (has(text, word) && word != WORD_INIT)
        net_problems_add(problems, line, "'%s' is said twice", name);
    text->given |= BIT(word);
    return net_word_read(word, words, text, line, problems);
}

static void tell_missing(const struct net_form *form, const struct net_layer_text *text, uint32_t line,
                         struct net_problems *problems)
{
    for (enum net_word word = 0; word < WORD_COUNT; word++)
        if ((form->needs & BIT(word) & ~text->given) != 0)
            net_problems_add(problems, line, "%s needs '%s'", net_form_name(form), net_word_name(word));
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
    bool goes_on = true;
    for (const char *name = net_words_next(words); name != NULL && goes_on; name = net_words_next(words))
        goes_on = read_word(form, name, words, text, line, problems);
    if (goes_on)
        tell_missing(form, text, line, problems);
    return problems->count == problems_before;
}

/* ---- appending ---- */

static int begin_parameter(struct net *net, int64_t layer, enum parameter_kind kind,
                           const struct net_beginning *beginning)
{
    const struct layer *const made = &net->layers[layer];
    if (!layer_has(made, kind))
        return net_fail(net, made->name, "has no %s to begin with anything", net_parameter_words[kind]);
    struct initializer initializer = beginning->initializer;
    if (beginning->rule != NULL &&
        !net_fan_rule_use(beginning->rule, &net->parameters[made->parameters[kind]], &initializer))
        return net_fail(net, made->name, "only weights have a fan to scale by");
    return net_initialize(net, layer, kind, initializer);
}

int64_t net_form_append(const struct net_form *form, struct net *net, const char *name, const uint32_t *from,
                        const struct net_layer_text *text)
{
    const int64_t layer = form->append(net, name, from, text);
    for (enum parameter_kind kind = 0; kind < PARAMETER_KIND_COUNT && layer >= 0; kind++)
        if (text->beginnings[kind].is_given && begin_parameter(net, layer, kind, &text->beginnings[kind]) != 0)
            return -EINVAL;
    return layer;
}
