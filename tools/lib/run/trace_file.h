/* A trace in Chrome's JSON format: an array with an event on each line. Whole lines are written, so that a truncated
 * file can still be opened. All memory is allocated by trace_file_open. Used by one thread. */
#ifndef PIPETRAIN_TRACE_FILE_H
#define PIPETRAIN_TRACE_FILE_H

#include "stage/schedule.h"
#include "stage/trace/trace.h"

struct trace_file;

/* Host memory that trace_file_open allocates. */
size_t trace_file_bytes(const struct trace_spec *spec, struct tower_range towers);
/* For a trace (lent until trace_file_close) of a process with these towers. 0 or -ENOMEM. */
int trace_file_open(struct trace_file **file_out, const struct trace *trace, struct tower_range towers);
/* Would trace_file_begin succeed? Returns what it would; nothing is opened for writing. */
int trace_file_check(const char *path, const char **problem_out);
/* Create the file, or truncate it where it is a trace, and write the names of all tracks. 0, -EEXIST for a file that is
 * not a trace, or another negative errno. Other files, and files that cannot be read, are not changed: then
 * *problem_out says so; else it is NULL. */
int trace_file_begin(struct trace_file *file, const char *path, const char **problem_out);
/* Write all entries and the end of the array, and close the file. Does nothing without trace_file_begin, and the second
 * time. May be called when trace_look may. *lost_out: entries that did not fit. 0, or the first negative errno of a
 * write. */
int trace_file_write(struct trace_file *file, uint64_t *lost_out);
/* Accepts NULL. */
void trace_file_close(struct trace_file *file);

#endif
