/* The header of an encoded image, JPEG (ITU-T T.81, annex B) or PNG (its specification, section 11.2.1), and checks
 * whether the file is complete. No pixels are decoded. */
#ifndef PIPETRAIN_IMAGE_HEADER_H
#define PIPETRAIN_IMAGE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_format { IMAGE_FORMAT_JPEG, IMAGE_FORMAT_PNG };

struct image_header {
    enum image_format format;
    uint32_t width, height;
    uint32_t channels;          /* after decoding: 1, 3 or 4; 2 for a grey PNG with alpha; 3 for a palette */
    uint32_t orientation;       /* EXIF orientation of a JPEG, 1 ... 8; 1 (upright) without EXIF and for PNG */
};

/* Read the header from the first `bytes` bytes of an image. 0; -EAGAIN if more bytes are needed (a whole file with this
 * result is truncated); -EBADMSG with the reason, to be printed after the file's name: "is a GIF", "is no image". */
int image_header_read(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out);
/* Another kind of file that begins with these bytes, to be printed after its name ("is a GIF"); NULL: unknown. */
const char *image_other_kind(const uint8_t *data, size_t bytes);
/* Is a whole file, whose header was read, truncated? It has no EOI marker after a JPEG's first scan, or no IEND chunk
 * of a PNG. */
bool image_is_cut(const uint8_t *data, size_t bytes, enum image_format format);
/* Are the checksums of all chunks of a whole PNG file up to IEND right? Decoders do not read some of the chunks. */
bool image_png_is_intact(const uint8_t *data, size_t bytes);

#endif
