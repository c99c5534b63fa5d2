/* Image files that a set has several times: through links, or as a table lists them. Pure. */
#ifndef PIPETRAIN_IMAGE_REPEATS_H
#define PIPETRAIN_IMAGE_REPEATS_H

#include <stddef.h>
#include <stdint.h>

#include "stage/file/file.h"

/* One of the images of a set. */
struct listed_image {
    struct file_identity identity;
    uint32_t label, split;
    size_t order;               /* of images with the same file: the first one is compared with the next one, ... */
    const void *entry;          /* the caller's */
};

/* Images whose file the one before them has, too, and the first such pair. */
struct repeats { size_t count; struct listed_image first, second; };

/* By where the second one is: in another class, else in another set, else beside the first. */
struct image_repeats { struct repeats other_class, other_split, same; };

/* Sorts the images. */
void image_repeats_find(struct listed_image *images, size_t count, struct image_repeats *repeats_out);

#endif
