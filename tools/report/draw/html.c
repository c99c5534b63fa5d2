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

/* What acts on the text around it, but for tabs and line ends; U+FFFE and U+FFFF. */
static bool is_forbidden(const char *text, size_t bytes)
{
    if (utf8_is_control(text, bytes))
        return *text != '\t' && *text != '\n';
    return bytes == 3 && memcmp(text, "\xef\xbf\xbe", bytes) >= 0 && memcmp(text, "\xef\xbf\xbf", bytes) <= 0;
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
