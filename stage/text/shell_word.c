/* Quoting words of printed commands. Pure functions; any thread. */
#include "stage/text/shell_word.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes above 127 are parts of UTF-8, which shells do not interpret. */
static bool is_plain(const char *word)
{
    const char *at = word;

    while (*at != '\0' && (isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80 ||
                           strchr("_-./,:=+@%", *at) != NULL))
        at++;
    return at > word && *at == '\0';
}

const char *shell_word(const char *word, char *out, size_t out_size)
{
    static const char quote[] = "'\\''";
    size_t length = 0;

    if (is_plain(word)) {
        snprintf(out, out_size, "%s", word);
        return out;
    }
    if (out_size < sizeof(quote) + 2)
        return strcpy(out, "");
    out[length++] = '\'';
    for (; *word != '\0' && length + sizeof(quote) + 1 < out_size; word++) {
        if (*word != '\'') {
            out[length++] = *word;
            continue;
        }
        memcpy(out + length, quote, sizeof(quote) - 1);
        length += sizeof(quote) - 1;
    }
    out[length++] = '\'';
    out[length] = '\0';
    return out;
}
