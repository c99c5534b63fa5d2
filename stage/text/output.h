/* What the program says on stdout and stderr, without waiting for who reads it: a pipe that nobody
 * reads or a terminal that is stopped must not hold up a step or the end of a run. Texts go into
 * buffers of fixed size, which threads of their own empty; what does not fit is dropped and counted,
 * and "... N lines dropped: nobody read them" stands in its place when there is room again. */
#ifndef PIPETRAIN_OUTPUT_H
#define PIPETRAIN_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

enum output { OUTPUT_RESULTS, OUTPUT_MESSAGES, OUTPUT_COUNT };  /* stdout, stderr */

/* A standard stream that is closed gets a place where nothing arrives, so that no file is opened in its place.
 * First of all. */
void output_fill_closed(void);
/* What the program is for is what it says: where nobody takes it any more it ends at once, by SIGPIPE, as other filters
 * do. Before output_start. */
void output_end_with_reader(void);
/* From here on nothing that output_write and stdout's stdio functions are given is waited for; each
 * line of stdout goes on its way when it ends. Before, writing is direct. Where both are the
 * same file their texts keep one order. 0, or a negative errno: then writing is direct. Main only. */
int output_start(void);
/* Give a text on, all of it or nothing. Any thread, but a signal handler. */
void output_write(enum output output, const char *text, size_t bytes);
/* Wait until all is written, but not longer than limit_ms: before a program ends without output_end. */
void output_flush(uint32_t limit_ms);
/* The end of all output, whether it was started or not: waits 2 s at most for the rest to be written, 0.2 s
 * more for the message that stdout is stuck.
 * What is said later is lost. 0, or a negative errno when not all of stdout could be written, which is
 * said on stderr. Main only. */
int output_end(void);

#endif
