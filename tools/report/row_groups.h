/* Rows of metrics.jsonl for curves, in bounded memory: of many rows, neighbours are merged into groups. Any number in a
 * row, whatever its name, becomes the mean of the group's, with the smallest and the largest of them beside it. */
#ifndef PIPETRAIN_ROW_GROUPS_H
#define PIPETRAIN_ROW_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#define ROW_GROUPS_MAX 400u             /* up to so many rows, each is a group of its own; even */

enum group_value { GROUP_LEAST, GROUP_MOST, GROUP_MEAN, GROUP_VALUES };

struct row_group {
    uint64_t rows;
    uint64_t last_line;                 /* of the file, from 1 */
    json_t *values[GROUP_VALUES];       /* objects like a row; of a single row GROUP_MEAN only, the row itself */
};

/* All groups but the last have rows_each rows. Begins as zeros. */
struct row_groups {
    size_t count;
    uint64_t rows_each;
    struct row_group groups[ROW_GROUPS_MAX], newest;    /* `newest`: the last row, which is not yet among the groups */
};

/* Add a row, an object that nobody else uses and that is taken over, also after an error. 0 or -ENOMEM. */
int row_groups_add(struct row_groups *groups, json_t *row, uint64_t line);
/* After the last row: {groups, last}. `groups` is a list of {line, rows, mean, least, most}, where the last two are null
 * for a single row; `last` is the last row, or null. NULL: out of memory. */
json_t *row_groups_end(struct row_groups *groups);
void row_groups_release(struct row_groups *groups);

#endif
