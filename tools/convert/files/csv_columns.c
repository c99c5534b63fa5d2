/* Finding the columns of paths, pixels and labels. Called by the main thread of the converter. */
#include "tools/convert/files/csv_columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "formats/csv.h"
#include "tools/convert/files/image_choice.h"

#define PIXEL_COLUMNS_MIN 5u    /* fewer numbers in a row are no picture */
#define NOT_FOUND SIZE_MAX

static const char *const path_names[] = {
    "path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "image_file", "image_name",
    "img", "img_path",
};
static const char *const label_names[] = { "label", "labels", "class", "class_name", "category", "target", "y" };

/* The first two rows, whose values lie one behind the other; the second is the first again where there is only one. */
struct sample_rows {
    struct csv_text *first, *second;
    size_t count;
};

bool csv_is_number(struct csv_text value)
{
    size_t i = 0;

    while (i < value.bytes && value.text[i] >= '0' && value.text[i] <= '9')
        i++;
    return value.bytes > 0 && value.bytes <= 9 && i == value.bytes;
}

struct csv_text csv_trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && (text[0] == ' ' || text[0] == '\t')) {
        text++;
        bytes--;
    }
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t'))
        bytes--;
    return (struct csv_text){ text, bytes };
}

static bool is_one_of(struct csv_text value, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) == value.bytes && strncasecmp(names[i], value.text, value.bytes) == 0)
            return true;
    }
    return false;
}

static size_t find_name(const struct sample_rows *rows, const char *const *names, size_t count)
{
    size_t i = 0;

    while (i < rows->count && !is_one_of(rows->first[i], names, count))
        i++;
    return i < rows->count ? i : NOT_FOUND;
}

static size_t find_path_name(const struct sample_rows *rows)
{
    return find_name(rows, path_names, sizeof(path_names) / sizeof(path_names[0]));
}

static size_t find_label_name(const struct sample_rows *rows)
{
    return find_name(rows, label_names, sizeof(label_names) / sizeof(label_names[0]));
}

static size_t number_count(const struct csv_text *row, size_t count)
{
    size_t numbers = 0;

    for (size_t i = 0; i < count; i++)
        numbers += csv_is_number(row[i]);
    return numbers;
}

