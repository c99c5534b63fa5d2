/* Changes to the images of records that are converted: resize, store as pixels; and the check of those that stay. */
#ifndef PIPETRAIN_IMAGE_CHANGE_H
#define PIPETRAIN_IMAGE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/convert/image_summary.h"

#define IMAGE_CHANGE_RAW_KEY "image_raw"

struct image_change {
    uint64_t short_side;        /* images with a longer shorter side are resized to this; 0: none */
    uint64_t quality;           /* of the JPEG that a resized image becomes, 1 ... 100 */
    bool is_raw;                /* store all images as pixels */
    bool is_checked;            /* decode JPEG and PNG images that do not change, to find damaged ones */
    const char *image_key;      /* the feature with the image; NULL: one of the usual names */
};

/* Whether there is any change, apart from checks; false for NULL. */
bool image_change_is_any(const struct image_change *change);

/* The state of one thread: decoders, an encoder, buffers that grow with the images. */
struct image_changer;

/* 0 or -ENOMEM. */
int image_changer_open(struct image_changer **changer_out, const struct image_change *change);
/* Accepts NULL. */
void image_changer_close(struct image_changer *changer);

/* Make the payload of a record with its image changed. Resizing scales the whole image as training does (bilinear,
 * averaging over all pixels that a smaller one covers), rounds the longer side to the nearest pixel, and keeps grey or
 * colour. A resized image becomes a JPEG (chroma 4:2:0), or with is_raw the feature `image_raw`, rows of pixels, with
 * `height`, `width` and `depth`; features that state its size or format are updated or removed, all others are copied.
 * If nothing is to be changed, *payload_out is the payload itself. The result is valid until the next call, and is the
 * same in every thread. With a text to follow the name of the record: -EBADMSG, the image cannot be decoded; -ENOMSG,
 * it is only checked and neither JPEG nor PNG; -ENOTSUP, the change is not made to images like this one; 0, the decoder
 * tolerated flaws of the image. Without: 0; -ENOMEM. Call it in the thread that opened the changer. */
int image_changer_apply(struct image_changer *changer, const uint8_t *payload, size_t bytes,
                        const uint8_t **payload_out, size_t *bytes_out, char *problem_out, size_t problem_size);
/* The pixels of the last image; not known if it was not decoded. Of an image that is only checked, a scaled copy is
 * looked at. */
struct pixel_look image_changer_look(const struct image_changer *changer);

#endif
