/* The arrays of a data set in an .npz archive, found by their names. */
#ifndef PIPETRAIN_ARCHIVE_H
#define PIPETRAIN_ARCHIVE_H

#include <stdbool.h>

#include "tools/convert/arrays/array.h"

/* The splits that names may tell of, in the order they are looked for. */
enum archive_split { ARCHIVE_TRAIN, ARCHIVE_VALIDATION, ARCHIVE_TEST, ARCHIVE_SPLITS };

struct archive_arrays { bool is_there; struct array images, labels; };

/* Whether the file is called so. */
bool archive_is_archive(const char *path);
/* Unpack images and labels of every split, two arrays of names that belong together: x_train and y_train, images
 * and labels, ... 0, or a negative errno after stop_fail, as where there are none to train with; archive_close in
 * all cases. */
int archive_open(struct archive_arrays arrays[ARCHIVE_SPLITS], const char *path, struct stop *stop);
void archive_close(struct archive_arrays arrays[ARCHIVE_SPLITS]);

#endif
