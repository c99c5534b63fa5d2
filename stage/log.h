/* Messages for people, on stderr: each is one line and written with one call. Results go to stdout instead. */
#ifndef PIPETRAIN_LOG_H
#define PIPETRAIN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Print no LOG_RUN messages from now on, nor those that are held. */
void log_only_errors(void);
/* Print no messages of the calling thread: of work that is done again later, with its messages. */
void log_mute(bool is_muted);
/* Name the sender at the start of all messages from now on, as in "rank 2 (node7): ..."; kept, not copied, and cut
 * after LOG_SENDER_MAX bytes. */
#define LOG_SENDER_MAX 127u
void log_sender(const char *sender);

/* ---- messages that are held ----
 * Of several processes that have the same messages, one can print them for all. */

/* Keep messages instead of printing them, from now until log_release. Not while that runs. */
void log_hold(void);
/* Take the held messages: lines of a letter for the level, 'A' + enum log_level, and the text, without the program's
 * name and the sender. Beyond LOG_HELD_BYTES messages are dropped; *dropped_out is their number. NULL: out of memory,
 * nothing is taken. Free it. */
#define LOG_HELD_BYTES ((size_t)64 << 10)
char *log_take_held(uint32_t *dropped_out);
/* Print what is held, and all messages from now on directly. Were messages held? Any thread. */
bool log_release(void);

/* Copy `bytes` of untrusted text to out (capacity out_size, always terminated); quotes, backslashes and what log_plain
 * escapes become \xHH. */
void log_escape(const char *text, size_t bytes, char *out, size_t out_size);
/* Copy text as messages show it: control characters (utf8_is_control) and bytes that are not UTF-8 become \xHH;
 * letters of every language stay. Returns the length. */
size_t log_plain(const char *text, char *out, size_t out_size);

#endif
