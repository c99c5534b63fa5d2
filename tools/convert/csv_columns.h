/* The meaning of the columns of a table of images: derived from their names and values together, or chosen by
 * options. */
#ifndef PIPETRAIN_CSV_COLUMNS
#define PIPETRAIN_CSV_COLUMNS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/csv.h"
#include "formats/split_name.h"

/* A value in the text of the table, without surrounding blanks and line ends; not NUL-terminated. */
struct csv_text { const char *text; size_t bytes; };

enum csv_role {
    CSV_UNUSED,
    CSV_LABEL,
    CSV_PATH,
    CSV_SPLIT,
    CSV_PIXEL,                  /* the value of one pixel */
    CSV_PIXELS,                 /* the values of all pixels of the image, separated by blanks */
    CSV_ROLE_COUNT
};

/* How a column gives the splits: as words, or as a flag (0 or 1) for training, validation or test rows. */
enum csv_split_kind { CSV_SPLIT_WORDS, CSV_SPLIT_IS_TRAIN, CSV_SPLIT_IS_VALIDATION, CSV_SPLIT_IS_TEST };

#define CSV_NO_COLUMN SIZE_MAX

struct csv_columns {
    size_t count;
    uint8_t *roles;             /* for each column, its enum csv_role; owned */
    size_t places[CSV_ROLE_COUNT];      /* the first column of each role, or CSV_NO_COLUMN */
    enum csv_split_kind split_kind;
    size_t pixel_count;         /* pixels of an image; 0: the table has paths instead */
    uint32_t *pixel_places;     /* for each column with a single pixel, the index of the pixel in the image; owned */
    bool are_reordered;         /* the columns are not in the order of the pixels */
    bool has_header;
    char unused[200];           /* the names or numbers of unused columns, for a message */
};

/* Columns that are chosen by options: by a name in the first row, or by a number from 1. NULL: not chosen. split
 * "none": the table has no column of splits. pixels: the column with all pixels or, if each pixel has a column, the
 * first one. */
struct csv_choice {
    const char *label, *path, *split, *pixels;
    bool needs_named_label;     /* only a column with the name of a label, or the chosen one, is the label */
    /* Whether a value is the path of an existing file. */
    bool (*names_file)(void *arg, struct csv_text value);
    void *arg;
};

/* 0, or a negative errno: -EINVAL with a problem that options have to solve, -EBADMSG with the problem and the
 * number of the invalid line, -ENOMSG (no column has the name of a label, which the choice needs), -ENOMEM. Call
 * csv_columns_release in all cases. */
int csv_columns_find(struct csv_columns *columns, const char *text, size_t bytes, const struct csv_choice *choice,
                     char *problem_out, size_t problem_size, uint64_t *line_out);
void csv_columns_release(struct csv_columns *columns);

struct csv_text csv_trimmed(const char *text, size_t bytes);
/* Parse a whole number below 1e9, also in the form of a floating-point column: "1.0", "1.000000e+00". */
bool csv_read_number(struct csv_text value, uint32_t *number_out);
bool csv_is_number(struct csv_text value);
/* Parse the next pixel of a text with all pixels. False at its end; *pixel_out is over 255 if the text is invalid. */
bool csv_next_pixel(struct csv_text *text, unsigned *pixel_out);
/* The split that a value means; SPLIT_UNSAID if it means none. */
enum split csv_split_of(enum csv_split_kind kind, struct csv_text value);

#endif
