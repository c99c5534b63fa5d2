/* What the columns of a table of images are. */
#ifndef PIPETRAIN_CSV_COLUMNS_H
#define PIPETRAIN_CSV_COLUMNS_H

#include "tools/convert/files/csv_table.h"

/* From names in the first row, where it has some that are known, else from what is in the columns. 0; -EBADMSG with
 * what is wrong and its line; -ENOMEM. */
int csv_columns_find(struct csv_columns *columns, const char *text, size_t bytes, const char **problem_out,
                     uint64_t *line_out);
/* Is it a whole number, of at most 9 digits? */
bool csv_is_number(struct csv_text value);
/* The field without blanks around it. */
struct csv_text csv_trimmed(const char *text, size_t bytes);

#endif
