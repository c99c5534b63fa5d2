/* Small text files that lie beside shards, read as a whole. */
#ifndef PIPETRAIN_TEXT_FILE_H
#define PIPETRAIN_TEXT_FILE_H

#include <stddef.h>

/* The bytes of the file, to be freed, and how many. 0, or a negative errno: -ENOENT, -EFBIG over `bytes_max`,
 * -ESPIPE for what is no regular file, -ESTALE when it changes meanwhile. Blocks on the file system. */
int text_file_read(const char *path, size_t bytes_max, char **text_out, size_t *bytes_out);
/* What a result other than 0 means, in words. */
const char *text_file_problem(int result);

#endif
