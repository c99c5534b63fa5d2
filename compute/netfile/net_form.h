/* What a line says of a layer: the kinds of layers as they are written, the words behind them, and the layer that
 * they append. Private to this folder. */
#ifndef PIPETRAIN_NET_FORM_H
#define PIPETRAIN_NET_FORM_H

#include "compute/netfile/net_lines.h"

#define NET_GLOBAL_AVERAGE LAYER_KIND_COUNT     /* an average pool that is written in another way */
#define NET_FORM_COUNT (LAYER_KIND_COUNT + 1)

/* Ways to begin that follow from the fan of a weight. */
struct net_fan_rule {
    const char *word;
    struct initializer (*initializer)(uint64_t fan);
    bool of_fan_out;            /* else of fan-in */
};

#define NET_FAN_RULES 2u
extern const struct net_fan_rule net_fan_rules[NET_FAN_RULES];

/* How a parameter begins, where the line says so. */
struct net_beginning {
    bool is_given;
    const struct net_fan_rule *rule;    /* NULL: as initializer says */
    struct initializer initializer;
};

/* What the words of a line say. */
struct net_layer_text {
    uint32_t classes;           /* what the word `classes` stands for */
    uint32_t given;             /* a bit for each word that stands there */
    const char *from[LAYER_INPUTS_MAX];
    uint32_t from_count;
    uint32_t filters, units, channels, size;
    struct window window;
    double decay;
    float epsilon, rate, alpha, beta, k, weight;
    struct net_beginning beginnings[PARAMETER_KIND_COUNT];
};

/* A kind of layer as it is written. */
struct net_form {
    uint32_t takes, needs;      /* bits of words */
    uint32_t least_inputs, most_inputs;
    int64_t (*append)(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text);
    bool keeps_shape;           /* makes as much as it reads, whatever that is */
};

extern const struct net_form net_forms[NET_FORM_COUNT];         /* by kind of layer */
const char *net_form_name(const struct net_form *form);

/* The form of a name, or NULL with the nearest one in *near_out (NULL: none is near). */
const struct net_form *net_form_find(const char *name, const char **near_out);

/* Read the words that are left; the texts of `from` stay in *words. What is wrong is told for `line`. */
bool net_form_read(const struct net_form *form, struct net_words *words, struct net_layer_text *text, uint32_t line,
                   struct net_problems *problems);
/* Append the layer with its beginnings, from so many layers. Its index, or -EINVAL with net_error. */
int64_t net_form_append(const struct net_form *form, struct net *net, const char *name, const uint32_t *from,
                        const struct net_layer_text *text);

/* The words of parameters and of what they begin with, for reading and writing. */
extern const char *const net_parameter_words[PARAMETER_KIND_COUNT];
extern const char *const net_initializer_words[INITIALIZER_KIND_COUNT];
/* What a rule makes of a parameter; false where the parameter has no fan. */
bool net_fan_rule_use(const struct net_fan_rule *rule, const struct parameter *parameter,
                      struct initializer *initializer_out);

#endif
