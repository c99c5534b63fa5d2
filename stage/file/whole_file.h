/* Files that appear in a directory whole or not at all: FILE is written as .FILE.tmp.PROCESS, synced,
 * and then renamed. No link is followed, and nothing is allocated. Any thread, one for each file. */
#ifndef PIPETRAIN_WHOLE_FILE_H
#define PIPETRAIN_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define WHOLE_FILE_NAME_MAX 128u        /* bytes of FILE */

/* A piece of a file's content. */
struct file_part { const void *data; size_t bytes; };

/* Write the parts, one behind the other, to an open file, wait until they are on the disk and close it. 0, or the
 * negative errno of what failed: the file is closed all the same. */
int whole_file_fill(int fd, const struct file_part *parts, size_t count);
/* The same under the temporary name. Where it failed it is gone again. */
int whole_file_prepare(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* An empty file under the temporary name, to append to: its descriptor, or a negative errno. */
int whole_file_make(int directory_fd, const char *file);
/* Give it its name, in the place of what had it. 0 or a negative errno: then it keeps the temporary one. */
int whole_file_appear(int directory_fd, const char *file);
/* Remove the temporary file, if there is one. */
void whole_file_drop(int directory_fd, const char *file);
/* Wait until names are on the disk; file systems that cannot do that are let off. 0 or a negative errno. */
int whole_file_sync_names(int directory_fd);
/* That and the sync of what was prepared. Without success nothing temporary stays. */
int whole_file_finish(int directory_fd, const char *file);
/* All of it: prepare, finish. Without success nothing temporary stays. */
int whole_file_write(int directory_fd, const char *file, const struct file_part *parts, size_t count);
/* Is this the temporary name of `file`, whatever the process? */
bool whole_file_is_temporary(const char *name, const char *file);
/* Of any file whose name begins so? */
bool whole_file_is_any_temporary(const char *name, const char *file_begins);

#endif
