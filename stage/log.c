/* Messages for people on stderr. Called from any thread; a message is put together on
 * the caller's stack and written with one call, so lines of two threads never mix. */
#include "stage/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_TEXT_BYTES 4096

static const char error_prefix[] = "pipetrain: ";
static const char cut_mark[] = "...";

static bool is_control(unsigned char byte)
{
    return byte < 32 || byte == 127;
}

static bool is_unsafe(unsigned char byte)
{
    return is_control(byte) || byte > 126 || byte == '"' || byte == '\'' || byte == '\\';
}

/* Copy text with the bytes that must not be shown as they are as \xHH, cut to what
 * fits. Returns the length of the copy. */
static size_t escape_bytes(const char *text, size_t bytes, char *out, size_t out_size,
                           bool (*must_escape)(unsigned char byte))
{
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const size_t width = must_escape(byte) ? 4 : 1;
        if (length + width >= out_size)
            break;
        if (width == 1) {
            out[length++] = text[i];
            continue;
        }
        out[length++] = '\\';
        out[length++] = 'x';
        out[length++] = digits[byte >> 4];
        out[length++] = digits[byte & 15];
    }
    if (out_size > 0)
        out[length] = '\0';
    return length;
}

void log_escape(const char *text, size_t bytes, char *out, size_t out_size)
{
    escape_bytes(text, bytes, out, out_size, is_unsafe);
}

static void write_all(const char *line, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(STDERR_FILENO, line, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* nobody can be told */
        line += written;
        bytes -= (size_t)written;
    }
}

static void write_line(enum log_level level, const char *text, bool is_cut)
{
    /* Room for every byte escaped, the prefix, the mark and the line end. */
    char line[4 * LOG_TEXT_BYTES + sizeof(error_prefix) + sizeof(cut_mark) + 1];
    size_t length = 0;
    if (level == LOG_ERROR) {
        memcpy(line, error_prefix, sizeof(error_prefix) - 1);
        length = sizeof(error_prefix) - 1;
    }
    length += escape_bytes(text, strlen(text), line + length, 4 * LOG_TEXT_BYTES, is_control);
    if (is_cut) {
        memcpy(line + length, cut_mark, sizeof(cut_mark) - 1);
        length += sizeof(cut_mark) - 1;
    }
    line[length++] = '\n';
    write_all(line, length);
}

void log_message(enum log_level level, const char *format, ...)
{
    const int saved_errno = errno;
    char text[LOG_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (wanted >= 0)
        write_line(level, text, (size_t)wanted >= sizeof(text));
    errno = saved_errno;
}
