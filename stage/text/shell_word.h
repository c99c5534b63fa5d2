/* Words of commands that are printed for pasting into a shell. */
#ifndef PIPETRAIN_SHELL_WORD_H
#define PIPETRAIN_SHELL_WORD_H

#include <stddef.h>

/* Write the word so that a shell reads it as it is: in quotes if it has characters that mean something to a shell; one
 * that is too long is cut. Returns `out`. */
const char *shell_word(const char *word, char *out, size_t out_size);

#endif
