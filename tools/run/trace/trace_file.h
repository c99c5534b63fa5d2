/* A trace as Chrome's JSON: an array with an event on each line, written a whole number of lines at a time, so that a
 * file that was cut off still opens. All room is taken when the file is opened. Used by one thread. */
#ifndef PIPETRAIN_TRACE_FILE_H
#define PIPETRAIN_TRACE_FILE_H

#include "stage/schedule.h"
#include "stage/trace/trace.h"

struct trace_file;

/* Host memory that trace_file_open takes. */
size_t trace_file_bytes(const struct trace_spec *spec, struct tower_range towers);
/* Room for a file of this trace (lent until trace_file_close), of a process with these towers. 0 or -ENOMEM. */
int trace_file_open(struct trace_file **file_out, const struct trace *trace, struct tower_range towers);
/* Could trace_file_begin make it? Nothing is opened for writing. As that one says. */
int trace_file_check(const char *path, const char **problem_out);
/* Make the file, which empties a trace that is there, and write the names of all tracks. 0, -EEXIST for a file that is
 * no trace, or another negative errno. A file of others, or one of which that cannot be told, stays as it is, and
 * *problem_out says so; else it is NULL. */
int trace_file_begin(struct trace_file *file, const char *path, const char **problem_out);
/* Write all that is recorded, and the array's end; the file is closed, whatever becomes of it. Nothing happens without
 * trace_file_begin, and the second time. As trace_look for when it may be called. *lost_out gets the entries there was
 * no room for. 0, or the first negative errno of a write. */
int trace_file_write(struct trace_file *file, uint64_t *lost_out);
/* Accepts NULL. */
void trace_file_close(struct trace_file *file);

#endif
