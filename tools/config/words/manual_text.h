/* Plain text in a manual page. */
#ifndef PIPETRAIN_MANUAL_TEXT_H
#define PIPETRAIN_MANUAL_TEXT_H

#include <stdio.h>

/* Write `text` so that it means itself to troff: '-' and '\' are special there, and '.' at the start of a line. */
void manual_text_write(const char *text, FILE *out);

#endif
