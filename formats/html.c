/* Recognising web pages, for error messages about files that cannot be read. Pure functions. */
#include "formats/html.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool html_begins(const void *head, size_t bytes)
{
    static const char *const begins[] = { "<!doctype html", "<html", "<head", "<body", "<script", "<title", "<!--" };
    static const char mark[] = "\xef\xbb\xbf";
    const char *text = head;
    const char *const end = text + bytes;

    if (bytes >= 3 && memcmp(text, mark, 3) == 0)
        text += 3;
    while (text < end && isspace((unsigned char)*text))
        text++;
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        const size_t length = strlen(begins[i]);
        if ((size_t)(end - text) >= length && strncasecmp(text, begins[i], length) == 0)
            return true;
    }
    return false;
}
