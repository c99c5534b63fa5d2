/* Reads tables of images: columns, rows and pixels, and the classes of their labels. Called by the main thread of
 * the converter. */
#include "tools/convert/csv_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "formats/csv.h"
#include "formats/html.h"
#include "formats/jsonl.h"
#include "stage/log.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"

/* ---- rows ---- */

#define TABLE_BYTES_MAX ((size_t)2 << 30)
#define ROWS_FIRST 1024u

static int table_fail(const struct csv_table *table, struct stop *stop, int rc, const char *problem)
{
    return convert_fail(stop, EXIT_CODE_DATA, rc, "%s: %s", table->input, problem);
}

static int table_fail_at(const struct csv_table *table, struct stop *stop, uint64_t line, const char *problem)
{
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: line %" PRIu64 ": %s", table->input, line, problem);
}

static int table_no_memory(const struct csv_table *table, struct stop *stop)
{
    return table_fail(table, stop, -ENOMEM, "no memory for the rows");
}

static int load_text(struct csv_table *table, struct stop *stop)
{
    uint8_t *bytes;
    const int rc = unpacked_file_read(table->input, TABLE_BYTES_MAX, &bytes, &table->bytes);

    if (rc < 0)
        return table_fail(table, stop, rc, rc == -EBADMSG ? "compressed data is damaged or cut short"
                                           : rc == -EFBIG ? "is over 2 GiB: split it"
                                           : rc == -EISDIR ? "is a folder, not a table: give the table, and the "
                                                             "folder of its images with --images=DIR"
                                                           : exit_cause(rc));
    table->text = (char *)bytes;
    return 0;
}

