/* Changes the images of records that are converted (resizes them, or stores them as pixels), or checks images that
 * are not changed. */
#ifndef PIPETRAIN_IMAGE_CHANGE_H
#define PIPETRAIN_IMAGE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/convert/image_summary.h"

#define IMAGE_CHANGE_RAW_KEY "image_raw"

struct image_change {
    uint64_t short_side;        /* images with a longer short side are resized to this short side; 0: no resizing */
    uint64_t quality;           /* JPEG quality of images that become JPEG, 1 to 100 */
    bool is_raw;                /* store all images as pixels */
    bool is_upright;            /* turn JPEGs whose EXIF orientation is not upright; these become JPEGs of this quality */
    bool is_checked;            /* decode JPEG and PNG images that are not changed, to find damaged ones */
    const char *image_key;      /* name of the feature with the image; NULL: one of the usual names */
};

/* What becomes of an EXIF orientation other than upright: it is stored with the image, or with those that are not
 * encoded again; or the pixels are turned. */
enum orientation_fate { ORIENTATION_STORED, ORIENTATION_LOST, ORIENTATION_TURNED };
enum orientation_fate image_change_orientation(const struct image_change *change);

/* Whether images are changed; checking them does not count. False for NULL. */
bool image_change_is_any(const struct image_change *change);

/* The state of one thread: decoders, an encoder, and buffers that grow with the images. */
struct image_changer;

/* 0 or -ENOMEM. */
int image_changer_open(struct image_changer **changer_out, const struct image_change *change);
/* Accepts NULL. */
void image_changer_close(struct image_changer *changer);

/* Make the payload of a record with its image changed. Resizing scales the whole image as training does (bilinear,
 * averaging over all pixels that a smaller one covers), rounds the longer side to the nearest pixel, and keeps grey or
 * colour. A resized or turned image is stored as a JPEG (chroma 4:2:0) or, with is_raw, as the feature `image_raw`,
 * rows of pixels, with `height`, `width` and `depth`. Features with the size or format of the image are updated or
 * removed, all others are copied. If no change is needed, *payload_out is the original payload. The result is valid
 * until the next call, and does not depend on the thread. Returns 0, with a text if the decoder tolerated flaws of the
 * image; with a text -EBADMSG (the image cannot be decoded), -ENOMSG (an image to be checked is neither JPEG nor PNG)
 * or -ENOTSUP (images of this kind cannot be changed so); or -ENOMEM. The text is to be printed after the name of the
 * record. To be called by the thread that opened the changer. */
int image_changer_apply(struct image_changer *changer, const uint8_t *payload, size_t bytes,
                        const uint8_t **payload_out, size_t *bytes_out, char *problem_out, size_t problem_size);
/* The pixels of the last image; is_known is false if it was not decoded. If an image was only checked, these are the
 * pixels of a scaled copy. */
struct pixel_look image_changer_look(const struct image_changer *changer);

#endif
