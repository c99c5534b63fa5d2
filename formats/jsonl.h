/* JSON Lines as a table of text: each line is an object, its members are the columns. */
#ifndef PIPETRAIN_JSONL_H
#define PIPETRAIN_JSONL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSONL_COLUMNS_MAX 1000u
#define JSONL_LINES_ADDED 2u    /* lines of the table before the first line of the text: the separator and the names */

/* Is the text JSON Lines? Its first two lines that are not empty are JSON objects; one such line is enough if
 * is_named, that is, if the file is called .jsonl. */
bool jsonl_begins(const char *text, size_t bytes, bool is_named);
/* Write the text as comma-separated values for csv_begin, line by line: line n of the text is line n +
 * JSONL_LINES_ADDED. Columns are in the order of their first occurrence. Strings are written as they are, with blanks
 * for line ends; a missing member or null is an empty value, a list or an object is JSON. The caller frees *csv_out.
 * 0, -ENOMEM, or -EBADMSG with the line (from 1) and what is wrong. */
int jsonl_to_csv(const char *text, size_t bytes, char **csv_out, size_t *bytes_out, uint64_t *line_out,
                 char *problem_out, size_t problem_size);

#endif