static int reserve_row(struct csv_table *table)
{
    const size_t pixels = table->columns.pixel_count;
    size_t pixel_bytes = 0;

    if (table->row_count < table->row_room)
        return 0;
    const size_t room = table->row_room > 0 ? 2 * table->row_room : ROWS_FIRST;
    struct csv_row *rows = realloc(table->rows, room * sizeof(*rows));
    if (rows == NULL)
        return -ENOMEM;
    table->rows = rows;
    if (pixels > 0) {
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

/* The value of a field. Doubled quotes are replaced by single ones in place. */
static struct csv_text value_of(const struct csv_field *field)
{
    const size_t bytes = field->has_doubled_quotes ? csv_value(field, (char *)(uintptr_t)field->text) : field->bytes;
    return csv_trimmed(field->text, bytes);
}

static bool read_pixel(struct csv_text value, uint8_t *pixel_out)
{
    uint32_t pixel;

    if (!csv_read_number(value, &pixel) || pixel > 255)
        return false;
    *pixel_out = (uint8_t)pixel;
    return true;
}

/* Read all pixels of a row from one text. */
static const char *store_pixels(struct csv_text text, uint8_t *pixels_out, size_t count)
{
    unsigned pixel = 0;
    size_t i = 0;

    for (; csv_next_pixel(&text, &pixel); i++) {
        if (pixel > 255)
            return "a pixel is not a whole number from 0 to 255";
        if (i == count)
            return "more pixels than in the first row";
        pixels_out[i] = (uint8_t)pixel;
    }
    return i < count ? "fewer pixels than in the first row" : NULL;
}

static const char *store_split(const struct csv_table *table, struct csv_row *row, struct csv_text value)
{
    row->split = csv_split_of(table->columns.split_kind, value);
    return row->split == SPLIT_UNSAID ? "a value in the column of splits is none (train, validation, test): correct "
                                        "it, or give --split-column=none" : NULL;
}

/* Store the value of a field according to the role of its column. */
static const char *store_field(struct csv_table *table, struct csv_row *row, size_t column,
                               const struct csv_field *field)
{
    const struct csv_columns *const columns = &table->columns;
    uint8_t *const pixels = table->pixels + table->row_count * columns->pixel_count;

    if (column >= columns->count)
        return "more fields than in the first row";
    const struct csv_text value = value_of(field);
    switch ((enum csv_role)columns->roles[column]) {
    case CSV_LABEL:
        row->label = value;
        return NULL;
    case CSV_PATH:
        row->path = value;
        return NULL;
    case CSV_SPLIT:
        return store_split(table, row, value);
    case CSV_PIXELS:
        return store_pixels(value, pixels, columns->pixel_count);
    case CSV_PIXEL:
        return read_pixel(value, &pixels[columns->pixel_places[column]]) ? NULL
                                                                         : "a pixel is not a whole number from 0 to "
                                                                           "255";
    default:
        return NULL;
    }
}

static const char *row_problem(const struct csv_table *table, const struct csv_row *row, size_t fields)
{
    if (fields < table->columns.count)
        return "fewer fields than in the first row";
    if (row->label.bytes == 0 && row->split != SPLIT_UNLABELLED)
        return "has no class";
    return row->path.bytes == 0 && table->columns.pixel_count == 0 ? "has no file" : NULL;
}

/* Read the next row. 0, -ENODATA after the last row, or another negative errno; -EBADMSG with a problem. */
static int read_row(struct csv_table *table, struct csv *csv, struct csv_row *row, const char **problem_out)
{
    struct csv_field field = { .ends_row = false };
    size_t column = 0;

    for (; !field.ends_row; column++) {
        const int rc = csv_next(csv, &field, problem_out);
        if (rc < 0)
            return rc;
        *problem_out = store_field(table, row, column, &field);
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
        return table_fail(table, stop, -EBADMSG, "has no rows");
    for (;;) {
        struct csv_row row = { .line = csv.line - table->lines_added, .pixel_row = table->row_count };
        const char *problem;
        if (atomic_load(interrupted))
            return -ECANCELED;
        int rc = reserve_row(table);
        if (rc < 0)
            return table_no_memory(table, stop);
        rc = read_row(table, &csv, &row, &problem);
        if (rc == -ENODATA)
            break;
        if (rc < 0)
            return table_fail_at(table, stop, row.line, problem);
        table->rows[table->row_count++] = row;
    }
    return table->row_count > 0 ? 0 : table_fail(table, stop, -EBADMSG, "has no rows except its header");
}

/* Describe a file of another format that was given as a table; NULL if it may be a table. */
static const char *other_format(const struct csv_table *table)
{
    const char *text = table->text;
    const char *const end = text + table->bytes;

    if (html_begins(table->text, table->bytes))
        return "is HTML, not a table: download it again";
    if (table->bytes >= 4 && memcmp(text, "PAR1", 4) == 0)
        return "is a Parquet file, not a table of text: examples/parquet_to_tar.py takes images out of it; or write it "
               "as CSV, such as with pandas.read_parquet(...).to_csv(..., index=False)";
    if (table->bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return "is text in UTF-16: save it as UTF-8";
    if (memchr(text, '\n', table->bytes) == NULL && memchr(text, '\r', table->bytes) != NULL)
        return "has lines that end with CR alone: write LF, as with tr '\\r' '\\n'";
    while (text < end && (*text == ' ' || *text == '\n' || *text == '\r' || *text == '\t'))
        text++;
    const char *next = text < end ? text + 1 : end;
    while (next < end && (*next == ' ' || *next == '\n' || *next == '\r' || *next == '\t'))
        next++;
    if (next < end && ((*text == '{' && *next == '"') || (*text == '[' && *next == '{')))
        return "is JSON, not a table: write it as CSV with columns path and label, such as with "
               "pandas.read_json(...).to_csv(..., index=False)";
    return NULL;
}

/* Does the file have the name of JSON Lines: "a.jsonl", "a.ndjson", or those compressed? */
static bool is_jsonl_name(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    return strstr(name, ".jsonl") != NULL || strstr(name, ".ndjson") != NULL;
}

/* Replace JSON Lines by a table with the same values. */
static int replace_jsonl(struct csv_table *table, struct stop *stop)
{
    char problem[256], *text;
    size_t bytes;
    uint64_t line;

    if (!jsonl_begins(table->text, table->bytes, false) && !is_jsonl_name(table->input))
        return 0;
    const int rc = jsonl_to_csv(table->text, table->bytes, &text, &bytes, &line, problem, sizeof(problem));
    if (rc < 0)
        return rc == -ENOMEM ? table_no_memory(table, stop) : table_fail_at(table, stop, line, problem);
    free(table->text);
    table->text = text;
    table->bytes = bytes;
    table->lines_added = JSONL_LINES_ADDED;
    return 0;
}

int csv_table_read(struct csv_table *table, const char *input, const struct csv_choice *choice,
                   const atomic_bool *interrupted, struct stop *stop)
{
    char problem[512];
    uint64_t line;

    *table = (struct csv_table){ .input = input };
    int rc = load_text(table, stop);
    if (rc == 0)
        rc = replace_jsonl(table, stop);
    if (rc < 0)
        return rc;
    const char *const other = other_format(table);
    if (other != NULL)
        return table_fail(table, stop, -EBADMSG, other);
    rc = csv_columns_find(&table->columns, table->text, table->bytes, choice, problem, sizeof(problem), &line);
    if (rc == -ENOMEM)
        return table_no_memory(table, stop);
    if (rc == -EINVAL)
        return convert_fail(stop, EXIT_CODE_USAGE, rc, "%s: %s", table->input, problem);
    if (rc == -ENOMSG)
        return rc;
    line -= line > table->lines_added ? table->lines_added : 0;
    return rc < 0 ? table_fail_at(table, stop, line, problem) : read_rows(table, interrupted, stop);
}

void csv_table_release(struct csv_table *table)
{
    free(table->text);
    free(table->rows);
    free(table->pixels);
    csv_columns_release(&table->columns);
    *table = (struct csv_table){ 0 };
}

/* ---- classes ---- */

#define NUMBER_MAX 999999u
#define SORTED_LEAST 65536u     /* new labels to collect before sorting */

static int classes_no_memory(const struct csv_table *table, struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory for the classes", table->input);
}

static int label_shown(struct csv_text label)
{
    return label.bytes < 200 ? (int)label.bytes : 200;
}

const char *csv_row_place(const struct csv_table *table, const struct csv_row *row, char text[CSV_PLACE_BYTES])
{
    if (table->place != NULL)
        table->place(table->arg, row, text, CSV_PLACE_BYTES);
    else
        snprintf(text, CSV_PLACE_BYTES, "line %" PRIu64, row->line);
    return text;
}

static int label_fail(const struct csv_table *table, const struct csv_row *row, struct stop *stop, const char *problem)
{
    char place[CSV_PLACE_BYTES];

    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s: label '%.*s' %s", table->input,
                        csv_row_place(table, row, place), label_shown(row->label), row->label.text, problem);
}

static bool is_word(struct csv_text text, const char *word)
{
    return strlen(word) == text.bytes && strncasecmp(word, text.text, text.bytes) == 0;
}

/* The words that pandas, Excel and other programs write for missing values or errors. "None" is not among them,
 * because it may be a class. */
static bool is_missing(struct csv_text label)
{
    static const char *const words[] = { "nan", "-nan", "na", "n/a", "#n/a", "<na>", "null", "nil", "?", "-", "#ref!",
                                         "#value!", "#name?", "#num!", "#div/0!", "#null!" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_word(label, words[i]))
            return true;
    return false;
}

static bool is_one(struct csv_text label, bool is_negative)
{
    const bool has_sign = label.text[0] == '-' || label.text[0] == '+';
    const struct csv_text digits = { label.text + has_sign, label.bytes - has_sign };
    uint32_t number;

    return is_negative == (label.text[0] == '-') && csv_read_number(digits, &number) && number == 1;
}

/* Refuse labels that mean "no class": a word for a missing value, or -1 if there are other labels than -1 and 1. */
static int check_missing(const struct csv_table *tables, size_t table_count, struct stop *stop)
{
    const struct csv_table *table = NULL;
    const struct csv_row *minus = NULL;
    bool has_others = false;

    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].row_count; i++) {
            const struct csv_row *const row = &tables[t].rows[i];
            if (is_missing(row->label))
                return label_fail(&tables[t], row, stop, "is the word for a missing value: remove the rows without a "
                                  "class, or write another word if it is one");
            if (minus == NULL && is_one(row->label, true)) {
                minus = row;
                table = &tables[t];
            }
            has_others = has_others || !(is_one(row->label, true) || is_one(row->label, false));
        }
    }
    return minus == NULL || !has_others ? 0
         : label_fail(table, minus, stop, "beside others than 1 means no class for many programs: remove its rows, or "
                      "write a name if it is one");
}

