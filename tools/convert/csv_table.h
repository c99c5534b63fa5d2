/* A data set in a text table: each row has the class of an image, and either its pixels or the path of its file. Other
 * inputs that have a label for each image, such as archives of samples, make such rows for csv_classes_find. */
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

#define CSV_PLACE_BYTES 512u

struct csv_row {
    struct csv_text label;
    struct csv_text path;       /* empty if the table has pixels */
    uint64_t line;
    uint64_t pixel_row;         /* index of the row in csv_table.pixels */
    uint32_t class;             /* set by csv_classes_find */
    enum split split;           /* set if the table has a column of splits */
    struct file_identity identity;      /* identity of the image file; set by the converter */
    bool is_used;               /* the image file can be used; set by the converter */
};

struct csv_table {
    const char *input;          /* path of the table, for messages */
    char *text;                 /* the whole file; quoted values are unescaped in place */
    size_t bytes;
    uint64_t lines_added;       /* lines of `text` before the first line of the file, which was JSON Lines */
    struct csv_columns columns;
    struct csv_row *rows;
    size_t row_count, row_room;
    uint8_t *pixels;            /* columns.pixel_count pixels for each row */
    /* Where a row is, for messages; NULL: "line N". The text is shorter than CSV_PLACE_BYTES. */
    void (*place)(const void *arg, const struct csv_row *row, char *text, size_t text_size);
    const void *arg;
};

/* Read a table of at most 2 GiB, compressed or not (unpacked_file_read), or JSON Lines, whose members are the columns.
 * 0, -ECANCELED when interrupted, -ENOMSG as of csv_columns_find, or another negative errno after stop_fail. Call
 * csv_table_release in all cases. */
int csv_table_read(struct csv_table *table, const char *input, const struct csv_choice *choice,
                   const atomic_bool *interrupted, struct stop *stop);
/* Accepts a struct of zeros. */
void csv_table_release(struct csv_table *table);

/* Where a row is: "line 7", or as `place` of the table says. Returns `text`. */
const char *csv_row_place(const struct csv_table *table, const struct csv_row *row, char text[CSV_PLACE_BYTES]);

/* The option that chooses the labels, and whether it was given: then a label that lists several classes is reported
 * only, and is a class of its own. */
struct csv_label_choice { const char *option; bool is_made; };

/* Set `class` of every row. If all labels are whole numbers, these are the classes, from 0. Otherwise labels are
 * names, and the classes are numbered in the bytewise order of the names in the first table. *names_out: those
 * names, owned by the caller; NULL: labels are numbers. 0, -ECANCELED when interrupted, or a negative errno after
 * stop_fail: a later table has a class that the first one lacks, a number over 999999, a label that lists several
 * classes if they were not chosen by the user, or out of memory. */
int csv_classes_find(struct csv_table *tables, size_t table_count, const struct csv_label_choice *choice,
                     const atomic_bool *interrupted, struct stop *stop, char ***names_out, uint32_t *class_count_out);
/* The number of classes that the rows have, of `class_count`. 0 or -ENOMEM. */
int csv_classes_count(const struct csv_table *table, uint32_t class_count, size_t *count_out);

#endif
