/* The width of text on a terminal, whatever the locale. Text is in the form of log_plain: UTF-8 without control
 * characters, and escapes \xHH. Pure functions except for printing; any thread. */
#ifndef PIPETRAIN_COLUMNS_H
#define PIPETRAIN_COLUMNS_H

#include <stddef.h>
#include <stdio.h>

/* The columns of the text, as wcwidth counts them: wide characters (East Asian, emoji) have two, combining ones
 * none. */
size_t columns_count(const char *text);
/* The number of bytes at the start of the text that fit into this number of columns. No character is separated from
 * those that combine with it or are joined to it, and no escape is split. */
size_t columns_fitting(const char *text, size_t columns);
/* Print the part of the text that fits into `most` columns, and blanks up to `least` columns. */
void columns_print(FILE *out, const char *text, size_t least, size_t most);

#endif
