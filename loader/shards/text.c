/* Messages that are composed in a buffer. Any thread. */
#include "loader/shards/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"

static void text_advance(struct text *text, size_t wanted)
{
    const size_t last = text->room ? text->room - 1 : 0;
    const size_t written = wanted < last ? wanted : last;
    text->at += written;
    text->room -= written;
}

void text_init(struct text *text, char *buffer, size_t size)
{
    *text = (struct text){ buffer, buffer, size };
    if (size > 0)
        buffer[0] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text->at, text->room, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        text_advance(text, (size_t)wanted);
}

void text_add_escaped(struct text *text, const char *untrusted)
{
    if (text->room == 0)
        return;
    log_escape(untrusted, strlen(untrusted), text->at, text->room);
    text_advance(text, strlen(text->at));
}

void text_line(struct text *text)
{
    if (text->at > text->start)
        text_add(text, "\n");
}
