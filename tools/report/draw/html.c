/* Escaping. Called by whatever writes a page. */
#include "tools/report/draw/html.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "stage/text/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

static const char *escape_of(char character)
{
    switch (character) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

/* C0 but for tabs and line ends, DEL, C1, U+FFFE and U+FFFF. */
static bool is_forbidden(const char *text, size_t bytes)
{
    const unsigned char first = (unsigned char)text[0], second = (unsigned char)text[1];
    if (bytes == 1)
        return (first < 0x20 && first != '\t' && first != '\n') || first == 0x7f;
    return (first == 0xc2 && second < 0xa0) ||
           (bytes == 3 && first == 0xef && second == 0xbf && (unsigned char)text[2] >= 0xbe);
}

void html_text(FILE *out, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        const size_t bytes = utf8_character_bytes(text, left);
        const char *const escape = escape_of(*text);
        if (bytes == 0 || is_forbidden(text, bytes))
            fputs(REPLACEMENT, out);
        else if (escape != NULL)
            fputs(escape, out);
        else
            fwrite(text, 1, bytes, out);
        text += bytes > 0 ? bytes : 1;
        left -= bytes > 0 ? bytes : 1;
    }
}

void html_format(FILE *out, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    html_text(out, text);
}
