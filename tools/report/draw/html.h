/* Texts of others in a page of ours. */
#ifndef PIPETRAIN_HTML_H
#define PIPETRAIN_HTML_H

#include <stdio.h>

/* Write a text so that it means itself between tags and in quoted attributes, of HTML and of XML: what means something
 * there is escaped; characters that act on the text around them (utf8_is_control), bytes that are no UTF-8 and what XML
 * forbids become U+FFFD. */
void html_text(FILE *out, const char *text);
/* The same of what printf makes of it, the first 1023 bytes. */
void html_format(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
