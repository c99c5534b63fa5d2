/* Formats of encoded images: from the bytes of a record to the pixels a view needs. */
#ifndef PIPETRAIN_PICTURE_OPS_H
#define PIPETRAIN_PICTURE_OPS_H

#include "loader/images/image.h"
#include "loader/images/picture.h"
#include "loader/shards/text.h"

/* What is decoded may be smaller than the image stored: by so many eighths, the same along both axes. */
#define PICTURE_WHOLE 8u

/* What is wanted of an encoded image. */
struct picture_wish {
    const struct augment_view *view;    /* in pixels of the image stored */
    const struct image_shape *shape;    /* of the sample it is to become */
};

/* A format of encoded images. A decoder belongs to one thread. What does not work is said in `problem`, as the
 * end of a sentence about the image. */
struct picture_ops {
    const char *name;           /* as shard_kind_image calls it */
    int (*open)(void **decoder_out);    /* 0 or -ENOMEM */
    void (*close)(void *decoder);       /* accepts NULL */
    /* Begin with an image: its size, both sides >= 1, their product at most image_memory_pixels. The bytes are
     * lent until it is read or the next is begun. 0, -EBADMSG, or -ENOMEM: it may be right. */
    int (*begin)(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                 struct text *problem);
    /* Decode at least what the wish's view touches, with 1 or 3 channels. It is decoded smaller than it is stored, by
     * *eighths_out of 8, where that is faster and the view still has as many pixels as are wanted; the picture
     * and its place are in pixels of that size. The pixels stay until the end. 0, then `problem` holds what
     * flaws were passed over; -EBADMSG; or -ENOMEM: it may be right. */
    int (*read)(void *decoder, const struct picture_wish *wish, struct picture *picture_out, uint32_t *eighths_out,
                struct text *problem);
    /* The image was read or not, and its pixels are not needed any more: memory that only a large one takes is given
     * back. */
    void (*end)(void *decoder);
};

extern const struct picture_ops picture_jpeg_ops, picture_png_ops;

#endif
