/* Parsing tables of text, field by field. Called by the converter with the file in memory. */
#include "formats/csv.h"

#include <errno.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static int csv_refuse(const char *problem, const char **problem_out)
{
    *problem_out = problem;
    return -EBADMSG;
}

/* Count a character in the first line, outside of quotes. */
static size_t count_in_line(const char *text, size_t bytes, char wanted)
{
    size_t count = 0;
    bool quoted = false;

    for (size_t i = 0; i < bytes && (quoted || text[i] != '\n'); i++) {
        quoted ^= text[i] == '"';
        count += !quoted && text[i] == wanted;
    }
    return count;
}

static char find_separator(const char *text, size_t bytes)
{
    static const char separators[] = { ',', ';', '\t' };
    char best = separators[0];
    size_t most = 0;

    for (size_t i = 0; i < sizeof(separators); i++) {
        const size_t count = count_in_line(text, bytes, separators[i]);
        if (count > most) {
            most = count;
            best = separators[i];
        }
    }
    return best;
}

/* The length of the line end at `at`, 0 if there is none. */
static size_t line_end(const struct csv *csv, size_t at)
{
    if (at < csv->bytes && csv->text[at] == '\n')
        return 1;
    return csv->bytes - at >= 2 && csv->text[at] == '\r' && csv->text[at + 1] == '\n' ? 2 : 0;
}

static void skip_empty_lines(struct csv *csv)
{
    size_t end;

    while ((end = line_end(csv, csv->at)) > 0) {
        csv->at += end;
        csv->line++;
    }
}

/* Is the first line the one with which Excel sets the separator, "sep=;"? */
static bool names_separator(const char *text, size_t bytes)
{
    return bytes > 5 && memcmp(text, "sep=", 4) == 0 && (text[5] == '\n' || text[5] == '\r');
}

static size_t line_bytes(const char *text, size_t bytes)
{
    const char *const end = memchr(text, '\n', bytes);
    return end != NULL ? (size_t)(end - text) + 1 : bytes;
}

/* Is the first line a comment? A header may also begin with #; it has as many separators as the row below. */
static bool begins_with_comment(const char *text, size_t bytes)
{
    const size_t first = line_bytes(text, bytes);
    const char *const below = text + first;

    if (bytes == 0 || text[0] != '#' || first == bytes)
        return false;
    const char separator = find_separator(below, bytes - first);
    const size_t count = count_in_line(text, first, separator);
    return count == 0 || count != count_in_line(below, bytes - first, separator);
}

void csv_begin(struct csv *csv, const char *text, size_t bytes)
{
    const size_t mark = sizeof(BYTE_ORDER_MARK) - 1;
    size_t begin = bytes >= mark && memcmp(text, BYTE_ORDER_MARK, mark) == 0 ? mark : 0;

    *csv = (struct csv){ .text = text, .bytes = bytes, .line = 1 };
    for (; begins_with_comment(text + begin, bytes - begin); csv->line++)
        begin += line_bytes(text + begin, bytes - begin);
    csv->at = begin;
    if (names_separator(text + begin, bytes - begin)) {
        csv->separator = text[begin + 4];
        csv->at = begin + 5;
    } else {
        csv->separator = find_separator(text + begin, bytes - begin);
    }
    skip_empty_lines(csv);
}

/* Move past the field that ends at `at`, where a separator, a line end or the end of the file must be. */
static int end_field(struct csv *csv, size_t at, struct csv_field *field, struct csv_field *field_out,
                     const char **problem_out)
{
    const size_t end = line_end(csv, at);
    const bool is_last = at == csv->bytes || end > 0;

    if (!is_last && csv->text[at] != csv->separator)
        return csv_refuse("text after a closing quote", problem_out);
    if (memchr(field->text, 0, field->bytes) != NULL)
        return csv_refuse("a zero byte: this is no text in UTF-8", problem_out);
    field->ends_row = is_last;
    csv->line += end > 0;
    csv->at = at + (is_last ? end : 1);
    csv->in_row = !is_last;
    if (is_last)
        skip_empty_lines(csv);
    *field_out = *field;
    return 0;
}

static int next_plain(struct csv *csv, struct csv_field *field_out, const char **problem_out)
{
    size_t at = csv->at;

    while (at < csv->bytes && csv->text[at] != csv->separator && line_end(csv, at) == 0)
        at++;
    struct csv_field field = { .text = csv->text + csv->at, .bytes = at - csv->at };
    return end_field(csv, at, &field, field_out, problem_out);
}

/* A doubled quote stands for one quote; line ends inside quotes belong to the field. */
static int next_quoted(struct csv *csv, struct csv_field *field_out, const char **problem_out)
{
    const size_t begin = csv->at + 1;
    struct csv_field field = { .text = csv->text + begin };
    uint64_t lines = 0;
    size_t at = begin;

    for (; at < csv->bytes; at++) {
        lines += csv->text[at] == '\n';
        if (csv->text[at] != '"')
            continue;
        if (at + 1 == csv->bytes || csv->text[at + 1] != '"')
            break;
        field.has_doubled_quotes = true;
        at++;
    }
    if (at >= csv->bytes)
        return csv_refuse("a quote that is not closed", problem_out);
    field.bytes = at - begin;
    const int rc = end_field(csv, at + 1, &field, field_out, problem_out);
    if (rc == 0)
        csv->line += lines;
    return rc;
}

int csv_next(struct csv *csv, struct csv_field *field_out, const char **problem_out)
{
    if (!csv->in_row && csv->at == csv->bytes)
        return -ENODATA;
    if (csv->at < csv->bytes && csv->text[csv->at] == '"')
        return next_quoted(csv, field_out, problem_out);
    return next_plain(csv, field_out, problem_out);
}

size_t csv_value(const struct csv_field *field, char *out)
{
    size_t bytes = 0;

    for (size_t i = 0; i < field->bytes; i++) {
        out[bytes++] = field->text[i];
        i += field->has_doubled_quotes && field->text[i] == '"';
    }
    return bytes;
}
