/* What the folders of a data set of images mean: CLASS/... or SPLIT/CLASS/..., and any folders around the whole. */
#ifndef PIPETRAIN_IMAGE_LAYOUT_H
#define PIPETRAIN_IMAGE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/files/image_list.h"

/* Images of a split lie one behind the other in the list. */
struct image_split { const char *name; size_t first, count; };

struct image_layout {
    struct image_split splits[3];   /* train, then validation and test where they are there */
    size_t split_count;
    char **class_names;             /* in bytewise order: the label is the place; owned. NULL: they have none */
    uint32_t class_count;
    char remark[256];               /* on a split of which nothing is made, for the end of the conversion; "": none */
};

/* Sort the list, find splits and classes, set label and name_at of every image. Folders go out of the list, and so
 * do images that lie in no class, which is said. 0, or a negative errno after stop_fail. image_layout_release in
 * both cases. */
int image_layout_find(struct image_layout *layout, struct image_list *list, const char *input, struct stop *stop);
/* Accepts a struct of zeros. */
void image_layout_release(struct image_layout *layout);

#endif
