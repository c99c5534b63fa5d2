/* Texts written into memory. */
#ifndef PIPETRAIN_TEXT_STREAM_H
#define PIPETRAIN_TEXT_STREAM_H

#include <stdio.h>

/* Close a stream of open_memstream whose text is *text. Such a stream fails for want of memory only; where the want
 * comes at its very end, glibc's says so by no text alone. 0, *text is the caller's to free; or -ENOMEM, there is no
 * text (NULL). */
int text_stream_end(FILE *stream, char **text);

#endif
