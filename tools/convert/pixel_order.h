/* The order of pixels that have a column each in a table, from the names of the columns: "pixel7", "1x1", "r0". */
#ifndef PIPETRAIN_PIXEL_ORDER
#define PIPETRAIN_PIXEL_ORDER

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/convert/csv_columns.h"

/* Are the names equal but for numbers and a word for a channel ("r", "green") in them? */
bool pixel_names_are_alike(struct csv_text a, struct csv_text b);

/* The place of each column's pixel in an image (H, W, C). Names that are all equal leave the columns in their order. 0;
 * -EINVAL if the numbers have gaps or repeat; -ERANGE if they are rows and columns of an image that is not square;
 * -ENOMEM. */
int pixel_order_find(const struct csv_text *names, size_t count, uint32_t *places_out);

#endif
