/* Text files. Called while a data set is opened. */
#include "loader/shards/text_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/shard_source.h"

static int read_source(struct shard_source *source, size_t bytes_max, char **text_out, size_t *bytes_out)
{
    const size_t bytes = source->stamp.bytes;
    if (bytes > bytes_max)
        return -EFBIG;
    char *const text = malloc(bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    const ssize_t got = bytes > 0 ? shard_source_read(source, text, bytes, 0) : 0;
    if (got == (ssize_t)bytes) {
        *text_out = text;
        *bytes_out = bytes;
        return 0;
    }
    free(text);
    return got < 0 ? (int)got : -ESTALE;
}

int text_file_read(const char *path, size_t bytes_max, char **text_out, size_t *bytes_out)
{
    struct shard_source *source;
    int rc = shard_source_open(&source, &shard_file_ops, path);
    if (rc < 0)
        return rc;
    rc = read_source(source, bytes_max, text_out, bytes_out);
    shard_source_close(source);
    return rc;
}

const char *text_file_problem(int result)
{
    return result == -ESPIPE ? "is not a regular file" : strerror(-result);
}
