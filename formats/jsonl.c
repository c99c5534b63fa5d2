/* Rewrites JSON Lines as a table, with jansson. Called by the main thread of pipetrain-convert. Pure. */
#include "formats/jsonl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* The text, and the names of the columns found so far. */
struct lines {
    const char *at, *end;
    uint64_t line;
    char *columns[JSONL_COLUMNS_MAX];
    size_t column_count;
    char *problem;
    size_t problem_size;
};

struct output { char *text; size_t bytes, room; bool failed; };

static void output_put(struct output *out, const char *text, size_t bytes)
{
    if (out->room - out->bytes < bytes) {
        const size_t room = 2 * out->room + bytes + 4096;
        char *const grown = realloc(out->text, room);
        out->failed |= grown == NULL;
        if (grown == NULL)
            return;
        out->text = grown;
        out->room = room;
    }
    if (bytes > 0)
        memcpy(out->text + out->bytes, text, bytes);
    out->bytes += bytes;
}

static void put_quoted(struct output *out, const char *text)
{
    output_put(out, "\"", 1);
    for (; *text != '\0'; text++) {
        const bool is_end = *text == '\n' || *text == '\r';
        if (*text == '"')
            output_put(out, "\"", 1);
        output_put(out, is_end ? " " : text, 1);
    }
    output_put(out, "\"", 1);
}

static void put_value(struct output *out, const json_t *value)
{
    char number[64];

    if (value == NULL || json_is_null(value))
        return;
    if (json_is_string(value)) {
        put_quoted(out, json_string_value(value));
    } else if (json_is_array(value) || json_is_object(value)) {
        char *const text = json_dumps(value, JSON_COMPACT);
        out->failed |= text == NULL;
        put_quoted(out, text != NULL ? text : "");
        free(text);
    } else {
        if (json_is_boolean(value))
            snprintf(number, sizeof(number), "%s", json_is_true(value) ? "true" : "false");
        else if (json_is_integer(value))
            snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else
            snprintf(number, sizeof(number), "%.17g", json_real_value(value));
        put_quoted(out, number);
    }
}

/* Read the next line. 0 with the object, which is NULL for an empty line; -ENODATA at the end; -ENOMEM; -EBADMSG. */
static int next_object(struct lines *lines, json_t **object_out)
{
    json_error_t error;

    if (lines->at >= lines->end)
        return -ENODATA;
    const char *const found = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    const char *const end = found != NULL ? found : lines->end, *begin = lines->at;
    lines->at = found != NULL ? found + 1 : lines->end;
    lines->line++;
    while (begin < end && strchr(" \t\r", *begin) != NULL && *begin != '\0')
        begin++;
    *object_out = NULL;
    if (begin == end)
        return 0;
    errno = 0;      /* jansson reports a failed allocation only by errno, and not always */
    *object_out = json_loadb(begin, (size_t)(end - begin), JSON_REJECT_DUPLICATES, &error);
    if (*object_out == NULL && errno == ENOMEM)
        return -ENOMEM;
    if (*object_out != NULL && json_is_object(*object_out))
        return 0;
    snprintf(lines->problem, lines->problem_size, "is no JSON object%s%s", *object_out == NULL ? ": " : "",
             *object_out == NULL ? error.text : "");
    json_decref(*object_out);
    return -EBADMSG;
}

static int add_columns(struct lines *lines, json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        size_t i = 0;
        while (i < lines->column_count && strcmp(lines->columns[i], name) != 0)
            i++;
        if (i < lines->column_count)
            continue;
        if (i == JSONL_COLUMNS_MAX) {
            snprintf(lines->problem, lines->problem_size, "the objects have more than %u different members",
                     JSONL_COLUMNS_MAX);
            return -EBADMSG;
        }
        lines->columns[i] = strdup(name);
        if (lines->columns[i] == NULL)
            return -ENOMEM;
        lines->column_count++;
    }
    return 0;
}

static int find_columns(struct lines *lines)
{
    json_t *object;
    int rc;

    while ((rc = next_object(lines, &object)) == 0 && (rc = add_columns(lines, object)) == 0)
        json_decref(object);
    if (rc != -ENODATA)
        return rc;
    if (lines->column_count > 0)
        return 0;
    snprintf(lines->problem, lines->problem_size, "the objects have no members");
    return -EBADMSG;
}

static void put_row(struct output *out, const struct lines *lines, const json_t *object)
{
    for (size_t i = 0; object != NULL && i < lines->column_count; i++) {
        if (i > 0)
            output_put(out, ",", 1);
        put_value(out, json_object_get(object, lines->columns[i]));
    }
    output_put(out, "\n", 1);
}

static int write_rows(struct lines *lines, struct output *out)
{
    json_t *object;
    int rc;

    output_put(out, "sep=,\n", 6);
    for (size_t i = 0; i < lines->column_count; i++) {
        if (i > 0)
            output_put(out, ",", 1);
        put_quoted(out, lines->columns[i]);
    }
    output_put(out, "\n", 1);
    while ((rc = next_object(lines, &object)) == 0 && !out->failed) {
        put_row(out, lines, object);
        json_decref(object);
    }
    return out->failed ? -ENOMEM : rc == -ENODATA ? 0 : rc;
}

static struct lines lines_of(const char *text, size_t bytes, char *problem, size_t problem_size)
{
    const size_t skipped = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return (struct lines){ .at = text + skipped, .end = text + bytes, .problem = problem,
                           .problem_size = problem_size };
}

bool jsonl_begins(const char *text, size_t bytes, bool is_named)
{
    char problem[64];
    struct lines lines = lines_of(text, bytes, problem, sizeof(problem));
    json_t *object;
    size_t objects = 0;

    while (objects < 2 && next_object(&lines, &object) == 0) {
        objects += object != NULL;
        json_decref(object);
    }
    return objects == 2 || (objects == 1 && is_named);
}

int jsonl_to_csv(const char *text, size_t bytes, char **csv_out, size_t *bytes_out, uint64_t *line_out,
                 char *problem_out, size_t problem_size)
{
    struct lines lines = lines_of(text, bytes, problem_out, problem_size);
    const char *const begin = lines.at;
    struct output out = { 0 };

    int rc = find_columns(&lines);
    *line_out = lines.line;
    lines.at = begin;
    if (rc == 0)
        rc = write_rows(&lines, &out);
    for (size_t i = 0; i < lines.column_count; i++)
        free(lines.columns[i]);
    if (rc < 0) {
        free(out.text);
        return rc;
    }
    *csv_out = out.text;
    *bytes_out = out.bytes;
    return 0;
}
