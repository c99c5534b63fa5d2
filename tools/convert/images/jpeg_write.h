/* Pixels to a JPEG file in memory, by libjpeg-turbo: baseline, chroma at half the size each way (4:2:0), grey images
 * with one component. */
#ifndef PIPETRAIN_JPEG_WRITE_H
#define PIPETRAIN_JPEG_WRITE_H

#include "loader/images/image.h"

/* Belongs to one thread. */
struct jpeg_writer;

/* 0 or -ENOMEM. The quality is that of libjpeg, 1 ... 100. */
int jpeg_writer_open(struct jpeg_writer **writer_out, int quality);
/* Accepts NULL. */
void jpeg_writer_close(struct jpeg_writer *writer);
/* Write rows of pixels of 1 or 3 channels; the file stays until the next one. 0; -EBADMSG with what the library says
 * of it; -ENOMEM. */
int jpeg_write(struct jpeg_writer *writer, const uint8_t *pixels, const struct image_shape *shape,
               const uint8_t **bytes_out, size_t *byte_count_out, char *problem_out, size_t problem_size);

#endif
