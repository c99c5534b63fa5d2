/* Files that appear in a directory atomically: FILE is written as .FILE.tmp.PROCESS, synced and then renamed. Links are
 * not followed, and nothing is allocated. Any thread, one per file. */
#ifndef PIPETRAIN_WHOLE_FILE_H
#define PIPETRAIN_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define WHOLE_FILE_NAME_MAX 128u        /* bytes of FILE */

/* A part of a file's content. */
struct file_part { const void *data; size_t bytes; };

/* Write the parts, one after another, to an open file, sync it and close it, after a failure too. 0, or the negative
 * errno of the operation that failed. */
int whole_file_fill(int fd, const struct file_part *parts, size_t count);
/* As whole_file_fill, with a new temporary file of `file`; removes it after a failure. */
int whole_file_prepare(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* Make an empty temporary file, open for appending. Returns its descriptor or a negative errno. */
int whole_file_make(int directory_fd, const char *file);
/* Rename the temporary file to `file`, replacing an existing one. 0, or a negative errno: then the temporary file keeps
 * its name. */
int whole_file_appear(int directory_fd, const char *file);
/* Remove the temporary file if it exists. */
void whole_file_drop(int directory_fd, const char *file);
/* Sync the directory, if the file system supports that. 0 or a negative errno. */
int whole_file_sync_names(int directory_fd);
/* whole_file_appear and whole_file_sync_names. Removes the temporary file after a failure. */
int whole_file_finish(int directory_fd, const char *file);
/* whole_file_prepare and whole_file_finish. Removes the temporary file after a failure. */
int whole_file_write(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* Is `name` a temporary name of `file` in any process? */
bool whole_file_is_temporary(const char *name, const char *file);
/* Is `name` a temporary name of any file whose name begins with `file_begins`? */
bool whole_file_is_any_temporary(const char *name, const char *file_begins);

#endif
