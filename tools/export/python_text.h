/* Texts of others in Python source. Pure functions, any thread. */
#ifndef PIPETRAIN_PYTHON_TEXT_H
#define PIPETRAIN_PYTHON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Write `bytes` bytes as a string literal. Well-formed UTF-8 is written as it is, except control characters, which are
 * escaped as in "\u202e"; other bytes are written as "\ufffd". */
void python_literal_write(FILE *out, const char *text, size_t bytes);

#endif
