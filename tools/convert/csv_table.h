/* A data set in a table of text: a row for each image, with its class and either its pixels or the path of its file. */
#ifndef PIPETRAIN_CSV_TABLE
#define PIPETRAIN_CSV_TABLE

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stage/file/file.h"
#include "stage/stop.h"
#include "tools/convert/csv_columns.h"

struct csv_row {
    struct csv_text label;
    struct csv_text path;       /* empty if the table has pixels */
    uint64_t line;
    uint64_t pixel_row;         /* the number of its pixels in the table's */
    uint32_t class;             /* set by csv_classes_find */
    enum split split;           /* if the table has a column of splits */
    struct file_identity identity;      /* of its image file; set by the converter */
};

struct csv_table {
    const char *input;          /* for messages */
    char *text;                 /* the whole file; quoted values are unescaped in place */
    size_t bytes;
    struct csv_columns columns;
    struct csv_row *rows;
    size_t row_count, row_room;
    uint8_t *pixels;            /* columns.pixel_count of each row */
};

/* Read a table of at most 2 GiB, compressed or not (unpacked_file_read). 0, -ECANCELED when interrupted, or a negative
 * errno after stop_fail. csv_table_release in all cases. */
int csv_table_read(struct csv_table *table, const char *input, const struct csv_choice *choice,
                   const atomic_bool *interrupted, struct stop *stop);
/* Accepts a struct of zeros. */
void csv_table_release(struct csv_table *table);

/* Set `class` of every row. Labels that are all whole numbers are the classes, from 0; others are names, whose classes
 * follow the bytewise order of the names in the first table. *names_out: those names, owned by the caller; NULL:
 * numbers. 0, -ECANCELED when interrupted, or a negative errno after stop_fail: a class of the second table that the
 * first one does not have, a number over 999999, no memory. */
int csv_classes_find(struct csv_table *tables, size_t table_count, const atomic_bool *interrupted, struct stop *stop,
                     char ***names_out, uint32_t *class_count_out);

#endif
