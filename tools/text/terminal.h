/* The terminal that a text goes to, if it does. */
#ifndef PIPETRAIN_TERMINAL_H
#define PIPETRAIN_TERMINAL_H

#include <stdbool.h>

/* Can a line there be painted again and again? It is a terminal, and TERM says it is no dumb one. */
bool terminal_repaints(int fd);
/* Columns of the terminal now, so that a line of one less never wraps; 80 where it does not tell. */
unsigned terminal_columns(int fd);
/* Rows of the terminal now; 0 where it is none or does not tell. */
unsigned terminal_rows(int fd);

#endif
