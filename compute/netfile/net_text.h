/* Shared by the files that read and write networks as text: lines, words and values, and the forms of layers, which
 * describe how each kind of layer is written. Private to this folder. */
#ifndef PIPETRAIN_NET_TEXT_H
#define PIPETRAIN_NET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/netfile/net_file.h"

/* Reports problems to the sink and counts them. */
struct net_problems {
    const struct net_file_sink *sink;
    uint32_t count;
};

void net_problems_add(struct net_problems *problems, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- lines ---- */

enum line_kind { LINE_EMPTY, LINE_HEADER, LINE_REPEAT, LINE_END, LINE_LAYER, LINE_BROKEN };

/* A line of the text, which must outlive it. */
struct net_line {
    const char *text;           /* without blanks around it and without a comment */
    uint32_t bytes;
    enum line_kind kind;
    uint32_t end;               /* LINE_REPEAT: index of its end, 0 when there is none */
};

struct net_lines {
    struct net_line *line;      /* line[i] is line i + 1 of the text */
    uint32_t count;
};

/* Split the text into lines. Reports broken lines, and repeats and ends without a counterpart. 0 or -ENOMEM. */
int net_lines_split(struct net_lines *lines, const char *text, size_t bytes, struct net_problems *problems);
void net_lines_release(struct net_lines *lines);

/* ---- words and values ---- */

#define NET_WORDS_MAX 96u

struct net_words {
    char text[NET_FILE_LINE_MAX + 1];
    const char *word[NET_WORDS_MAX];    /* in text */
    uint32_t count;
    uint32_t next;              /* index of the word that is read next */
};

/* Split words->text, a line with the values of its counters filled in. False: it has more than NET_WORDS_MAX words. */
bool net_words_split(struct net_words *words);
/* The next word, NULL after the last. */
const char *net_words_next(struct net_words *words);

/* Read a whole number from `least` to NET_COUNT_MAX, without a sign; *end_out is the text after it. */
bool net_read_count(const char *text, uint32_t least, uint32_t *count_out, const char **end_out);
/* The same; nothing may follow the number. */
bool net_read_whole(const char *text, uint32_t least, uint32_t *count_out);
/* Read a whole number from 1 to NET_COUNT_MAX, or a product or quotient of such ("16*3", "96/2*3"), evaluated from the
 * left to the right, where every step gives such a number; nothing may follow it. */
bool net_read_product(const char *text, uint32_t *count_out);
/* Read a finite number in the range of a double or a float, or a product or quotient of numbers ("0.2*3/16"), evaluated
 * in double from the left to the right; nothing may follow it. */
bool net_read_double(const char *text, double *number_out);
bool net_read_number(const char *text, float *number_out);

/* Can a text contain this name of a network or layer? */
bool net_name_fits(const char *name);
/* Is this a reserved word (image, before, start, classes), which cannot name a layer? */
bool net_name_is_reserved(const char *name);

/* ---- forms of layers ---- */

/* Initialisers that depend on the fan of a weight. */
struct net_fan_rule {
    const char *word;
    struct initializer (*initializer)(uint64_t fan);
    bool of_fan_out;            /* the rule depends on fan-out; false: on fan-in */
};

#define NET_FAN_RULES 3u
extern const struct net_fan_rule net_fan_rules[NET_FAN_RULES];

/* The initialiser of a parameter, where the line gives one. */
struct net_init {
    bool is_given;
    const struct net_fan_rule *rule;    /* NULL: see initializer */
    struct initializer initializer;
};

/* The values in the line of a layer. */
struct net_layer_text {
    uint32_t classes;           /* the value of the word `classes` */
    uint32_t given;             /* a bit for each word that the line contains */
    const char *from[LAYER_INPUTS_MAX];
    uint32_t from_count;
    uint32_t filters, groups, units, channels, size;
    struct window window;
    double decay;
    float epsilon, rate, limit, alpha, beta, k, weight;
    enum activation activation; /* that of the form */
    struct net_init inits[PARAMETER_KIND_COUNT];
};

#define NET_GLOBAL_AVERAGE LAYER_KIND_COUNT     /* an average pool of the whole image, which has a word of its own */
/* A form for each activation; that of the clipped ReLU is relu's own, and its row is empty. */
#define NET_ACTIVATION(activation) (NET_GLOBAL_AVERAGE + 1 + (activation))
#define NET_FORM_COUNT NET_ACTIVATION(ACTIVATION_COUNT)

struct net_form {
    uint32_t takes, needs;      /* bits of the words that the line may contain and must contain */
    uint32_t least_inputs, most_inputs;
    int64_t (*append)(struct net *net, const char *name, const uint32_t *from, const struct net_layer_text *text);
    bool keeps_shape;           /* the output has the shape of the input */
    enum activation activation; /* of the forms of activations */
};

extern const struct net_form net_forms[NET_FORM_COUNT];         /* by kind of layer, then the others */
const char *net_form_name(const struct net_form *form);
/* The form of a name, or NULL with the most similar name in *near_out, or what it says instead of a name that other
 * programs use (NULL: neither). */
const struct net_form *net_form_find(const char *name, const char **near_out);

/* Is this a word that a form may take? */
bool net_form_has_word(const char *name);
/* Set the values of words that a line does not contain. */
void net_form_set_defaults(struct net_layer_text *text);
/* Read the rest of the words; the strings of `from` stay in *words. Problems are reported for `line`. */
bool net_form_read(const struct net_form *form, struct net_words *words, struct net_layer_text *text, uint32_t line,
                   struct net_problems *problems);
/* Append the layer, which reads `from`, with its initialisers. Its index, or -EINVAL with net_error. */
int64_t net_form_append(const struct net_form *form, struct net *net, const char *name, const uint32_t *from,
                        const struct net_layer_text *text);

/* The words for parameters and their initialisers, for reading and writing. */
extern const char *const net_parameter_words[PARAMETER_KIND_COUNT];
extern const char *const net_initializer_words[INITIALIZER_KIND_COUNT];
/* The initialiser that a rule gives for a parameter; false when the parameter has no fan. */
bool net_fan_rule_use(const struct net_fan_rule *rule, const struct parameter *parameter,
                      struct initializer *initializer_out);

#endif
