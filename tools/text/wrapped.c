/* Wrap lines. Called by the main thread. */
#include "tools/text/wrapped.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"

/* The number of bytes of `text` for a line of `room` bytes. */
static size_t fitting(const char *text, size_t room)
{
    const size_t bytes = strlen(text);
    size_t blank = 0, stop = 0, outer_stop = 0, depth = 0;
    if (bytes <= room)
        return bytes;
    for (size_t i = 0; i <= room; i++) {
        depth += text[i] == '(';
        depth -= text[i] == ')' && depth > 0;
        if (text[i] != ' ' || i == 0)
            continue;
        blank = i;
        if (text[i - 1] != ',' && text[i - 1] != ';')
            continue;
        stop = i;
        outer_stop = depth == 0 ? i : outer_stop;
    }
    return outer_stop > 0 ? outer_stop : stop > 0 ? stop : blank > 0 ? blank : strcspn(text, " ");
}

static void write_broken(FILE *out, const char *text)
{
    /* Do not break within the name or the spaces after it. */
    size_t taken = strlen(text) > WRAPPED_INDENT ? WRAPPED_INDENT : 0;
    fprintf(out, "%.*s", (int)taken, text);
    for (text += taken; *text != '\0'; text += taken) {
        text += strspn(text, " ");
        taken = fitting(text, WRAPPED_COLUMNS - WRAPPED_INDENT);
        fprintf(out, "%.*s", (int)taken, text);
        if (text[taken] != '\0')
            fprintf(out, "\n%*s", (int)WRAPPED_INDENT, "");
    }
    fputc('\n', out);
}

void wrapped_write(FILE *out, const char *text)
{
    const size_t room = 4 * strlen(text) + 1;   /* each byte as \xHH */
    char *const shown = malloc(room);
    if (shown != NULL)
        log_plain(text, shown, room);
    write_broken(out, shown != NULL ? shown : text);
    free(shown);
}

void wrapped_print(FILE *out, const char *format, ...)
{
    va_list arguments, again;
    char *text = NULL;
    va_start(arguments, format);
    va_copy(again, arguments);
    if (vasprintf(&text, format, arguments) >= 0) {
        wrapped_write(out, text);
        free(text);
    } else {
        vfprintf(out, format, again);
        fputc('\n', out);
    }
    va_end(again);
    va_end(arguments);
}
