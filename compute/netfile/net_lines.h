/* The text of a network cut into lines, and lines into words. Private to this folder. */
#ifndef PIPETRAIN_NET_LINES_H
#define PIPETRAIN_NET_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/netfile/net_file.h"

/* What was told. */
struct net_problems {
    const struct net_file_sink *sink;
    uint32_t count;
};

void net_problems_add(struct net_problems *problems, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum line_kind { LINE_EMPTY, LINE_HEADER, LINE_REPEAT, LINE_END, LINE_LAYER, LINE_BROKEN };

/* Lines in the text that was cut, which stays. */
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

/* Cut the text; what is no line, and a repeat or an end that stands alone, is told. 0 or -ENOMEM. */
int net_lines_cut(struct net_lines *lines, const char *text, size_t bytes, struct net_problems *problems);
void net_lines_release(struct net_lines *lines);

#define NET_WORDS_MAX 96u

struct net_words {
    char text[NET_FILE_LINE_MAX + 1];
    const char *word[NET_WORDS_MAX];    /* in text */
    uint32_t count;
    uint32_t next;              /* the word that is read next */
};

/* Cut words->text, a line with its counters put in. Are there no more than NET_WORDS_MAX? */
bool net_words_cut(struct net_words *words);
/* The next word, or NULL behind the last. */
const char *net_words_next(struct net_words *words);

/* A whole number from `least` to NET_COUNT_MAX, without a sign; *end_out is what stands behind it. */
bool net_read_count(const char *text, uint32_t least, uint32_t *count_out, const char **end_out);
/* The same, and nothing stands behind it. */
bool net_read_whole(const char *text, uint32_t least, uint32_t *count_out);
/* A finite number of double's or of float's range, and nothing behind it. */
bool net_read_double(const char *text, double *number_out);
bool net_read_number(const char *text, float *number_out);

/* Can a text hold it as the name of a net or a layer? */
bool net_name_fits(const char *name);

#endif
