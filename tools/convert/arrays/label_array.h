/* An array of labels. */
#ifndef PIPETRAIN_LABEL_ARRAY_H
#define PIPETRAIN_LABEL_ARRAY_H

#include <stdint.h>

#include "tools/convert/arrays/array.h"

/* The labels of an array (N) or (N, 1) of integers, which the caller frees, and one more than the largest. 0, or a
 * negative errno after stop_fail: another shape, another count than `count`, a label below 0 or absurdly large. */
int label_array_read(const struct array *labels, uint64_t count, uint32_t **labels_out, uint32_t *classes_out,
                     struct stop *stop);

#endif
