/* Reading a table into rows and pixels. Called by the main thread of the converter. */
#include "tools/convert/files/csv_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/csv.h"
#include "formats/gunzip.h"
#include "formats/html.h"
#include "stage/file/file.h"
#include "tools/convert/files/csv_columns.h"

#define TABLE_BYTES_MAX ((size_t)2 << 30)
#define ROWS_FIRST 1024u

static int fail(const struct csv_table *table, struct stop *stop, int rc, const char *problem)
{
    stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: %s", table->input, problem);
    return rc;
}

static int fail_at(const struct csv_table *table, struct stop *stop, uint64_t line, const char *problem)
{
    stop_fail(stop, EXIT_CODE_DATA, "%s: line %" PRIu64 ": %s", table->input, line, problem);
    return -EBADMSG;
}

static int no_memory(const struct csv_table *table, struct stop *stop)
{
    return fail(table, stop, -ENOMEM, "no memory for its rows");
}

static int load_text(struct csv_table *table, struct stop *stop)
{
    uint8_t *bytes, *unpacked;
    size_t count;

    int rc = file_load(table->input, SIZE_MAX, &bytes, &count);
    if (rc < 0)
        return fail(table, stop, rc, exit_cause(rc));
    if (gunzip_is_gzip(bytes, count)) {
        rc = gunzip(bytes, count, TABLE_BYTES_MAX, &unpacked, &table->bytes);
        free(bytes);
        if (rc < 0)
            return fail(table, stop, rc, rc == -EBADMSG ? "compressed data is damaged or cut short" : strerror(-rc));
        table->text = (char *)unpacked;
        return 0;
    }
    table->text = (char *)bytes;
    table->bytes = count;
    return count <= TABLE_BYTES_MAX ? 0 : fail(table, stop, -EFBIG, "is over 2 GiB: split it into parts");
}

static int reserve_row(struct csv_table *table)
{
    const size_t pixels = table->columns.count - 1;
    size_t pixel_bytes = 0;

    if (table->row_count < table->row_room)
        return 0;
    const size_t room = table->row_room > 0 ? 2 * table->row_room : ROWS_FIRST;
    struct csv_row *rows = realloc(table->rows, room * sizeof(*rows));
    if (rows == NULL)
        return -ENOMEM;
    table->rows = rows;
    if (table->columns.has_pixels) {
        if (__builtin_mul_overflow(room, pixels, &pixel_bytes))
            return -ENOMEM;
        uint8_t *bytes = realloc(table->pixels, pixel_bytes);
        if (bytes == NULL)
            return -ENOMEM;
        table->pixels = bytes;
    }
    table->row_room = room;
    return 0;
}

/* A value whose doubled quotes are undone in its place. */
static struct csv_text take_value(const struct csv_field *field)
{
    const size_t bytes = field->has_doubled_quotes ? csv_value(field, (char *)(uintptr_t)field->text) : field->bytes;
    return csv_trimmed(field->text, bytes);
}

static bool take_pixel(struct csv_text value, uint8_t *pixel_out)
{
    unsigned pixel = 0;

    if (!csv_is_number(value))
        return false;
    for (size_t i = 0; i < value.bytes && pixel <= 255; i++)
        pixel = pixel * 10 + (unsigned)(value.text[i] - '0');
    *pixel_out = (uint8_t)pixel;
    return pixel <= 255;
}

/* The place of a pixel of the row that is read. */
static uint8_t *pixel_at(const struct csv_table *table, size_t column)
{
    const size_t pixel = column - (column > table->columns.label);
    return table->pixels + table->row_count * (table->columns.count - 1) + pixel;
}

static const char *take_field(struct csv_table *table, struct csv_row *row, size_t column,
                              const struct csv_field *field)
{
    const struct csv_columns *columns = &table->columns;
    const struct csv_text value = take_value(field);

    if (column >= columns->count)
        return "more fields than in the first row";
    if (column == columns->label)
        row->label = value;
    else if (columns->has_pixels && !take_pixel(value, pixel_at(table, column)))
        return "a pixel that is no whole number from 0 to 255";
    else if (!columns->has_pixels && column == columns->path)
        row->path = value;
    return NULL;
}

static const char *row_problem(const struct csv_table *table, const struct csv_row *row, size_t fields)
{
    if (fields < table->columns.count)
        return "fewer fields than in the first row";
    if (row->label.bytes == 0)
        return "no class is told";
    return row->path.bytes == 0 && !table->columns.has_pixels ? "no file is told" : NULL;
}

/* -ENODATA behind the last row; -EBADMSG with a problem. */
static int read_row(struct csv_table *table, struct csv *csv, struct csv_row *row, const char **problem_out)
{
    struct csv_field field = { .ends_row = false };
    size_t column = 0;

    for (; !field.ends_row; column++) {
        const int rc = csv_next(csv, &field, problem_out);
        if (rc < 0)
            return rc;
        *problem_out = take_field(table, row, column, &field);
        if (*problem_out != NULL)
            return -EBADMSG;
    }
    *problem_out = row_problem(table, row, column);
    return *problem_out != NULL ? -EBADMSG : 0;
}

static int skip_row(struct csv *csv)
{
    struct csv_field field = { .ends_row = false };
    const char *problem;
    int rc = 0;

    while (rc == 0 && !field.ends_row)
        rc = csv_next(csv, &field, &problem);
    return rc;
}

static int read_rows(struct csv_table *table, const atomic_bool *interrupted, struct stop *stop)
{
    struct csv csv;

    csv_begin(&csv, table->text, table->bytes);
    if (table->columns.has_header && skip_row(&csv) < 0)
        return fail(table, stop, -EBADMSG, "holds no row");
    for (;;) {
        struct csv_row row = { .line = csv.line };
        const char *problem;
        if (atomic_load(interrupted))
            return -ECANCELED;
        int rc = reserve_row(table);
        if (rc < 0)
            return no_memory(table, stop);
        rc = read_row(table, &csv, &row, &problem);
        if (rc == -ENODATA)
            break;
        if (rc < 0)
            return fail_at(table, stop, row.line, problem);
        table->rows[table->row_count++] = row;
    }
    return table->row_count > 0 ? 0 : fail(table, stop, -EBADMSG, "holds no row but its header");
}

int csv_table_read(struct csv_table *table, const char *input, const atomic_bool *interrupted, struct stop *stop)
{
    const char *problem;
    uint64_t line;

    *table = (struct csv_table){ .input = input };
    int rc = load_text(table, stop);
    if (rc < 0)
        return rc;
    if (html_begins(table->text, table->bytes))
        return fail(table, stop, -EBADMSG, "is HTML, not a table: download it again");
    rc = csv_columns_find(&table->columns, table->text, table->bytes, &problem, &line);
    if (rc == -ENOMEM)
        return no_memory(table, stop);
    return rc < 0 ? fail_at(table, stop, line, problem) : read_rows(table, interrupted, stop);
}

void csv_table_release(struct csv_table *table)
{
    free(table->text);
    free(table->rows);
    free(table->pixels);
    *table = (struct csv_table){ 0 };
}
