/* Where the reading of a text stands, and what it does with a line. Private to this folder. */
#ifndef PIPETRAIN_NET_READER_H
#define PIPETRAIN_NET_READER_H

#include "compute/netfile/net_form.h"
#include "compute/netfile/net_names.h"

struct net_counter { char name[16]; uint32_t value; };      /* name "": the repeat has none */

/* May the name of a counter hold it? */
static inline bool net_is_counter_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_';
}

/* A repeat that is being gone through. */
struct net_turn {
    struct net_counter counter;
    uint32_t start;             /* place of the name in front of its first layer */
};

struct net_reader {
    const struct net_lines *lines;
    const struct model_options *options;
    struct net_problems problems;
    struct net_file_sink sink;          /* the caller's, behind that of problems */
    struct net *net;            /* NULL: the header is wrong, and lines are only looked at one by one */
    struct net_names names;
    struct net_turn turns[NET_FILE_DEPTH_MAX];
    uint32_t depth;
    uint32_t before;            /* place of the name of the line before */
    uint32_t line;              /* that is read, from 1 */
    bool *were_told;            /* for each line: something was told of it in an earlier turn */
    bool is_unsure;             /* there may be names and counters that could not be read */
    uint32_t repeated;          /* lines of repeats that were gone through, those of each turn */
    bool is_full;               /* there are too many layers, or some behind the loss: the rest is not looked at */
    const struct net_form *last;        /* the form of the last layer, NULL when it could not be read */
    struct net_words words;
};

/* Tell of the line that is read. */
#define NET_TELL(reader, ...) net_problems_add(&(reader)->problems, (reader)->line, __VA_ARGS__)

/* The counter of a repeat around the line, or NULL. */
const struct net_counter *net_reader_counter(const struct net_reader *reader, const char *name, size_t bytes);
/* reader->words become those of the line, with counters put in. False: something was told, or only follows from what
 * was. */
bool net_reader_cut(struct net_reader *reader, const struct net_line *line);
/* Append the layer of the line. What cannot be leaves a name without a layer, and whatever reads that is left out
 * without a word. */
void net_reader_layer(struct net_reader *reader, const struct net_line *line);

#endif
