/* A file that a command writes because its user named it. */
#ifndef PIPETRAIN_RESULT_FILE_H
#define PIPETRAIN_RESULT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "stage/file/whole_file.h"

/* Is the name free, or may it be taken? For commands that compute long before they write: an exit code, after a message
 * where it is not EXIT_CODE_OK. */
int result_file_check(const char *path, bool may_replace);
/* Write the parts to `path`, whole or not at all, never through a link and never over what is no regular file; over
 * another file only when `may_replace`. An exit code, after a message where it is not EXIT_CODE_OK. */
int result_file_write(const char *path, bool may_replace, const struct file_part *parts, size_t count);

#endif