/* Are all labels numbers? If not, *name_out is the first row with another label, and *table_out its table. */
static bool are_numbers(const struct csv_table *tables, size_t table_count, const struct csv_table **table_out,
                        const struct csv_row **name_out)
{
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].row_count; i++) {
            *table_out = &tables[t];
            *name_out = &tables[t].rows[i];
            if (!csv_is_number(tables[t].rows[i].label))
                return false;
        }
    }
    return true;
}

/* Is the label a number or a date, such as "-1.5e2" or "2020-01-31"? */
static bool is_numeric(struct csv_text label)
{
    size_t digits = 0;

    for (size_t i = 0; i < label.bytes; i++) {
        const bool is_digit = label.text[i] >= '0' && label.text[i] <= '9';
        if (!is_digit && strchr("+-.eE", label.text[i]) == NULL)
            return false;
        digits += is_digit;
    }
    return digits > 0;
}

/* Warn about numbers among names: all labels are then names, which are sorted bytewise. */
static void warn_mixed(const struct csv_table *tables, size_t table_count, const struct csv_table *table,
                       const struct csv_row *name)
{
    bool has_number = false;
    char place[CSV_PLACE_BYTES];

    for (size_t t = 0; t < table_count && !has_number; t++)
        for (size_t i = 0; i < tables[t].row_count && !has_number; i++)
            has_number = is_numeric(tables[t].rows[i].label);
    if (has_number)
        log_message(LOG_RUN, "%s: %s: label '%.*s' is not a whole number: all labels are names, numbered in bytewise "
                    "order", table->input, csv_row_place(table, name, place), label_shown(name->label),
                    name->label.text);
}

