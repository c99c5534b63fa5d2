/* UTF-8 by the table of well-formed sequences (RFC 3629). */
#include "stage/text/utf8.h"

#include <string.h>

/* For a range of lead bytes: the number of following bytes, and the range of the first following byte. */
struct lead { uint8_t first, last, following, low, high; };
static const struct lead leads[] = {
    { 0x00, 0x7f, 0, 0x80, 0xbf }, { 0xc2, 0xdf, 1, 0x80, 0xbf }, { 0xe0, 0xe0, 2, 0xa0, 0xbf },
    { 0xe1, 0xec, 2, 0x80, 0xbf }, { 0xed, 0xed, 2, 0x80, 0x9f }, { 0xee, 0xef, 2, 0x80, 0xbf },
    { 0xf0, 0xf0, 3, 0x90, 0xbf }, { 0xf1, 0xf3, 3, 0x80, 0xbf }, { 0xf4, 0xf4, 3, 0x80, 0x8f },
};

static const struct lead *lead_find(uint8_t byte)
{
    for (size_t i = 0; i < sizeof(leads) / sizeof(*leads); i++)
        if (byte >= leads[i].first && byte <= leads[i].last)
            return &leads[i];
    return NULL;
}

size_t utf8_character_bytes(const char *text, size_t bytes)
{
    const struct lead *lead = lead_find((uint8_t)text[0]);
    if (lead == NULL || lead->following >= bytes)
        return 0;
    for (size_t i = 1; i <= lead->following; i++) {
        const uint8_t low = i == 1 ? lead->low : 0x80, high = i == 1 ? lead->high : 0xbf, byte = (uint8_t)text[i];
        if (byte < low || byte > high)
            return 0;
    }
    return lead->following + 1u;
}

uint32_t utf8_code_point(const char *character, size_t bytes)
{
    uint32_t code = bytes == 1 ? (uint8_t)character[0] : (uint8_t)character[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((uint8_t)character[i] & 0x3fu);
    return code;
}

size_t utf8_valid_bytes(const char *text, size_t bytes)
{
    size_t valid = 0;
    while (valid < bytes) {
        const size_t character = utf8_character_bytes(text + valid, bytes - valid);
        if (character == 0)
            break;
        valid += character;
    }
    return valid;
}

int utf8_cut(const char *text, size_t most)
{
    size_t bytes = strnlen(text, most);
    const size_t longest = 4, all = bytes;
    while (text[bytes] != '\0' && bytes > 0 && all - bytes < longest && ((uint8_t)text[bytes] & 0xc0) == 0x80)
        bytes--;
    return (int)bytes;
}

bool utf8_is_control(const char *character, size_t bytes)
{
    const uint32_t code = utf8_code_point(character, bytes);
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}
