/* Messages for people, on stderr: one line each, written with one call, whatever it holds. Results
 * never go through here (they go to stdout). */
#ifndef PIPETRAIN_LOG_H
#define PIPETRAIN_LOG_H

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_PROBLEM, LOG_RUN };

/* The program's name in messages, at most LOG_NAME_MAX bytes (kept, not copied); "pipetrain" until this is
 * called, before any thread is started. */
#define LOG_NAME_MAX 32
void log_name(const char *name);
/* "pipetrain: ..." for LOG_ERROR; the plain text for LOG_PROBLEM, an error that names its place itself, and for
 * LOG_RUN: what is worth saying once or a few times in a run. Any thread. */
void log_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line of ours as it is, without a line end, of at most LOG_LINE_MAX bytes; the message of nobody. */
#define LOG_LINE_MAX 1023u
void log_line(const char *text);
/* On a terminal: a line that stays open and is painted over by the next one, and goes when a message comes. NULL: it
 * goes now. Any thread, one at a time. */
void log_live(const char *text);

/* From here on nothing is said with LOG_RUN. Before any thread is started. */
void log_only_errors(void);

/* Copy `bytes` of untrusted text to out (capacity out_size, always terminated) with quotes, backslashes
 * and what messages never show as \xHH. */
void log_escape(const char *text, size_t bytes, char *out, size_t out_size);
/* Copy text as messages show it: what acts on the text around it (utf8_is_control) and bytes that are no UTF-8 as
 * \xHH; letters of every language stay. Returns the length. */
size_t log_plain(const char *text, char *out, size_t out_size);

#endif
