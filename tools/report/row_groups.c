/* Merges adjacent rows. Called by report_input.c for every row of a file. */
#include "tools/report/row_groups.h"

#include <errno.h>
#include <math.h>

static double merged_number(enum group_value which, double number, double next, double share)
{
    return which == GROUP_LEAST ? fmin(number, next) : which == GROUP_MOST ? fmax(number, next)
                                : number * (1 - share) + next * share;
}

/* Merge the values of `next` into `values`. `share`: the rows merged in `next`, as a share of the rows of both. A
 * number that only one of them has is kept; of other values, that of `next` is kept. */
static int merge_values(json_t *values, json_t *next, enum group_value which, double share)
{
    const char *key;
    json_t *value;
    int failed = 0;
    json_object_foreach(next, key, value) {
        json_t *const before = json_object_get(values, key);
        if (json_is_object(before) && json_is_object(value))
            failed |= merge_values(before, value, which, share);
        else if (json_is_number(before) && json_is_number(value)) {
            const double merged = merged_number(which, json_number_value(before), json_number_value(value), share);
            failed |= json_is_real(before) ? json_real_set(before, merged)
                                           : json_object_set_new(values, key, json_real(merged));
        } else if (!json_is_null(value))
            failed |= json_object_set_new(values, key, json_deep_copy(value));
    }
    return failed;
}

static void group_release(struct row_group *group)
{
    for (enum group_value which = 0; which < GROUP_VALUES; which++)
        json_decref(group->values[which]);
}

/* Merge `next` into the group before it, and release it. */
static int group_merge(struct row_group *group, struct row_group *next)
{
    const double share = (double)next->rows / (double)(group->rows + next->rows);
    int failed = 0;
    for (enum group_value which = 0; which < GROUP_VALUES; which++) {
        if (group->values[which] == NULL)
            group->values[which] = json_deep_copy(group->values[GROUP_MEAN]);
        failed |= merge_values(group->values[which], next->values[next->values[which] != NULL ? which : GROUP_MEAN],
                               which, share);
    }
    group->rows += next->rows;
    group->last_line = next->last_line;
    group_release(next);
    return failed != 0 ? -ENOMEM : 0;
}

static int merge_pairs(struct row_groups *groups)
{
    int rc = 0;
    for (size_t i = 0; i < ROW_GROUPS_MAX / 2; i++) {
        struct row_group *const pair = &groups->groups[2 * i];
        const int merged = group_merge(&pair[0], &pair[1]);
        groups->groups[i] = pair[0];
        rc = rc != 0 ? rc : merged;
    }
    groups->count = ROW_GROUPS_MAX / 2;
    groups->rows_each *= 2;
    return rc;
}

/* Append the newest row as a group; its values are moved. */
static int add_group(struct row_groups *groups, struct row_group *row)
{
    struct row_group *const last = groups->count > 0 ? &groups->groups[groups->count - 1] : NULL;
    if (last != NULL && last->rows < groups->rows_each)
        return group_merge(last, row);
    const int rc = groups->count == ROW_GROUPS_MAX ? merge_pairs(groups) : 0;
    groups->groups[groups->count++] = *row;
    return rc;
}

int row_groups_add(struct row_groups *groups, json_t *row, uint64_t line)
{
    int rc = 0;
    if (groups->newest.rows == 0)
        groups->rows_each = 1;
    else
        rc = add_group(groups, &groups->newest);
    groups->newest = (struct row_group){ .rows = 1, .last_line = line, .values[GROUP_MEAN] = row };
    return rc;
}

static json_t *group_json(const struct row_group *group)
{
    return json_pack("{s:I, s:I, s:O, s:O?, s:O?}", "line", (json_int_t)group->last_line,
                     "rows", (json_int_t)group->rows, "mean", group->values[GROUP_MEAN],
                     "least", group->values[GROUP_LEAST], "most", group->values[GROUP_MOST]);
}

/* Move the newest row into the groups. If the last group has less than half as many rows as the others, merge it
 * with the one before it. */
static int end_groups(struct row_groups *groups)
{
    struct row_group newest = groups->newest;
    if (newest.rows == 0)
        return 0;
    json_incref(newest.values[GROUP_MEAN]);
    const int rc = add_group(groups, &newest);
    struct row_group *const last = &groups->groups[groups->count - 1];
    if (rc != 0 || groups->count == 1 || last->rows >= groups->rows_each / 2)
        return rc;
    groups->count--;
    return group_merge(&last[-1], last);
}

json_t *row_groups_end(struct row_groups *groups)
{
    json_t *const list = json_array();
    int failed = end_groups(groups);
    for (size_t i = 0; i < groups->count; i++)
        failed |= json_array_append_new(list, group_json(&groups->groups[i]));
    if (failed == 0)
        return json_pack("{s:o, s:O?}", "groups", list, "last", groups->newest.values[GROUP_MEAN]);
    json_decref(list);
    return NULL;
}

void row_groups_release(struct row_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        group_release(&groups->groups[i]);
    group_release(&groups->newest);
}
