/* An output file of a command, which the user names. */
#ifndef PIPETRAIN_RESULT_FILE_H
#define PIPETRAIN_RESULT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "stage/file/whole_file.h"

/* Check in advance that the file may be written. An exit code, after a message unless it is EXIT_CODE_OK. */
int result_file_check(const char *path, bool may_replace);
/* Write the parts to `path`, atomically; never through a link, and over an existing regular file only with
 * `may_replace`. An exit code, after a message unless it is EXIT_CODE_OK. */
int result_file_write(const char *path, bool may_replace, const struct file_part *parts, size_t count);

#endif
