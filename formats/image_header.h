/* The header of an encoded image: JPEG (ITU-T T.81, annex B) or PNG (its specification, section 11.2.1); and whether
 * the image is complete. Nothing is decoded. */
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
    uint32_t orientation;       /* of a JPEG by its EXIF data, 1 ... 8; 1, upright, if it has none, and for PNG */
};

/* Read the header from the first `bytes` bytes of an image. 0; -EAGAIN when more bytes are needed (a whole file is cut
 * short); or -EBADMSG with what is wrong, to be printed after the file's name: "is a GIF", "is no image". */
int image_header_read(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out);
/* What a file that begins with these bytes is, "is a HEIC image"; NULL: not known. */
const char *image_other_kind(const uint8_t *data, size_t bytes);
/* Whether a whole file, whose header was read, has no end: the marker EOI of a JPEG after its first scan, the chunk
 * IEND of a PNG. */
bool image_is_cut(const uint8_t *data, size_t bytes, enum image_format format);
/* Whether the checksum of every chunk of a whole PNG file up to IEND is right. Decoders skip some chunks. */
bool image_png_is_intact(const uint8_t *data, size_t bytes);

#endif
