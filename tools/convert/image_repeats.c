/* Finds image files that occur several times in a data set. Called by the main thread of the converters of folders
 * and tables. */
#include "tools/convert/image_repeats.h"

#include <stdlib.h>

static int compare_images(const void *a, const void *b)
{
    const struct listed_image *const one = a, *const other = b;
    const int order = file_identity_compare(&one->identity, &other->identity);
    return order != 0 ? order : (one->order > other->order) - (one->order < other->order);
}

static void count_repeat(struct repeats *repeats, const struct listed_image *first, const struct listed_image *second)
{
    if (repeats->count++ > 0)
        return;
    repeats->first = *first;
    repeats->second = *second;
}

void image_repeats_find(struct listed_image *images, size_t count, struct image_repeats *repeats_out)
{
    struct image_repeats repeats = { 0 };

    if (count > 1)
        qsort(images, count, sizeof(*images), compare_images);
    for (size_t i = 1; i < count; i++) {
        const struct listed_image *const first = &images[i - 1], *const second = &images[i];
        if (file_identity_compare(&first->identity, &second->identity) != 0)
            continue;
        count_repeat(first->label != second->label ? &repeats.other_class
                     : first->split != second->split ? &repeats.other_split : &repeats.same, first, second);
    }
    *repeats_out = repeats;
}
