/* Parsing a table of text: fields are separated by commas, semicolons or tabs, each row is a line, quotes are as in RFC
 * 4180. Lines end with LF or CR LF; empty lines are skipped. Nothing is copied. */
#ifndef PIPETRAIN_CSV_H
#define PIPETRAIN_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct csv {
    const char *text;
    size_t bytes, at;
    char separator;
    uint64_t line;              /* line of the next field, from 1 */
    bool in_row;                /* the latest field was not the last one of its row */
};

struct csv_field {
    const char *text;           /* without the quotes around it */
    size_t bytes;
    bool has_doubled_quotes;    /* text has doubled quotes, so it is longer than the value */
    bool ends_row;
};

/* Begin to read a whole file in memory. A UTF-8 byte order mark is skipped, and so are comment lines at the beginning:
 * lines that begin with # and have no separators, or not as many as the line below. The separator is the character of a
 * line "sep=;", or else the most frequent one of comma, semicolon and tab in the first line that is no comment. */
void csv_begin(struct csv *csv, const char *text, size_t bytes);
/* Read the next field. 0; -ENODATA after the last row; -EBADMSG with what is wrong in line csv->line. */
int csv_next(struct csv *csv, struct csv_field *field_out, const char **problem_out);
/* Write the field's value to `out`, which has room for field->bytes, and return its length. */
size_t csv_value(const struct csv_field *field, char *out);

#endif
