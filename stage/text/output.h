/* Writing to stdout and stderr without blocking: an unread pipe or a stopped terminal must not delay a step or the end
 * of a run. Texts go into fixed-size buffers, which separate threads write out. Lines that do not fit are dropped and
 * counted; when there is room again, "... N lines dropped: nobody read them" is printed in their place. */
#ifndef PIPETRAIN_OUTPUT_H
#define PIPETRAIN_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

enum output { OUTPUT_RESULTS, OUTPUT_MESSAGES, OUTPUT_COUNT };  /* stdout, stderr */

/* Open /dev/null for standard streams that are closed, so that no other file gets their descriptor. To be called first
 * in main. */
void output_fill_closed(void);
/* From now on SIGPIPE ends the process when the reader of its output has gone, as usual for filters. */
void output_end_with_reader(void);
/* From now on neither output_write nor stdio functions on stdout block; stdout is line-buffered. Before this call texts
 * are written directly. If both streams are the same file, their texts stay in order. 0, or a negative errno: then
 * texts are still written directly. Main only. */
int output_start(void);
/* Write a text. If its lane has no room for a piece of up to 17 KiB, that piece is dropped as a whole. Any thread, but
 * not a signal handler. */
void output_write(enum output output, const char *text, size_t bytes);
/* Wait until everything is written, at most limit_ms; for programs that end without output_end. */
void output_flush(uint32_t limit_ms);
/* End all output, whether it was started or not: wait at most 2 s for the rest to be written, and 0.2 s more for the
 * message that stdout is stuck. Later output may be lost. 0, or a negative errno if not all of stdout could be written,
 * which is reported on stderr. Main only. */
int output_end(void);

#endif
