/* A data set in a table of text: a row for each image, with its class and either its pixels or the path of its file. */
#ifndef PIPETRAIN_CSV_TABLE_H
#define PIPETRAIN_CSV_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"

/* A value in the table's text, without blanks around it; not terminated. */
struct csv_text { const char *text; size_t bytes; };

struct csv_columns {
    size_t count;
    size_t label;
    size_t path;                /* when the table has paths */
    bool has_pixels;
    bool has_header;
};

struct csv_row {
    struct csv_text label;
    struct csv_text path;       /* empty when the table has pixels */
    uint64_t line;
    uint32_t class;             /* set by csv_classes_find */
};

struct csv_table {
    const char *input;          /* for messages */
    char *text;                 /* the whole file; values in double quotes are changed in place */
    size_t bytes;
    struct csv_columns columns;
    struct csv_row *rows;
    size_t row_count, row_room;
    uint8_t *pixels;            /* columns.count - 1 of each row */
    size_t pixel_room;
};

/* Read a table, compressed with gzip or not, of at most 2 GiB. 0, -ECANCELED when interrupted, or a negative errno
 * after stop_fail. csv_table_release in all cases. */
int csv_table_read(struct csv_table *table, const char *input, const atomic_bool *interrupted, struct stop *stop);
/* Accepts a struct of zeros. */
void csv_table_release(struct csv_table *table);

#endif
