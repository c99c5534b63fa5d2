/* Finds image files that occur several times in a data set: through links, or because a table lists them repeatedly.
 * Pure. */
#ifndef PIPETRAIN_IMAGE_REPEATS_H
#define PIPETRAIN_IMAGE_REPEATS_H

#include <stddef.h>
#include <stdint.h>

#include "stage/file/file.h"

/* An image of the data set. */
struct listed_image {
    struct file_identity identity;
    uint32_t label, split;
    size_t order;               /* sorts images with the same file; each is compared with the next one */
    const void *entry;          /* data of the caller */
};

/* Pairs of consecutive images with the same file: their number, and the first pair. */
struct repeats { size_t count; struct listed_image first, second; };

/* Pairs with different classes; otherwise with different splits; otherwise with the same class and split. */
struct image_repeats { struct repeats other_class, other_split, same; };

/* Find the repeats. Sorts the images. */
void image_repeats_find(struct listed_image *images, size_t count, struct image_repeats *repeats_out);

#endif
