/* Wrap lines. Called by the main thread. */
#include "tools/lib/text/wrapped.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tools/lib/text/columns.h"

/* Does the text begin with a command, such as "./pipetrain" or "pipetrain-convert"? */
static bool begins_command(const char *text)
{
    static const char program[] = "pipetrain";
    const char *name = text + (*text == '(');
    for (const char *at = name; *at != '\0' && *at != ' '; at++)
        name = *at == '/' ? at + 1 : name;
    return strncmp(name, program, sizeof(program) - 1) == 0;
}

/* Is the space at `at` inside a command? A command ends at a comma, a semicolon or a bracket. */
static bool divides_command(const char *text, size_t at, bool in_command)
{
    static const char option[] = "--set";
    const size_t option_bytes = sizeof(option) - 1;
    if (at >= option_bytes && memcmp(text + at - option_bytes, option, option_bytes) == 0)
        return true;
    return in_command && strchr(",;)", text[at - 1]) == NULL && text[at + 1] != '(';
}

/* Is the text after the byte at `at` inside quotes of a shell? An apostrophe in a word is not a quote. */
static bool is_quoted_after(const char *text, size_t at, bool is_quoted)
{
    if (text[at] != '\'')
        return is_quoted;
    return !is_quoted && (at == 0 || strchr(" =('", text[at - 1]) != NULL) && strchr(text + at + 1, '\'') != NULL;
}

/* The number of bytes of `text` for a line of `room` columns; more if the first word or command is longer. */
static size_t fitting(const char *text, size_t room)
{
    const size_t bytes = strlen(text), fits = columns_fitting(text, room);
    size_t blank = 0, stop = 0, outer_stop = 0, depth = 0;
    bool in_command = begins_command(text), is_quoted = false;
    if (bytes == fits)
        return bytes;
    for (size_t i = 0; i < bytes && (i <= fits || blank == 0); i++) {
        is_quoted = is_quoted_after(text, i, is_quoted);
        if (is_quoted)
            continue;
        depth += text[i] == '(';
        depth -= text[i] == ')' && depth > 0;
        if (text[i] != ' ' || i == 0 || divides_command(text, i, in_command))
            continue;
        in_command = begins_command(text + i + 1);
        blank = i;
        if (text[i - 1] != ',' && text[i - 1] != ';')
            continue;
        stop = i;
        outer_stop = depth == 0 ? i : outer_stop;
    }
    return outer_stop > 0 ? outer_stop : stop > 0 ? stop : blank > 0 ? blank : bytes;
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
