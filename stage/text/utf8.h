/* UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef PIPETRAIN_UTF8_H
#define PIPETRAIN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the character at the start of `text`, which holds `bytes` >= 1; 0 when it is not well-formed. */
size_t utf8_character_bytes(const char *text, size_t bytes);
/* The code point of a well-formed character of so many bytes. */
uint32_t utf8_code_point(const char *character, size_t bytes);
/* Bytes of `text` that are well-formed UTF-8 from the start: `bytes` when all are. */
size_t utf8_valid_bytes(const char *text, size_t bytes);
/* Bytes of a text, `most` or a few less, with which no character is cut: for "%.*s". */
int utf8_cut(const char *text, size_t most);
/* Whether a well-formed character of so many bytes affects the text around it instead of being shown: a control
 * character (C0, DEL, C1), a line separator (U+2028, U+2029), or a directional one (U+061C, U+200E, U+200F, U+202A
 * to U+202E, U+2066 to U+2069). */
bool utf8_is_control(const char *character, size_t bytes);

#endif
