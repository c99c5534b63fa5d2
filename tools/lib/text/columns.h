/* How wide text is on a terminal, whatever the locale. Text is as log_plain shows it: UTF-8 without control characters,
 * and escapes \xHH. Pure functions but for printing; any thread. */
#ifndef PIPETRAIN_COLUMNS_H
#define PIPETRAIN_COLUMNS_H

#include <stddef.h>
#include <stdio.h>

/* The columns of the text, as wcwidth counts them: wide characters (East Asian, emoji) take two, combining ones none. */
size_t columns_count(const char *text);
/* The bytes at the start of the text that fit into so many columns. No character is separated from what combines with
 * it or is joined to it, and no escape is cut. */
size_t columns_fitting(const char *text, size_t columns);
/* Print as much of the text as fits into `most` columns, and blanks up to `least` columns. */
void columns_print(FILE *out, const char *text, size_t least, size_t most);

#endif
