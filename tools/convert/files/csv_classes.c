/* Labels to classes. Called by the main thread of the converter. */
#include "tools/convert/files/csv_classes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tools/convert/files/csv_columns.h"

#define NUMBER_MAX 999999u
#define SORTED_LEAST 65536u     /* new labels at a time */

static int no_memory(const struct csv_table *table, struct stop *stop)
{
    stop_fail(stop, EXIT_CODE_MEMORY, "%s: no memory for its classes", table->input);
    return -ENOMEM;
}

static int fail_at(const struct csv_table *table, const struct csv_row *row, struct stop *stop, const char *problem)
{
    stop_fail(stop, EXIT_CODE_DATA, "%s: line %" PRIu64 ": label '%.*s' %s", table->input, row->line,
              row->label.bytes < 200 ? (int)row->label.bytes : 200, row->label.text, problem);
    return -EBADMSG;
}

/* The label without the ".0" that a column of floating-point numbers gives whole ones, as pandas writes them. */
static struct csv_text whole_part(struct csv_text label)
{
    const char *const point = memchr(label.text, '.', label.bytes);
    size_t zeros = 0;

    if (point == NULL)
        return label;
    const size_t whole = (size_t)(point - label.text), behind = label.bytes - whole - 1;
    while (zeros < behind && point[1 + zeros] == '0')
        zeros++;
    return behind > 0 && zeros == behind ? (struct csv_text){ label.text, whole } : label;
}

/* Whether all labels are numbers; else the first that is none, and its table. */
static bool are_numbers(const struct csv_table *tables, size_t table_count, const struct csv_table **table_out,
                        const struct csv_row **name_out)
{
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].row_count; i++) {
            *table_out = &tables[t];
            *name_out = &tables[t].rows[i];
            if (!csv_is_number(whole_part(tables[t].rows[i].label)))
                return false;
        }
    }
    return true;
}

/* Numbers among names are names, and in another order. */
static void tell_mixed(const struct csv_table *tables, const struct csv_table *table, const struct csv_row *name)
{
    if (name == &tables[0].rows[0])
        return;
    log_message(LOG_RUN, "%s: line %" PRIu64 ": label '%.*s' is no whole number: all labels are names, numbered in "
                "bytewise order", table->input, name->line, name->label.bytes < 200 ? (int)name->label.bytes : 200,
                name->label.text);
}

static uint32_t number_of(struct csv_text label)
{
    uint32_t number = 0;

    for (size_t i = 0; i < label.bytes; i++)
        number = number * 10 + (uint32_t)(label.text[i] - '0');
    return number;
}

static int take_numbers(struct csv_table *table, struct stop *stop, uint32_t *class_count)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct csv_row *row = &table->rows[i];
        row->class = number_of(whole_part(row->label));
        if (row->class > NUMBER_MAX)
            return fail_at(table, row, stop, "is over 999999: classes are numbers from 0 on, or names");
        if (row->class >= *class_count)
            *class_count = row->class + 1;
    }
    return 0;
}

static int compare_text(const void *left, const void *right)
{
    const struct csv_text *a = left, *b = right;
    const int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);

    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Sort labels and leave out what is there twice; how many stay. */
static size_t sort_distinct(struct csv_text *labels, size_t count)
{
    size_t kept = 0;

    qsort(labels, count, sizeof(*labels), compare_text);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare_text(&labels[kept - 1], &labels[i]) != 0)
            labels[kept++] = labels[i];
    }
    return kept;
}

/* The different labels of a table, sorted, in a block of their own. Rows are sorted in parts that grow with what was
 * found, since tables are long and classes few. 0, -ENOMEM, or -ECANCELED when interrupted. */
static int distinct_labels(const struct csv_table *table, const atomic_bool *interrupted, struct csv_text **labels_out,
                           size_t *count_out)
{
    struct csv_text *const labels = calloc(table->row_count, sizeof(*labels));
    size_t distinct = 0, filled = 0;

    if (labels == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < table->row_count; i++) {
        labels[filled++] = table->rows[i].label;
        if (filled - distinct < SORTED_LEAST || filled < 2 * distinct)
            continue;
        distinct = filled = sort_distinct(labels, filled);
        if (atomic_load(interrupted)) {
            free(labels);
            return -ECANCELED;
        }
    }
    *labels_out = labels;
    *count_out = sort_distinct(labels, filled);
    return 0;
}

static int take_names(struct csv_table *table, const struct csv_text *labels, size_t count, struct stop *stop)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct csv_row *row = &table->rows[i];
        const struct csv_text *found = bsearch(&row->label, labels, count, sizeof(*labels), compare_text);
        if (found == NULL)
            return fail_at(table, row, stop, "is for validation, but there is no class of this name to train with");
        row->class = (uint32_t)(found - labels);
    }
    return 0;
}

/* Terminated copies; NULL without memory. */
static char **copy_names(const struct csv_text *labels, size_t count)
{
    char **names = calloc(count, sizeof(*names));
    size_t i = 0;

    while (names != NULL && i < count && (names[i] = strndup(labels[i].text, labels[i].bytes)) != NULL)
        i++;
    if (i == count)
        return names;
    for (size_t j = 0; names != NULL && j < i; j++)
        free(names[j]);
    free(names);
    return NULL;
}

static int find_names(struct csv_table *tables, size_t table_count, const atomic_bool *interrupted, struct stop *stop,
                      char ***names_out, uint32_t *class_count_out)
{
    size_t count;
    struct csv_text *labels;
    int rc = distinct_labels(&tables[0], interrupted, &labels, &count);

    if (rc < 0)
        return rc == -ENOMEM ? no_memory(&tables[0], stop) : rc;
    for (size_t t = 0; t < table_count && rc == 0; t++)
        rc = take_names(&tables[t], labels, count, stop);
    char **names = rc == 0 ? copy_names(labels, count) : NULL;
    free(labels);
    if (rc < 0)
        return rc;
    if (names == NULL)
        return no_memory(&tables[0], stop);
    *names_out = names;
    *class_count_out = (uint32_t)count;
    return 0;
}

int csv_classes_find(struct csv_table *tables, size_t table_count, const atomic_bool *interrupted, struct stop *stop,
                     char ***names_out, uint32_t *class_count_out)
{
    const struct csv_table *table;
    const struct csv_row *name;
    uint32_t class_count = 0;
    int rc = 0;

    if (!are_numbers(tables, table_count, &table, &name)) {
        tell_mixed(tables, table, name);
        return find_names(tables, table_count, interrupted, stop, names_out, class_count_out);
    }
    for (size_t t = 0; t < table_count && rc == 0; t++)
        rc = take_numbers(&tables[t], stop, &class_count);
    if (rc < 0)
        return rc;
    *names_out = NULL;
    *class_count_out = class_count;
    return 0;
}
