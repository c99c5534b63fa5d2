/* A trace in Chrome's JSON format: an array with an event on each line. Only complete lines are written, so that a
 * truncated file can still be opened. All memory is allocated by trace_file_open. Used by one thread. */
#ifndef PIPETRAIN_TRACE_FILE_H
#define PIPETRAIN_TRACE_FILE_H

#include "stage/schedule.h"
#include "stage/trace/trace.h"

struct trace_file;

/* Host memory that trace_file_open allocates. */
size_t trace_file_bytes(const struct trace_spec *spec, struct tower_range towers);
/* Open the writer of a trace (lent until trace_file_close) of a process with these towers. 0 or -ENOMEM. */
int trace_file_open(struct trace_file **file_out, const struct trace *trace, struct tower_range towers);
/* Would trace_file_begin succeed? Returns the value that it would; no file is opened for writing. */
int trace_file_check(const char *path, const char **problem_out);
/* Create the file, or truncate it if it is a trace, and write the names of all tracks. 0, -EEXIST for a file that is
 * not a trace, or another negative errno. Files that are no trace or cannot be read are not changed; *problem_out then
 * says so, otherwise it becomes NULL. */
int trace_file_begin(struct trace_file *file, const char *path, const char **problem_out);
/* Write all entries and the end of the array, and close the file. Has no effect without trace_file_begin, or when
 * called again. May be called at the times at which trace_look may be called. *lost_out: the number of entries that did
 * not fit. 0, or the first negative errno of a write. */
int trace_file_write(struct trace_file *file, uint64_t *lost_out);
/* Accepts NULL. */
void trace_file_close(struct trace_file *file);

#endif
