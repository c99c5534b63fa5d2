/* The labels of all records of a data set, read before a run starts. */
#ifndef PIPETRAIN_LABEL_TABLE_H
#define PIPETRAIN_LABEL_TABLE_H

#include <stdint.h>

#include "loader/dataset.h"

#define LABEL_UNKNOWN (-1)      /* a record that cannot be read, or whose label is out of range */

/* Set *labels_out to the class of each record, by id: options.label_offset is added. The caller frees the list. Reads
 * every record once, with `threads` threads >= 1, and returns when all are read. 0, -ENOMEM, -EAGAIN (no thread can be
 * started), or -ECANCELED soon after the data set's *is_unwanted is set. */
int label_table_make(int32_t **labels_out, const struct dataset *dataset, uint32_t threads);

#endif
