/* Messages for the user on stderr. Called from any thread; a message is formatted on the caller's stack and written
 * with one call, so lines of two threads never mix. */
#include "stage/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/output.h"
#include "stage/text/utf8.h"

#define LOG_TEXT_BYTES 4096
#define PLAIN_BYTES (4 * LOG_TEXT_BYTES + sizeof(cut_mark))     /* every byte escaped, and cut_mark */

static const char cut_mark[] = "...";

#define ERASE "\r\033[K"         /* erases the current line of a terminal */

static const char *program = "pipetrain";
static const char *_Atomic sender;      /* NULL: none */
static atomic_bool only_errors;
static _Thread_local bool thread_is_muted;
static _Thread_local const struct log_sink *thread_sink;        /* NULL: stderr */
static atomic_bool is_live;     /* a line of log_live is displayed */

/* Held messages, in the format of log_take_held. */
static struct {
    pthread_mutex_t lock;               /* protects the following fields */
    bool is_on;
    uint32_t dropped;
    size_t bytes;
    char text[LOG_HELD_BYTES];
} held = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Bytes of the character at the start of `text` if it may be printed unchanged; 0 if its first byte must be escaped,
 * because it is not UTF-8 or begins a control character (utf8_is_control). */
static size_t plain_bytes(const char *text, size_t bytes)
{
    const size_t character = utf8_character_bytes(text, bytes);
    return character > 0 && utf8_is_control(text, character) ? 0 : character;
}

/* As plain_bytes, for text inside quotes. */
static size_t quotable_bytes(const char *text, size_t bytes)
{
    return text[0] == '"' || text[0] == '\'' || text[0] == '\\' ? 0 : plain_bytes(text, bytes);
}

/* Copy text, truncated to fit; a byte for which `plain` returns 0 becomes \xHH. Returns the length of the copy. */
static size_t escape_bytes(const char *text, size_t bytes, char *out, size_t out_size,
                           size_t (*plain)(const char *text, size_t bytes))
{
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t kept = plain(text + i, bytes - i);
        const unsigned char byte = (unsigned char)text[i];
        const char escaped[4] = { '\\', 'x', digits[byte >> 4], digits[byte & 15] };
        const size_t width = kept > 0 ? kept : sizeof(escaped);
        if (length + width >= out_size)
            break;
        memcpy(out + length, kept > 0 ? text + i : escaped, width);
        length += width;
        i += kept > 0 ? kept : 1;
    }
    if (out_size > 0)
        out[length] = '\0';
    return length;
}

void log_escape(const char *text, size_t bytes, char *out, size_t out_size)
{
    escape_bytes(text, bytes, out, out_size, quotable_bytes);
}

size_t log_plain(const char *text, char *out, size_t out_size)
{
    return escape_bytes(text, strlen(text), out, out_size, plain_bytes);
}

/* Write the sequence that erases a live line, if one is displayed. Returns its length. */
static size_t begin_line(char *line)
{
    if (!atomic_exchange(&is_live, false))
        return 0;
    memcpy(line, ERASE, sizeof(ERASE) - 1);
    return sizeof(ERASE) - 1;
}

void log_line(const char *text)
{
    if (thread_sink != NULL) {
        thread_sink->take(thread_sink->arg, LOG_RUN, text);
        return;
    }
    char line[sizeof(ERASE) + LOG_LINE_MAX + 2];
    size_t length = begin_line(line);
    length += (size_t)snprintf(line + length, LOG_LINE_MAX + 1, "%s", text);
    line[length++] = '\n';
    output_write(OUTPUT_MESSAGES, line, length);
}

void log_live(const char *text)
{
    char line[sizeof(ERASE) + LOG_LINE_MAX + 1];
    if (thread_sink != NULL || (text == NULL && !atomic_exchange(&is_live, false)))
        return;
    const int length = snprintf(line, sizeof(line), "%s%s", ERASE, text != NULL ? text : "");
    output_write(OUTPUT_MESSAGES, line, (size_t)length);
    if (text != NULL)
        atomic_store(&is_live, true);
}

