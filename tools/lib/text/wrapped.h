/* Lines of the report of a run: "name      text", wrapped at 80 columns. */
#ifndef PIPETRAIN_WRAPPED_H
#define PIPETRAIN_WRAPPED_H

#include <stdio.h>

#define WRAPPED_COLUMNS 79u
#define WRAPPED_INDENT 10u      /* indentation of continuation lines */

/* Print `text` and a newline. Lines break after a comma or semicolon, preferably outside of brackets, otherwise at a
 * space. A word longer than a line, such as a path, is not split; nor is text in single quotes, nor a command, which
 * users copy: the name of one of our programs and the words up to a comma, semicolon or bracket, or --set and its
 * value. Names and paths are escaped as in messages (log_plain), if there is memory for it. */
void wrapped_write(FILE *out, const char *text);
/* Print a printf format in the same way; without memory it is not wrapped. */
void wrapped_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
