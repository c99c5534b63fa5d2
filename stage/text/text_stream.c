/* Ends of streams in memory. */
#include "stage/text/text_stream.h"

#include <errno.h>
#include <stdlib.h>

int text_stream_end(FILE *stream, char **text)
{
    const int failed = ferror(stream);
    if (fclose(stream) == 0 && failed == 0 && *text != NULL)
        return 0;
    free(*text);
    *text = NULL;
    return -ENOMEM;
}