/* Room for one more; it doubles, and is full when the count is a power of two. */
static int reserve_value(struct csv_text **values, size_t count)
{
    if ((count & (count - 1)) != 0)
        return 0;
    struct csv_text *const more = realloc(*values, (count > 0 ? 2 * count : 1) * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    *values = more;
    return 0;
}

/* Add the values of the next row to *values; their number, or a negative errno. */
static int read_row(struct csv *csv, struct csv_text **values, size_t *count, const char **problem_out)
{
    struct csv_field field = { .ends_row = false };

    while (!field.ends_row) {
        int rc = csv_next(csv, &field, problem_out);
        if (rc == 0)
            rc = reserve_value(values, *count);
        if (rc < 0)
            return rc;
        (*values)[(*count)++] = csv_trimmed(field.text, field.bytes);
    }
    return 0;
}

/* Does the column hold the same value in every row behind the header? */
static int is_constant(const struct csv *from, size_t column, bool *is_constant_out, const char **problem_out)
{
    struct csv csv = *from;
    struct csv_field field, before = { .text = NULL };
    size_t i = 0;
    int rc;

    *is_constant_out = true;
    while (*is_constant_out && (rc = csv_next(&csv, &field, problem_out)) == 0) {
        if (i == column && before.text != NULL)
            *is_constant_out = field.bytes == before.bytes && memcmp(field.text, before.text, field.bytes) == 0;
        if (i == column)
            before = field;
        i = field.ends_row ? 0 : i + 1;
    }
    return *is_constant_out && rc != -ENODATA ? rc : 0;
}

/* A column that is no number is the label. Otherwise it is the first, unless that is the same everywhere, as a
 * corner of pictures often is, and the last is not. */
static int find_label_of_pixels(struct csv_columns *columns, const struct sample_rows *rows, const struct csv *from,
                                const char **problem_out)
{
    bool first_is_constant, last_is_constant;

    columns->label = columns->has_header ? find_label_name(rows) : NOT_FOUND;
    for (size_t i = 0; i < rows->count && columns->label == NOT_FOUND; i++) {
        if (!csv_is_number(rows->second[i]) && (columns->has_header || !csv_is_number(rows->first[i])))
            columns->label = i;
    }
    if (columns->label != NOT_FOUND)
        return 0;
    int rc = is_constant(from, 0, &first_is_constant, problem_out);
    if (rc == 0 && first_is_constant)
        rc = is_constant(from, rows->count - 1, &last_is_constant, problem_out);
    if (rc == 0)
        columns->label = first_is_constant && !last_is_constant ? rows->count - 1 : 0;
    return rc;
}

static bool is_called_like_an_image(struct csv_text value)
{
    char end[16] = "";
    const size_t bytes = value.bytes < sizeof(end) ? value.bytes : sizeof(end) - 1;

    memcpy(end, value.text + value.bytes - bytes, bytes);
    return image_choice_name(end);
}

/* No name of a file: a row with it in the place of one is a row of names. */
static bool is_plain_word(struct csv_text value)
{
    return memchr(value.text, '.', value.bytes) == NULL && memchr(value.text, '/', value.bytes) == NULL;
}

/* What is to be called by its name, by which of the two columns is known. */
static const char *missing_name(size_t path, size_t label)
{
    if (path != NOT_FOUND)
        return "the column of the classes is not known: call it 'label' in the first row";
    if (label != NOT_FOUND)
        return "the column of the files is not known: call it 'path' in the first row";
    return "the columns are not known: call that of the files 'path' and that of the classes 'label' in the first row";
}

static int find_paths(struct csv_columns *columns, const struct sample_rows *rows, const char **problem_out)
{
    size_t path = find_path_name(rows), label = find_label_name(rows);

    columns->has_header = path != NOT_FOUND || label != NOT_FOUND;
    if (rows->count != 2 && (path == NOT_FOUND || label == NOT_FOUND)) {
        *problem_out = missing_name(path, label);
        return -EBADMSG;
    }
    if (!columns->has_header) {
        path = is_called_like_an_image(rows->second[1]) ? 1 : 0;
        columns->has_header = is_called_like_an_image(rows->second[path]) && is_plain_word(rows->first[path]);
    }
    columns->path = path != NOT_FOUND ? path : 1 - label;
    columns->label = label != NOT_FOUND ? label : 1 - columns->path;
    return 0;
}

static int find_columns(struct csv_columns *columns, const struct sample_rows *rows, const struct csv *begin,
                        const struct csv *behind_first, const char **problem_out)
{
    columns->count = rows->count;
    columns->has_pixels =
        rows->count >= PIXEL_COLUMNS_MIN && number_count(rows->second, rows->count) + 1 >= rows->count;
    if (!columns->has_pixels)
        return find_paths(columns, rows, problem_out);
    columns->has_header = number_count(rows->first, rows->count) + 1 < rows->count;
    return find_label_of_pixels(columns, rows, columns->has_header ? behind_first : begin, problem_out);
}

int csv_columns_find(struct csv_columns *columns, const char *text, size_t bytes, const char **problem_out,
                     uint64_t *line_out)
{
    struct csv begin, csv, behind_first;
    struct csv_text *values = NULL;
    size_t count = 0;

    csv_begin(&begin, text, bytes);
    csv = begin;
    *columns = (struct csv_columns){ 0 };
    *problem_out = "the table is empty";
    int rc = read_row(&csv, &values, &count, problem_out);
    const size_t first_count = count;
    behind_first = csv;
    if (rc == 0 && first_count < 2) {
        csv.line = 1;
        *problem_out = "the table has one column: it needs that of the class and that of the file, or pixels";
        rc = -EBADMSG;
    }
    if (rc == 0)
        rc = read_row(&csv, &values, &count, problem_out);
    const bool has_second = rc == 0 && count == 2 * first_count;
    if (rc == 0 || (rc == -ENODATA && first_count > 0)) {
        const struct sample_rows rows = { values, has_second ? values + first_count : values, first_count };
        rc = find_columns(columns, &rows, &begin, &behind_first, problem_out);
        csv.line = 1;
    }
    free(values);
    *line_out = csv.line;
    return rc == -ENODATA ? -EBADMSG : rc;
}
