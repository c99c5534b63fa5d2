/* Messages that are composed in a buffer of fixed size. */
#ifndef PIPETRAIN_TEXT_H
#define PIPETRAIN_TEXT_H

#include <stddef.h>

/* Text that does not fit into the buffer is cut off. */
struct text { char *start, *at; size_t room; };

/* Begin an empty text in `buffer`. */
void text_init(struct text *text, char *buffer, size_t size);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Add untrusted text with its control characters escaped. */
void text_add_escaped(struct text *text, const char *untrusted);
/* Begin a new line unless the text is empty. */
void text_line(struct text *text);

#endif
