/* Files that appear in a directory atomically: FILE is written as .FILE.tmp.PROCESS, synced and then renamed. No
 * link is followed, and nothing is allocated. Any thread, one for each file. */
#ifndef PIPETRAIN_WHOLE_FILE_H
#define PIPETRAIN_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define WHOLE_FILE_NAME_MAX 128u        /* bytes of FILE */

/* A part of a file's content. */
struct file_part { const void *data; size_t bytes; };

/* Write the parts one after another to an open file, wait until they are on the disk, and close it. 0, or the negative
 * errno of what failed; the file is closed in any case. */
int whole_file_fill(int fd, const struct file_part *parts, size_t count);
/* The same with the temporary file. Removes it after a failure. */
int whole_file_prepare(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* Make an empty temporary file to append to. Returns its descriptor, or a negative errno. */
int whole_file_make(int directory_fd, const char *file);
/* Rename the temporary file to `file`, replacing an existing one. 0, or a negative errno: then it keeps its temporary
 * name. */
int whole_file_appear(int directory_fd, const char *file);
/* Remove the temporary file, if there is one. */
void whole_file_drop(int directory_fd, const char *file);
/* Sync the directory, where the file system supports that. 0 or a negative errno. */
int whole_file_sync_names(int directory_fd);
/* whole_file_appear and whole_file_sync_names. Removes the temporary file after a failure. */
int whole_file_finish(int directory_fd, const char *file);
/* All of it: prepare and finish. Removes the temporary file after a failure. */
int whole_file_write(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* Whether this is the temporary name of `file` in any process. */
bool whole_file_is_temporary(const char *name, const char *file);
/* Whether it is the temporary name of any file whose name begins so. */
bool whole_file_is_any_temporary(const char *name, const char *file_begins);

#endif
