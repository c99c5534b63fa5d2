/* Properties of the terminal of a file descriptor. */
#ifndef PIPETRAIN_TERMINAL_H
#define PIPETRAIN_TERMINAL_H

#include <stdbool.h>

/* Can a line be rewritten? True for a terminal, unless TERM is "dumb". */
bool terminal_repaints(int fd);
/* Columns of the terminal now, or 80 if not known; a line of one less never wraps. */
unsigned terminal_columns(int fd);
/* Rows of the terminal now, or 0 if not known. */
unsigned terminal_rows(int fd);

#endif
