/* Messages for people, on stderr: one line each, written with one call, control
 * characters escaped. Results never go through here (they go to stdout). */
#ifndef PIPETRAIN_LOG_H
#define PIPETRAIN_LOG_H

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_RUN };

/* "pipetrain: ..." for LOG_ERROR, the plain text for LOG_RUN: what is worth saying once or a few
 * times in a run. Any thread. */
void log_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copy `bytes` of untrusted text to out (capacity out_size, always terminated)
 * with control characters, quotes, backslashes and bytes above 126 as \xHH. */
void log_escape(const char *text, size_t bytes, char *out, size_t out_size);

#endif