static int assign_numbers(struct csv_table *table, struct stop *stop, uint32_t *class_count)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct csv_row *row = &table->rows[i];
        if (!csv_read_number(row->label, &row->class) || row->class > NUMBER_MAX)
            return label_fail(table, row, stop, "is over 999999: classes are numbers from 0 on, or names");
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

/* Sort labels and remove duplicates. Returns the number of remaining labels. */
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

/* Find the distinct labels of a table, sorted, to be freed. There are many rows but few classes, so labels are
 * sorted and deduplicated in portions. 0, -ENOMEM, or -ECANCELED when interrupted. */
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

/* Does the label consist of several parts with this separator, each of which is a class or a number? */
static bool is_list_between(struct csv_text label, char separator, const struct csv_text *labels, size_t count)
{
    const char *at = label.text, *const end = label.text + label.bytes;
    size_t parts = 0;

    for (; at < end; parts++) {
        const char *const next = memchr(at, separator, (size_t)(end - at));
        const struct csv_text part = csv_trimmed(at, (size_t)((next != NULL ? next : end) - at));
        if (!csv_is_number(part) && bsearch(&part, labels, count, sizeof(*labels), compare_text) == NULL)
            return false;
        at = next != NULL ? next + 1 : end;
    }
    return parts > 1;
}

