/* Messages that are put together in a buffer, and small text files. Any thread. */
#include "loader/shards/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/shard_source.h"
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

/* ---- files ---- */

static int read_source(struct shard_source *source, size_t bytes_max, char **text_out, size_t *bytes_out)
{
    const size_t bytes = source->stamp.bytes;
    if (bytes > bytes_max)
        return -EFBIG;
    char *const text = malloc(bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    const ssize_t got = bytes > 0 ? shard_source_read(source, text, bytes, 0) : 0;
    if (got == (ssize_t)bytes) {
        *text_out = text;
        *bytes_out = bytes;
        return 0;
    }
    free(text);
    return got < 0 ? (int)got : -ESTALE;
}

int text_file_read(const char *path, size_t bytes_max, char **text_out, size_t *bytes_out)
{
    struct shard_source *source;
    int rc = shard_source_open(&source, &shard_file_ops, path);
    if (rc < 0)
        return rc;
    rc = read_source(source, bytes_max, text_out, bytes_out);
    shard_source_close(source);
    return rc;
}

const char *text_file_problem(int result)
{
    return result == -ESPIPE ? "is not a regular file" : strerror(-result);
}
