/* Messages for people, on stderr: each is one line and written with one call. Results go to stdout instead. */
#ifndef PIPETRAIN_LOG_H
#define PIPETRAIN_LOG_H

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_PROBLEM, LOG_RUN };

/* Set the program's name in messages, at most LOG_NAME_MAX bytes (kept, not copied); by default "pipetrain". Before any
 * thread is started. */
#define LOG_NAME_MAX 32
void log_name(const char *name);
/* Print "pipetrain: ..." for LOG_ERROR; the plain text for LOG_PROBLEM, an error that names its file or place
 * itself, and for LOG_RUN, what is worth printing a few times in a run. Any thread. */
void log_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print a line verbatim: trusted text of at most LOG_LINE_MAX bytes, without its newline. */
#define LOG_LINE_MAX 1023u
void log_line(const char *text);
/* On a terminal: show a line that the next one replaces and any message removes. NULL: remove it now. Any thread,
 * one at a time. */
void log_live(const char *text);

/* Print no LOG_RUN messages from now on. Before any thread is started. */
void log_only_errors(void);

/* Copy `bytes` of untrusted text to out (capacity out_size, always terminated); quotes, backslashes and what log_plain
 * escapes become \xHH. */
void log_escape(const char *text, size_t bytes, char *out, size_t out_size);
/* Copy text as messages show it: control characters (utf8_is_control) and bytes that are not UTF-8 become \xHH;
 * letters of every language stay. Returns the length. */
size_t log_plain(const char *text, char *out, size_t out_size);

#endif