/* Is the label a list: "cat|dog", "['cat', 'dog']", "3 17", or "cat dog" if cat and dog are classes? */
static bool is_list(struct csv_text label, const struct csv_text *labels, size_t count)
{
    static const char separators[] = { ' ', ',', ';' };
    bool is_one = memchr(label.text, '|', label.bytes) != NULL ||
                  (label.text[0] == '[' && memchr(label.text, ',', label.bytes) != NULL);

    for (size_t i = 0; i < sizeof(separators); i++)
        is_one = is_one || is_list_between(label, separators[i], labels, count);
    return is_one;
}

/* Where the first row with the label is. Returns `text`. */
static const char *place_of(const struct csv_table *table, struct csv_text label, char text[CSV_PLACE_BYTES])
{
    size_t i = 0;

    while (compare_text(&table->rows[i].label, &label) != 0)
        i++;
    return csv_row_place(table, &table->rows[i], text);
}

/* Refuse labels that list several classes, or only report them if they were chosen. 0 or -EBADMSG after stop_fail. */
static int check_lists(const struct csv_table *table, const struct csv_text *labels, size_t count,
                       const struct csv_label_choice *choice, struct stop *stop)
{
    char place[CSV_PLACE_BYTES], text[1024];
    struct csv_text first = { 0 };
    size_t lists = 0;

    for (size_t i = 0; i < count; i++)
        if (is_list(labels[i], labels, count) && lists++ == 0)
            first = labels[i];
    if (lists == 0)
        return 0;
    snprintf(text, sizeof(text), "%zu of %zu labels list%s several classes, such as '%.*s' (%s)", lists, count,
             lists == 1 ? "s" : "", label_shown(first), first.text, place_of(table, first, place));
    if (!choice->is_made)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s: an image has one class, so keep one of them; "
                            "choosing the labels with %s makes each list a class", table->input, text, choice->option);
    log_message(LOG_RUN, "%s: %s, and %s of %s own", table->input, text, lists == 1 ? "is a class" : "are classes",
                lists == 1 ? "its" : "their");
    return 0;
}

/* Warn about "None", which Python writes for a missing value, but which may also be a class. */
static void warn_none(const struct csv_table *table, const struct csv_text *labels, size_t count)
{
    char place[CSV_PLACE_BYTES];

    for (size_t i = 0; i < count; i++)
        if (is_word(labels[i], "none"))
            log_message(LOG_RUN, "%s: %s: label '%.*s' is a class: remove its rows if it is a missing value",
                        table->input, place_of(table, labels[i], place), label_shown(labels[i]), labels[i].text);
}

/* The length of an inconspicuous character at the beginning of a text: a blank, non-breaking blank, underscore or
 * quote. */
static size_t unseen_bytes(const char *text, size_t bytes)
{
    if (bytes >= 2 && memcmp(text, "\xc2\xa0", 2) == 0)
        return 2;
    return bytes > 0 && strchr(" \t_'\"", text[0]) != NULL && text[0] != '\0';
}

