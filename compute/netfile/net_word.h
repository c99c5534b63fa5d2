/* The words behind a layer's name, and their values. Private to this folder. */
#ifndef PIPETRAIN_NET_WORD_H
#define PIPETRAIN_NET_WORD_H

#include "compute/netfile/net_form.h"

enum net_word {
    WORD_FROM,
    WORD_FILTERS,
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
    WORD_SIZE,
    WORD_ALPHA,
    WORD_BETA,
    WORD_K,
    WORD_WEIGHT,
    WORD_INIT,
    WORD_COUNT
};

const char *net_word_name(enum net_word word);
enum net_word net_word_find(const char *name);          /* WORD_COUNT when there is none */

/* What holds where a line says nothing. */
void net_words_usual(struct net_layer_text *text);
/* Read the values of `word` into *text; what is wrong is told. Is it known where they end? */
bool net_word_read(enum net_word word, struct net_words *words, struct net_layer_text *text, uint32_t line,
                   struct net_problems *problems);

#endif
