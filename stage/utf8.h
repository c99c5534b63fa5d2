/* Is a text UTF-8? */
#ifndef PIPETRAIN_UTF8_H
#define PIPETRAIN_UTF8_H

#include <stddef.h>

/* Bytes of `text` that are well-formed UTF-8 from the start: `bytes` when all are. */
size_t utf8_valid_bytes(const char *text, size_t bytes);

#endif
