/* Lines of a run's report: "name      text", broken where a terminal of 80 columns ends. */
#ifndef PIPETRAIN_WRAPPED_H
#define PIPETRAIN_WRAPPED_H

#include <stdio.h>

#define WRAPPED_COLUMNS 79u
#define WRAPPED_INDENT 10u      /* of the lines that go on */

/* Print `text` and a line's end. Lines break behind a comma or semicolon, one between brackets only
 * where there is no other, else at a blank; a word that is longer than a line, as a path, stays whole. Names
 * and paths in it are escaped as in messages (log_plain), where there is memory for that. */
void wrapped_write(FILE *out, const char *text);
/* The same of what printf makes of it; unbroken where there is no memory for that. */
void wrapped_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
