/* The list of problems, formatted when added. */
#include "tools/lib/config/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"

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

/* An escaped copy of `text` from malloc; NULL without memory. */
static char *escape(const char *text)
{
    const size_t room = 4 * strlen(text) + 1;
    char *const copy = malloc(room);
    if (copy != NULL)
        log_plain(text, copy, room);
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
    problems->ran_short |= problems->lines[place] == NULL;
}

void problems_print(const struct problems *problems)
{
    if (problems->ran_short) {
        log_message(LOG_ERROR, "out of memory while collecting errors");
        return;
    }
    for (size_t i = 0; i < problems->count && i < PROBLEMS_MAX; i++)
        log_message(LOG_PROBLEM, "%s", problems->lines[i]);
    if (problems->count > PROBLEMS_MAX)
        log_message(LOG_PROBLEM, "and %zu more problems", problems->count - PROBLEMS_MAX);
}

int problems_end(struct problems *problems, int code)
{
    const bool ran_short = problems->ran_short;
    problems_print(problems);
    if (code == EXIT_CODE_MEMORY && problems->count == 0 && !ran_short)
        log_message(LOG_ERROR, "out of memory");
    problems_release(problems);
    return ran_short ? EXIT_CODE_MEMORY : code;
}
