/* Writing to stdout and stderr without blocking: a pipe that nobody reads or a stopped terminal must not delay a
 * step or the end of a run. Texts go into buffers of fixed size that threads of their own write out. What does not
 * fit is dropped and counted, and "... N lines dropped: nobody read them" is printed in its place when there is room
 * again. */
#ifndef PIPETRAIN_OUTPUT_H
#define PIPETRAIN_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

enum output { OUTPUT_RESULTS, OUTPUT_MESSAGES, OUTPUT_COUNT };  /* stdout, stderr */

/* Open /dev/null for standard streams that are closed, so that no other file gets their descriptor. First of all. */
void output_fill_closed(void);
/* From now on the process ends by SIGPIPE when its output is no longer read, as filters do. */
void output_end_with_reader(void);
/* From now on neither output_write nor stdio functions on stdout block; stdout is line-buffered. Before this call,
 * writing is direct. If both streams are the same file, their texts stay in order. 0, or a negative errno: then
 * writing stays direct. Main only. */
int output_start(void);
/* Write a text, all of it or nothing. Any thread, but not a signal handler. */
void output_write(enum output output, const char *text, size_t bytes);
/* Wait until everything is written, at most limit_ms: before a program ends without output_end. */
void output_flush(uint32_t limit_ms);
/* End all output, whether it was started or not: wait at most 2 s for the rest to be written, and 0.2 s more for the
 * message that stdout is stuck. Later output is lost. 0, or a negative errno when not all of stdout could be
 * written, which is reported on stderr. Main only. */
int output_end(void);

#endif
