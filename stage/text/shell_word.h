/* Words of commands that are printed for pasting into a shell. */
#ifndef PIPETRAIN_SHELL_WORD_H
#define PIPETRAIN_SHELL_WORD_H

#include <stddef.h>

/* Write the word so that a shell reads it unchanged: in quotes if it has characters with a meaning in the shell. A word
 * that is too long is truncated. Returns `out`. */
const char *shell_word(const char *word, char *out, size_t out_size);

#endif