/* Print an escaped text of at most PLAIN_BYTES. */
static void write_line(enum log_level level, const char *text, size_t bytes)
{
    /* Room for the erasing sequence, the prefixes, the text and the newline. */
    char line[sizeof(ERASE) + LOG_NAME_MAX + sizeof(": ") + LOG_SENDER_MAX + sizeof(": ") + PLAIN_BYTES + 1];
    const char *const from = sender;
    size_t length = begin_line(line);
    if (level == LOG_ERROR)
        length += (size_t)snprintf(line + length, LOG_NAME_MAX + sizeof(": "), "%s: ", program);
    if (from != NULL)
        length += (size_t)snprintf(line + length, LOG_SENDER_MAX + sizeof(": "), "%.*s: ", (int)LOG_SENDER_MAX, from);
    memcpy(line + length, text, bytes);
    length += bytes;
    line[length++] = '\n';
    output_write(OUTPUT_MESSAGES, line, length);
}

/* ---- held messages ---- */

void log_hold(void)
{
    pthread_mutex_lock(&held.lock);
    held.is_on = true;
    pthread_mutex_unlock(&held.lock);
}

/* Hold the message, or drop it if there is no room. False if messages are not held now. */
static bool hold(enum log_level level, const char *text, size_t bytes)
{
    pthread_mutex_lock(&held.lock);
    const bool is_on = held.is_on;
    if (is_on && sizeof(held.text) - held.bytes < bytes + 2) {
        held.dropped++;
    } else if (is_on) {
        held.text[held.bytes++] = (char)('A' + level);
        memcpy(held.text + held.bytes, text, bytes);
        held.bytes += bytes;
        held.text[held.bytes++] = '\n';
    }
    pthread_mutex_unlock(&held.lock);
    return is_on;
}

char *log_take_held(uint32_t *dropped_out)
{
    pthread_mutex_lock(&held.lock);
    char *const text = strndup(held.text, held.bytes);
    if (text != NULL) {
        *dropped_out = held.dropped;
        held.dropped = 0;
        held.bytes = 0;
    }
    pthread_mutex_unlock(&held.lock);
    return text;
}

bool log_release(void)
{
    pthread_mutex_lock(&held.lock);
    const char *const end = held.text + held.bytes;
    const uint32_t dropped = held.dropped;
    const bool was_on = held.is_on;
    held.dropped = 0;
    held.bytes = 0;
    held.is_on = false;
    pthread_mutex_unlock(&held.lock);
    for (const char *at = held.text; at < end;) {       /* held.text is constant until log_hold */
        const char *const newline = memchr(at, '\n', (size_t)(end - at));
        const enum log_level level = (enum log_level)(*at - 'A');
        if (level != LOG_RUN || !only_errors)
            write_line(level, at + 1, (size_t)(newline - at) - 1);
        at = newline + 1;
    }
    if (dropped > 0)
        log_message(LOG_ERROR, "%u more messages", dropped);
    return was_on;
}

void log_name(const char *name)
{
    assert(strlen(name) <= LOG_NAME_MAX);
    program = name;
}

void log_only_errors(void)
{
    only_errors = true;
}

void log_mute(bool is_muted)
{
    thread_is_muted = is_muted;
}

void log_sender(const char *name)
{
    sender = name;
}

const struct log_sink *log_sink_set(const struct log_sink *sink)
{
    const struct log_sink *const before = thread_sink;
    thread_sink = sink;
    return before;
}

const struct log_sink *log_sink_get(void)
{
    return thread_sink;
}

/* Remove an incomplete character at the end of a truncated text. */
static void drop_half_character(char *text)
{
    const size_t bytes = strlen(text);
    size_t begin = bytes;
    while (begin > 0 && bytes - begin < 3 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80)
        begin--;
    if (begin > 0 && (unsigned char)text[begin - 1] >= 0xc0 &&
        utf8_character_bytes(text + begin - 1, bytes - begin + 1) == 0)
        text[begin - 1] = '\0';
}

void log_message(enum log_level level, const char *format, ...)
{
    const int saved_errno = errno;
    const struct log_sink *const sink = thread_sink;
    if (thread_is_muted || (level == LOG_RUN && only_errors && sink == NULL))
        return;
    char text[LOG_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (wanted >= (int)sizeof(text))
        drop_half_character(text);
    if (wanted >= 0) {
        char plain[PLAIN_BYTES];
        size_t bytes = log_plain(text, plain, 4 * LOG_TEXT_BYTES);
        if ((size_t)wanted >= sizeof(text)) {
            memcpy(plain + bytes, cut_mark, sizeof(cut_mark));
            bytes += sizeof(cut_mark) - 1;
        }
        if (sink != NULL)
            sink->take(sink->arg, level, plain);
        else if (!hold(level, plain, bytes))
            write_line(level, plain, bytes);
    }
    errno = saved_errno;
}
