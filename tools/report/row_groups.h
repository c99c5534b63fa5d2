/* Rows of metrics.jsonl for curves, in bounded memory: if there are many rows, adjacent ones are merged into groups.
 * Every number, whatever its name, is replaced by its mean, minimum and maximum in the group. */
#ifndef PIPETRAIN_ROW_GROUPS_H
#define PIPETRAIN_ROW_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* up to this number of rows, each row is a group of its own; even, because groups are merged in pairs */
#define ROW_GROUPS_MAX 400u

enum group_value { GROUP_LEAST, GROUP_MOST, GROUP_MEAN, GROUP_VALUES };

struct row_group {
    uint64_t rows;
    uint64_t last_line;                 /* its line number in the file, from 1 */
    /* JSON objects like a row; a group of one row has GROUP_MEAN only, which is the row itself */
    json_t *values[GROUP_VALUES];
};

/* All groups but the last have rows_each rows. Initialised with zeros. */
struct row_groups {
    size_t count;
    uint64_t rows_each;
    struct row_group groups[ROW_GROUPS_MAX], newest;    /* `newest`: the last row, which is not yet among the groups */
};

/* Add a row. It takes over the reference to `row`, also on an error; nobody else may use the object. 0 or -ENOMEM. */
int row_groups_add(struct row_groups *groups, json_t *row, uint64_t line);
/* The groups, after the last row, as the object {groups, last}. `groups` is a list of {line, rows, mean, least,
 * most}; the last two are null for a group of one row. `last` is the last row, or null. NULL: out of memory. */
json_t *row_groups_end(struct row_groups *groups);
void row_groups_release(struct row_groups *groups);

#endif
