/* What is done to the images of records on their way into a set: made smaller, stored as pixels. */
#ifndef PIPETRAIN_IMAGE_CHANGE_H
#define PIPETRAIN_IMAGE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_CHANGE_RAW_KEY "image_raw"

struct image_change {
    uint64_t short_side;        /* of images whose shorter side is longer; 0: no image is made smaller */
    uint64_t quality;           /* of the JPEG that such an image becomes, 1 ... 100 */
    bool is_raw;                /* images become pixels instead, the others too */
    const char *image_key;      /* the feature with the image; NULL: one of the usual names */
};

/* Whether there is anything to do; false of NULL. */
bool image_change_is_any(const struct image_change *change);

/* What one thread needs for it: decoders, an encoder, memory that grows with the images. */
struct image_changer;

/* 0 or -ENOMEM. */
int image_changer_open(struct image_changer **changer_out, const struct image_change *change);
/* Accepts NULL. */
void image_changer_close(struct image_changer *changer);

/* Give the payload with its image changed. The image is all of it, scaled as training scales (bilinear, over all
 * pixels a smaller one stands for), the longer side rounded to the nearest pixel, grey or in colours as it was.
 * One that is made smaller becomes a JPEG (chroma 4:2:0), or with is_raw `image_raw`, rows of pixels, with
 * `height`, `width` and `depth`; features that say its size or format are set or left out accordingly, all others
 * stay as they are. Where there is nothing to change the payload is given as it is, byte for byte. What is given
 * stays until the next call. The same bytes give the same, in any thread. 0; -EBADMSG with a text that stands
 * behind the record's name; -ENOMEM. Such a text also says of what flaws the decoder has passed over; else 0
 * leaves it alone. In the thread that opened the changer. */
int image_changer_apply(struct image_changer *changer, const uint8_t *payload, size_t bytes,
                        const uint8_t **payload_out, size_t *bytes_out, char *problem_out, size_t problem_size);

#endif
