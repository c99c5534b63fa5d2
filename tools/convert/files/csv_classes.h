/* The classes of tables of images: labels that are all whole numbers are the classes, from 0 on; others are names. */
#ifndef PIPETRAIN_CSV_CLASSES_H
#define PIPETRAIN_CSV_CLASSES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/files/csv_table.h"

/* Set `class` of every row. Names are those of the first table, in bytewise order, and belong to the caller, each
 * and all; NULL when labels are numbers. 0, -ECANCELED when interrupted, or a negative errno after stop_fail: a class
 * of a later table that the first one does not have, a number over 999999, no memory. */
int csv_classes_find(struct csv_table *tables, size_t table_count, const atomic_bool *interrupted, struct stop *stop,
                     char ***names_out, uint32_t *class_count_out);

#endif
