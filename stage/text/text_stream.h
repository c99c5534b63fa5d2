/* Writing text into memory with stdio. */
#ifndef PIPETRAIN_TEXT_STREAM_H
#define PIPETRAIN_TEXT_STREAM_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Close a stream of open_memstream whose text is *text. Such a stream fails only when out of memory; on a failure in
 * fclose, glibc only leaves *text NULL. 0, and the caller frees *text; or -ENOMEM, and *text is NULL. */
static inline int text_stream_end(FILE *stream, char **text)
{
    const int failed = ferror(stream);
    if (fclose(stream) == 0 && failed == 0 && *text != NULL)
        return 0;
    free(*text);
    *text = NULL;
    return -ENOMEM;
}

#endif
