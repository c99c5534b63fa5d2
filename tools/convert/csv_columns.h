/* What the columns of a table of images mean: decided from their names and values together, or by options. */
#ifndef PIPETRAIN_CSV_COLUMNS
#define PIPETRAIN_CSV_COLUMNS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/csv.h"
#include "formats/split_name.h"

/* A value in the table's text, without surrounding blanks and line ends; not terminated. */
struct csv_text { const char *text; size_t bytes; };

enum csv_role {
    CSV_UNUSED,
    CSV_LABEL,
    CSV_PATH,
    CSV_SPLIT,
    CSV_PIXEL,                  /* one pixel */
    CSV_PIXELS,                 /* all pixels of the image, as numbers with blanks between them */
    CSV_ROLE_COUNT
};

/* How the values of a column mean splits. */
enum csv_split_kind { CSV_SPLIT_WORDS, CSV_SPLIT_IS_TRAIN, CSV_SPLIT_IS_VALIDATION, CSV_SPLIT_IS_TEST };

#define CSV_NO_COLUMN SIZE_MAX

struct csv_columns {
    size_t count;
    uint8_t *roles;             /* of each column: enum csv_role; owned */
    size_t places[CSV_ROLE_COUNT];      /* the first column of each role, or CSV_NO_COLUMN */
    enum csv_split_kind split_kind;
    size_t pixel_count;         /* 0: the table has paths */
    uint32_t *pixel_places;     /* in the image, of each column that is a pixel; owned */
    bool are_reordered;         /* these are not in the order of the columns */
    bool has_header;
    char unused[200];           /* the names or numbers of columns that are not used */
};

/* Columns that options choose, by a name in the first row or a number from 1 on; NULL: not chosen. "none" for a split
 * means that no column is one. Of pixels it is the column with all of them, or the first of those with one each. */
struct csv_choice {
    const char *label, *path, *split, *pixels;
    /* Whether a value is the path of an existing file. */
    bool (*names_file)(void *arg, struct csv_text value);
    void *arg;
};

/* 0, or a negative errno: -EINVAL with the problem if options have to decide, -EBADMSG with the problem and a line for
 * what is wrong, -ENOMEM. csv_columns_release in all cases. */
int csv_columns_find(struct csv_columns *columns, const char *text, size_t bytes, const struct csv_choice *choice,
                     char *problem_out, size_t problem_size, uint64_t *line_out);
void csv_columns_release(struct csv_columns *columns);

struct csv_text csv_trimmed(const char *text, size_t bytes);
/* A whole number below 1e9, also as programs write one in a floating-point column: "1.0", "1.000000e+00". */
bool csv_read_number(struct csv_text value, uint32_t *number_out);
bool csv_is_number(struct csv_text value);
/* The next pixel of a text with all of them. False at its end; *pixel_out is over 255 if there is something else. */
bool csv_next_pixel(struct csv_text *text, unsigned *pixel_out);
/* What a value says; SPLIT_UNSAID if it is no split. */
enum split csv_split_of(enum csv_split_kind kind, struct csv_text value);

#endif
