/* Names that look the same: accents may be characters of their own (NFD of Unicode, as macOS writes names) or part of
 * their letter (NFC, as most others do). */
#ifndef PIPETRAIN_ACCENTS
#define PIPETRAIN_ACCENTS

#include <stdint.h>

#define ACCENTS_NO_UTF8 0x110000u       /* a byte that is no UTF-8, added to this, is a character of its own */

/* The characters of the text in composed form, ended by 0; `out` has room for strlen(text) + 1. Letters of the European
 * languages, Vietnamese, Japanese and Korean are composed, all others stay as they are. */
void accents_compose(const char *text, uint32_t *out);

#endif
