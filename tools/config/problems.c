/* The list of problems: formatted when added, printed at the end. */
#include "tools/config/problems.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void problems_init(struct problems *problems)
{
    *problems = (struct problems){ .count = 0 };
}

void problems_release(struct problems *problems)
{
    for (size_t i = 0; i < problems->count && i < PROBLEMS_MAX; i++)
        free(problems->lines[i]);
    problems_init(problems);
}

/* A copy of `text` with control characters as \xHH, malloc'ed; NULL when memory is short. */
static char *escape(const char *text)
{
    static const char hex[] = "0123456789abcdef";
    char *copy = malloc(4 * strlen(text) + 1);
    char *out = copy;
    for (; copy != NULL && *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte >= 0x20 && byte != 0x7f) {
            *out++ = *text;
            continue;
        }
        *out++ = '\\';
        *out++ = 'x';
        *out++ = hex[byte >> 4];
        *out++ = hex[byte & 15];
    }
    if (copy != NULL)
        *out = '\0';
    return copy;
}

void problems_add(struct problems *problems, const char *where, const char *format, ...)
{
    const size_t place = problems->count++;
    if (place >= PROBLEMS_MAX)
        return;
    char line[1024];
    const int where_bytes = snprintf(line, sizeof(line), "%.512s%s", where, *where == '\0' ? "" : ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + where_bytes, sizeof(line) - (size_t)where_bytes, format, arguments);
    va_end(arguments);
    problems->lines[place] = escape(line);
}

void problems_print(const struct problems *problems, FILE *out)
{
    for (size_t i = 0; i < problems->count && i < PROBLEMS_MAX; i++)
        fprintf(out, "%s\n", problems->lines[i] == NULL ? "out of memory" : problems->lines[i]);
    if (problems->count > PROBLEMS_MAX)
        fprintf(out, "and %zu more problems\n", problems->count - PROBLEMS_MAX);
}
