/* Walking a table of text: fields between commas, semicolons or tabs, rows on lines, quotes as RFC 4180 has them.
 * Lines end with LF or CR LF; empty lines are skipped. Nothing is copied. */
#ifndef PIPETRAIN_CSV_H
#define PIPETRAIN_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct csv {
    const char *text;
    size_t bytes, at;
    char separator;
    uint64_t line;              /* of the next field, from 1 */
    bool in_row;                /* the last field was not its row's last one */
};

struct csv_field {
    const char *text;           /* without its quotes */
    size_t bytes;
    bool has_doubled_quotes;    /* text is longer than the value */
    bool ends_row;
};

/* Begin reading a whole file in memory. A UTF-8 byte order mark is skipped, and so are lines of comments in the
 * beginning: those that begin with # and have no more separators, or other ones, than the line below. The separator is
 * the one of comma, semicolon and tab that is most frequent in the first line after these, or that a line "sep=;"
 * has. */
void csv_begin(struct csv *csv, const char *text, size_t bytes);
/* The next field. 0; -ENODATA after the last row; -EBADMSG with what is wrong in line csv->line. */
int csv_next(struct csv *csv, struct csv_field *field_out, const char **problem_out);
/* Write the field's value to `out`, which has room for field->bytes, and return its length. */
size_t csv_value(const struct csv_field *field, char *out);

#endif
