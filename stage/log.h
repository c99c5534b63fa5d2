/* Messages for the user: each is one line, and is written to stderr with one call, or in a library given to a sink.
 * Results go to stdout. */
#ifndef PIPETRAIN_LOG_H
#define PIPETRAIN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_PROBLEM, LOG_RUN };

/* Set the program's name in messages, at most LOG_NAME_MAX bytes (kept, not copied); the default is "pipetrain". To be
 * called before threads are started. */
#define LOG_NAME_MAX 32
void log_name(const char *name);
/* Print a message: for LOG_ERROR with the prefix "pipetrain: "; without it for LOG_PROBLEM, an error whose text begins
 * with its file or place, and for LOG_RUN, information that is printed a few times per run. Any thread. */
void log_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Print a line of trusted text unchanged; it has at most LOG_LINE_MAX bytes and no newline. */
#define LOG_LINE_MAX 1023u
void log_line(const char *text);
/* On a terminal, show a live line: the next one replaces it, and any message erases it. NULL: erase it now. Any thread,
 * one at a time. */
void log_live(const char *text);

/* From now on print no LOG_RUN messages, including held ones. */
void log_only_errors(void);
/* Suppress the messages of the calling thread, for work that is repeated later and prints them then. */
void log_mute(bool is_muted);
/* From now on begin all messages with the sender, as in "rank 2 (node7): ..."; the text is kept, not copied, and
 * truncated to LOG_SENDER_MAX bytes. */
#define LOG_SENDER_MAX 127u
void log_sender(const char *sender);

/* ---- messages of a library ----
 *
 * A program that uses the loader as a library (tools/feed) gets its messages by functions: nothing is printed. */

/* Receives the messages of threads instead of stderr. It is not to be changed while a thread has it. */
struct log_sink {
    /* A message of one line, escaped as it would be printed, without the program's name and the sender, and without a
     * newline. Called by the thread that logs it, so by several at once; it must neither log nor block for long. */
    void (*take)(void *arg, enum log_level level, const char *text);
    void *arg;
};

/* From now on the calling thread's messages go to the sink, and so do those of the threads that it starts by
 * thread_start; live lines are dropped, and neither log_hold nor log_only_errors apply. NULL: to stderr, as without a
 * call. The sink is kept, not copied, until the last of these threads has ended. Returns the one before. */
const struct log_sink *log_sink_set(const struct log_sink *sink);
/* The sink of the calling thread, or NULL. */
const struct log_sink *log_sink_get(void);

/* ---- held messages ----
 *
 * If several processes have equal messages, one of them can print the messages for all. */

/* From now until log_release, keep messages instead of printing them. Not to be called while log_release runs. */
void log_hold(void);
/* Take the held messages as lines: a letter for the level, 'A' + enum log_level, and the text, without the program's
 * name and the sender. Messages beyond LOG_HELD_BYTES are dropped; *dropped_out is their number. NULL when out of
 * memory: then the messages stay held. The caller frees the result. */
#define LOG_HELD_BYTES ((size_t)64 << 10)
char *log_take_held(uint32_t *dropped_out);
/* Print the held messages; from now on messages are printed at once. Returns whether messages were being held. Any
 * thread. */
bool log_release(void);

/* Copy `bytes` bytes of untrusted text to out (capacity out_size, always terminated). Quotes, backslashes and all that
 * log_plain escapes become \xHH. */
void log_escape(const char *text, size_t bytes, char *out, size_t out_size);
/* Copy text as it is printed in messages: control characters (utf8_is_control) and bytes that are not UTF-8 become
 * \xHH; letters of all languages are unchanged. Returns the length. */
size_t log_plain(const char *text, char *out, size_t out_size);

#endif