/* Read the next conspicuous character of a label, in lower case; -1 at the end. */
static int next_seen(struct csv_text *text)
{
    size_t unseen;

    while ((unseen = unseen_bytes(text->text, text->bytes)) > 0)
        *text = (struct csv_text){ text->text + unseen, text->bytes - unseen };
    if (text->bytes == 0)
        return -1;
    const unsigned char c = (unsigned char)text->text[0];
    *text = (struct csv_text){ text->text + 1, text->bytes - 1 };
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int compare_looks(const void *left, const void *right)
{
    struct csv_text a = *(const struct csv_text *)left, b = *(const struct csv_text *)right;
    int one, other;

    do {
        one = next_seen(&a);
        other = next_seen(&b);
    } while (one == other && one >= 0);
    return one - other;
}

/* Warn about labels that look alike, such as "cat" and "Cat". 0 or -ENOMEM. */
static int warn_alike(const struct csv_table *table, const struct csv_text *labels, size_t count)
{
    struct csv_text *const sorted = calloc(count + 1, sizeof(*sorted));
    size_t alike = 0, first = 0;
    char one[CSV_PLACE_BYTES], other[CSV_PLACE_BYTES];

    if (sorted == NULL)
        return -ENOMEM;
    memcpy(sorted, labels, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_looks);
    for (size_t i = 1; i < count; i++)
        if (compare_looks(&sorted[i - 1], &sorted[i]) == 0 && alike++ == 0)
            first = i;
    if (alike > 0)
        log_message(LOG_RUN, "%s: '%.*s' (%s) and '%.*s' (%s) are two classes%s: write one name if they are one",
                    table->input, label_shown(sorted[first - 1]), sorted[first - 1].text,
                    place_of(table, sorted[first - 1], one), label_shown(sorted[first]), sorted[first].text,
                    place_of(table, sorted[first], other), alike > 1 ? ", as others that differ as little are" : "");
    free(sorted);
    return 0;
}

static int assign_names(struct csv_table *table, const struct csv_text *labels, size_t count, struct stop *stop)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct csv_row *row = &table->rows[i];
        const struct csv_text *found = bsearch(&row->label, labels, count, sizeof(*labels), compare_text);
        if (found == NULL)
            return label_fail(table, row, stop, "is not a class of the training table");
        row->class = (uint32_t)(found - labels);
    }
    return 0;
}

/* Copies with a terminating NUL; NULL if out of memory. */
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

static int find_names(struct csv_table *tables, size_t table_count, const struct csv_label_choice *choice,
                      const atomic_bool *interrupted, struct stop *stop, char ***names_out, uint32_t *class_count_out)
{
    size_t count;
    struct csv_text *labels;
    int rc = distinct_labels(&tables[0], interrupted, &labels, &count);

    if (rc < 0)
        return rc == -ENOMEM ? classes_no_memory(&tables[0], stop) : rc;
    rc = check_lists(&tables[0], labels, count, choice, stop);
    warn_none(&tables[0], labels, count);
    if (rc == 0 && warn_alike(&tables[0], labels, count) < 0)
        rc = classes_no_memory(&tables[0], stop);
    for (size_t t = 0; t < table_count && rc == 0; t++)
        rc = assign_names(&tables[t], labels, count, stop);
    char **names = rc == 0 ? copy_names(labels, count) : NULL;
    free(labels);
    if (rc < 0)
        return rc;
    if (names == NULL)
        return classes_no_memory(&tables[0], stop);
    *names_out = names;
    *class_count_out = (uint32_t)count;
    return 0;
}

int csv_classes_find(struct csv_table *tables, size_t table_count, const struct csv_label_choice *choice,
                     const atomic_bool *interrupted, struct stop *stop, char ***names_out, uint32_t *class_count_out)
{
    const struct csv_table *table;
    const struct csv_row *name;
    uint32_t class_count = 0;
    int rc = check_missing(tables, table_count, stop);

    if (rc < 0)
        return rc;
    if (!are_numbers(tables, table_count, &table, &name)) {
        warn_mixed(tables, table_count, table, name);
        return find_names(tables, table_count, choice, interrupted, stop, names_out, class_count_out);
    }
    for (size_t t = 0; t < table_count && rc == 0; t++)
        rc = assign_numbers(&tables[t], stop, &class_count);
    if (rc < 0)
        return rc;
    *names_out = NULL;
    *class_count_out = class_count;
    return 0;
}

int csv_classes_count(const struct csv_table *table, uint32_t class_count, size_t *count_out)
{
    bool *const is_there = calloc((size_t)class_count + 1, sizeof(*is_there));

    if (is_there == NULL)
        return -ENOMEM;
    *count_out = 0;
    for (size_t i = 0; i < table->row_count; i++) {
        *count_out += !is_there[table->rows[i].class];
        is_there[table->rows[i].class] = true;
    }
    free(is_there);
    return 0;
}
