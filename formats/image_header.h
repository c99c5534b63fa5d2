/* What an encoded image is, read from its first bytes: JPEG (ITU-T T.81, annex B) or PNG (its
 * specification, section 11.2.1), and whether its end is there. Nothing is decoded. */
#ifndef PIPETRAIN_IMAGE_HEADER_H
#define PIPETRAIN_IMAGE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_format { IMAGE_FORMAT_JPEG, IMAGE_FORMAT_PNG };

struct image_header {
    enum image_format format;
    uint32_t width, height;
    uint32_t channels;          /* once decoded: 1, 3 or 4, and 2 for a grey PNG with alpha; a palette gives 3 */
    uint32_t orientation;       /* of a JPEG by its EXIF data, 1 ... 8; 1, upright, where it says nothing */
};

/* Read the header of an image of which `bytes` are given. 0; -EAGAIN when it goes on behind them (of a whole
 * file: it is cut short); or -EBADMSG with what the bytes are instead, or what is wrong with the header, to
 * stand behind the file's name: "is a GIF", "is no image". */
int image_header_read(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out);
/* Whether the end of a whole file is missing, whose header was read: the marker EOI of a JPEG behind its first scan,
 * the chunk IEND of a PNG. */
bool image_is_cut(const uint8_t *data, size_t bytes, enum image_format format);

#endif
