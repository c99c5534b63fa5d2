/* Comparing names that look the same: accents may be separate characters (Unicode NFD, as macOS writes names) or part
 * of their letter (NFC, as most other systems do). */
#ifndef PIPETRAIN_ACCENTS
#define PIPETRAIN_ACCENTS

#include <stdint.h>

#define ACCENTS_NO_UTF8 0x110000u       /* a byte that is not UTF-8 becomes the character with this number plus the
                                         * byte */

/* Decode the text into composed characters, terminated by 0; `out` has room for strlen(text) + 1. Letters of the
 * European languages, Vietnamese, Japanese and Korean are composed, all others are unchanged. */
void accents_compose(const char *text, uint32_t *out);

#endif
