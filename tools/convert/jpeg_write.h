/* Encodes pixels as a JPEG file in memory, with libjpeg-turbo: baseline, chroma 4:2:0; grey images have one
 * component. */
#ifndef PIPETRAIN_JPEG_WRITE_H
#define PIPETRAIN_JPEG_WRITE_H

#include "loader/images/image.h"

/* Used by one thread only. */
struct jpeg_writer;

/* `quality` is that of libjpeg, 1 to 100. 0 or -ENOMEM. */
int jpeg_writer_open(struct jpeg_writer **writer_out, int quality);
/* Accepts NULL. */
void jpeg_writer_close(struct jpeg_writer *writer);
/* Encode rows of pixels with 1 or 3 channels. The file is valid until the next call. 0; -EBADMSG with a text from
 * the library; -ENOMEM. */
int jpeg_write(struct jpeg_writer *writer, const uint8_t *pixels, const struct image_shape *shape,
               const uint8_t **bytes_out, size_t *byte_count_out, char *problem_out, size_t problem_size);

#endif
