/* Well-formed UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF. */
#ifndef PIPETRAIN_UTF8_H
#define PIPETRAIN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character at the start of `text`, which has `bytes` >= 1 bytes; 0 if it is not well-formed. */
size_t utf8_character_bytes(const char *text, size_t bytes);
/* The code point of a well-formed character of `bytes` bytes. */
uint32_t utf8_code_point(const char *character, size_t bytes);
/* Length of the well-formed UTF-8 at the start of `text`: `bytes` if all is well-formed. */
size_t utf8_valid_bytes(const char *text, size_t bytes);
/* The length of a text truncated to `most` bytes, or a few less so that no character is split: for "%.*s". */
int utf8_cut(const char *text, size_t most);
/* Does a well-formed character of `bytes` bytes affect the text around it instead of being displayed? True for control
 * characters (C0, DEL, C1), line separators (U+2028, U+2029) and directional characters (U+061C, U+200E, U+200F, U+202A
 * to U+202E, U+2066 to U+2069). */
bool utf8_is_control(const char *character, size_t bytes);

#endif
