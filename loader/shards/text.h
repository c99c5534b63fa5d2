/* Putting a message together piece by piece in a buffer of fixed size; what does not fit
 * is cut. */
#ifndef PIPETRAIN_TEXT_H
#define PIPETRAIN_TEXT_H

#include <stddef.h>

struct text { char *start, *at; size_t room; };

/* Write to `buffer`, which holds an empty text from now on. */
void text_init(struct text *text, char *buffer, size_t size);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Untrusted text, control characters escaped. */
void text_add_escaped(struct text *text, const char *untrusted);
/* Begin a new line unless the text is empty. */
void text_line(struct text *text);

#endif
