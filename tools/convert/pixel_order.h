/* The order of the pixels in a table with a column for each pixel, from the names of the columns: "pixel7", "1x1",
 * "r0". */
#ifndef PIPETRAIN_PIXEL_ORDER
#define PIPETRAIN_PIXEL_ORDER

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/convert/csv_columns.h"

/* Are the names equal, apart from numbers and a word for a channel ("r", "green")? */
bool pixel_names_are_alike(struct csv_text a, struct csv_text b);

/* Find the index of each column's pixel in an image (H, W, C). If all names are equal, the pixels are in the order
 * of the columns. 0; -EINVAL if the numbers have gaps or repeat; -ERANGE if they are rows and columns of an image
 * that is not square; -ENOMEM. */
int pixel_order_find(const struct csv_text *names, size_t count, uint32_t *places_out);

#endif
