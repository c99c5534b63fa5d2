/* Is a text UTF-8? Shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef PIPETRAIN_UTF8_H
#define PIPETRAIN_UTF8_H

#include <stddef.h>

/* Length of the character at the start of `text`, which holds `bytes` >= 1; 0 when it is not well-formed. */
size_t utf8_character_bytes(const char *text, size_t bytes);
/* Bytes of `text` that are well-formed UTF-8 from the start: `bytes` when all are. */
size_t utf8_valid_bytes(const char *text, size_t bytes);

#endif
