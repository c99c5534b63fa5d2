/* Class names: lists are read while a data set is opened; decoders look names up. Pure functions, any thread. */
#include "formats/class_names.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lines of a list, zero-terminated; empty lines are left out. */
struct lines {
    char **at;
    uint32_t count;
};

static char *end_line(char *line, char *end)
{
    char *const newline = memchr(line, '\n', (size_t)(end - line));
    char *const last = newline != NULL ? newline : end;
    *last = '\0';
    if (last > line && last[-1] == '\r')
        last[-1] = '\0';
    return last + 1;
}

/* Split the text into lines. The text has room for a zero after its end. */
static int cut_lines(struct lines *lines, char *text, size_t bytes)
{
    char *const end = text + bytes;
    size_t room = 2;            /* capacity, including one for an unnamed class 0 */
    for (size_t i = 0; i < bytes; i++)
        room += text[i] == '\n';
    lines->at = calloc(room, sizeof(*lines->at));
    if (lines->at == NULL)
        return -ENOMEM;
    for (char *line = text; line < end;) {
        char *const next = end_line(line, end);
        if (*line != '\0')
            lines->at[lines->count++] = line;
        line = next;
    }
    return 0;
}

/* Read the number before the first colon of a line. Returns the name after the colon, or NULL. */
static const char *read_index(const char *line, uint32_t *index_out)
{
    uint32_t index = 0;
    const char *at = line;
    for (; *at >= '0' && *at <= '9' && index <= CLASS_NAMES_MAX; at++)
        index = index * 10 + (uint32_t)(*at - '0');
    if (at == line || *at != ':' || index >= CLASS_NAMES_MAX)
        return NULL;
    *index_out = index;
    return at + 1;
}

/* The highest index plus 1; 0 if a line has no index. */
static uint32_t count_indexes(const struct lines *lines)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        uint32_t index;
        if (read_index(lines->at[i], &index) == NULL)
            return 0;
        if (index >= count)
            count = index + 1;
    }
    return count;
}

/* In lists with numbers, a name may have line ends, escaped as \x0a and \x0d. */
static void unescape(char *name)
{
    char *out = name;
    for (const char *at = name; *at != '\0'; out++) {
        const bool is_escape = strncmp(at, "\\x0a", 4) == 0 || strncmp(at, "\\x0d", 4) == 0;
        *out = is_escape ? at[3] == 'a' ? '\n' : '\r' : *at;
        at += is_escape ? 4 : 1;
    }
    *out = '\0';
}

/* If every name begins with a blank ("0: cat"), the blanks are no part of the names. */
static void leave_out_blanks(struct class_names *names)
{
    uint32_t i = 0;
    while (i < names->count && (names->names[i][0] == ' ' || names->names[i][0] == '\0'))
        i++;
    for (uint32_t c = 0; i == names->count && c < i; c++)
        names->names[c] += strspn(names->names[c], " ");
}

static int take_indexed(struct class_names *names, const struct lines *lines, char *problem, size_t problem_size)
{
    for (uint32_t i = 0; i < lines->count; i++) {
        uint32_t index = 0;
        char *const name = lines->at[i] + (read_index(lines->at[i], &index) - lines->at[i]);
        if (names->names[index] != NULL) {
            snprintf(problem, problem_size, "names class %" PRIu32 " twice", index);
            return -EBADMSG;
        }
        unescape(name);
        names->names[index] = name;
    }
    for (uint32_t i = 0; i < names->count; i++)
        if (names->names[i] == NULL)
            names->names[i] = "";
    leave_out_blanks(names);
    return 0;
}

/* Read the number of a line "NUMBER NAME", up to `most`. Returns the name, or NULL. */
static char *skip_number(char *line, uint32_t most, uint32_t *number_out)
{
    char *end = line;
    const unsigned long number = *line >= '0' && *line <= '9' ? strtoul(line, &end, 10) : ULONG_MAX;
    if (number > most || (*end != ' ' && *end != '\t'))
        return NULL;
    end += strspn(end, " \t");
    *number_out = (uint32_t)number;
    return *end != '\0' ? end : NULL;
}

static int text_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool are_different(char **texts, uint32_t count)
{
    uint32_t different = 1;
    qsort(texts, count, sizeof(*texts), text_compare);
    while (different < count && strcmp(texts[different], texts[different - 1]) != 0)
        different++;
    return different >= count;
}

/* Sort the names of lines "NUMBER NAME" by their numbers. True if the numbers are 0 to count - 1, or 1 to count. */
static bool number_names(const struct lines *lines, char **by_number)
{
    for (uint32_t i = 0, number; i < lines->count; i++) {
        char *const name = skip_number(lines->at[i], lines->count, &number);
        if (name == NULL || by_number[number] != NULL)
            return false;
        by_number[number] = name;
    }
    return by_number[0] == NULL || by_number[lines->count] == NULL;
}

/* Read lines "NUMBER NAME" as NUMBER:NAME if every class has such a line. If names would be equal without the numbers,
 * as in "0 people", "1 people", the numbers are parts of the names. */
static int leave_out_numbers(struct lines *lines)
{
    static char nameless[] = "";
    const uint32_t count = lines->count;
    char **const by_number = calloc(2 * ((size_t)count + 1), sizeof(*by_number));
    char **const sorted = by_number + count + 1;
    if (by_number == NULL)
        return -ENOMEM;
    if (number_names(lines, by_number)) {
        const uint32_t first = by_number[0] == NULL;
        memcpy(sorted, by_number + first, count * sizeof(*sorted));
        if (are_different(sorted, count)) {
            by_number[0] = first > 0 ? nameless : by_number[0];
            lines->count = count + first;
            memcpy(lines->at, by_number, lines->count * sizeof(*by_number));
        }
    }
    free(by_number);
    return 0;
}

static int take_lines(struct class_names *names, const struct lines *lines, char *problem, size_t problem_size)
{
    const uint32_t indexed = count_indexes(lines);
    names->count = indexed > 0 ? indexed : lines->count;
    names->names = calloc(names->count, sizeof(*names->names));
    names->by_name = calloc(names->count, sizeof(*names->by_name));
    if (names->names == NULL || names->by_name == NULL)
        return -ENOMEM;
    if (indexed > 0)
        return take_indexed(names, lines, problem, problem_size);
    memcpy(names->names, lines->at, lines->count * sizeof(*lines->at));
    return 0;
}

static int class_compare(const void *a, const void *b, void *arg)
{
    const struct class_names *const names = arg;
    return strcmp(names->names[*(const uint32_t *)a], names->names[*(const uint32_t *)b]);
}

static void sort(struct class_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        names->by_name[i] = i;
    qsort_r(names->by_name, names->count, sizeof(*names->by_name), class_compare, names);
}

/* The length of the UTF-8 byte order mark that some editors write; 0 if there is none. */
static size_t skip_mark(const char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* ---- files that are not lists of names ---- */

static bool begins_with(const char *line, const char *text)
{
    return strncmp(line, text, strlen(text)) == 0;
}

/* Does the line show that the file is no list of names? True for lines of TensorFlow label maps and of YOLO's YAML
 * files, and for comments. "#" alone may be the name of a class. */
static bool is_other_line(const char *line)
{
    static const char *const comments[] = { "# ", "#\t", "##", "// ", "---" };
    for (size_t i = 0; i < sizeof(comments) / sizeof(comments[0]); i++)
        if (begins_with(line, comments[i]))
            return true;
    const bool is_map = begins_with(line, "item") && line[4 + strspn(line + 4, " \t")] == '{';
    const bool is_count = begins_with(line, "nc:") && line[3 + strspn(line + 3, " \t0123456789")] == '\0';
    return is_map || is_count || begins_with(line, "names:");
}

/* Is the file JSON, a Python list, XML or a web page, or does it begin with a comment? A first line with # is a name if
 * the second line begins with #, too. */
static bool is_other_beginning(const struct lines *lines)
{
    const char *const first = lines->at[0], *const after = first + 1 + strspn(first + 1, " \t");
    const bool is_array = *first == '[' && strchr("\"'", *after) != NULL;
    const bool is_comment = *first == '#' && first[1] != '\0' && lines->count > 1 && *lines->at[1] != '#';
    return *first == '{' || is_array || is_comment || begins_with(first, "<!") || begins_with(first, "<?") ||
           begins_with(first, "<html");
}

/* A list item of YAML, JSON or Python: "- cat", "'cat'," or "\"cat\"". */
static bool is_item(const char *line)
{
    const size_t bytes = strlen(line), last = bytes - (bytes > 1 && line[bytes - 1] == ',');
    return begins_with(line, "- ") || (last > 1 && strchr("\"'", *line) != NULL && line[last - 1] == *line);
}

/* A row of a table: "0,cat", "0;cat" or "cat,0". */
static bool is_row(const char *line)
{
    const char *const comma = strrchr(line, ',');
    const size_t digits = strspn(line, "0123456789");
    return (digits > 0 && line[digits] != '\0' && strchr(",;|", line[digits]) != NULL) ||
           (comma != NULL && comma[1] != '\0' && comma[1 + strspn(comma + 1, " 0123456789")] == '\0');
}

/* Does the line have a tab between two columns? */
static bool has_columns(const char *line)
{
    const char *const tab = strchr(line + strspn(line, " \t"), '\t');
    return tab != NULL && tab[strspn(tab, " \t")] != '\0';
}

/* Is it a header and numbered rows: "id name", "0 cat", "1 dog", ...? */
static bool is_numbered_table(const struct lines *lines)
{
    uint32_t i = 1, number, before = 0;
    if (lines->count < 3 || skip_number(lines->at[0], UINT32_MAX, &number) != NULL ||
        skip_number(lines->at[1], 1, &before) == NULL)
        return false;
    while (i + 1 < lines->count && skip_number(lines->at[i + 1], UINT32_MAX, &number) != NULL && number == before + i)
        i++;
    return i + 1 == lines->count;
}

/* Do all lines from line `from` on have the form? */
static bool are_all(const struct lines *lines, uint32_t from, bool (*is_form)(const char *line))
{
    while (from < lines->count && is_form(lines->at[from]))
        from++;
    return from == lines->count;
}

/* The first line of a table may have the names of the columns. A single line with commas is a list of several classes,
 * not one name. */
static bool is_other_format(const struct lines *lines)
{
    for (uint32_t i = 0; i < lines->count; i++)
        if (is_other_line(lines->at[i]))
            return true;
    const uint32_t header = lines->count > 1 && strpbrk(lines->at[0], ",;|") != NULL;
    return is_numbered_table(lines) || is_other_beginning(lines) || are_all(lines, 0, is_item) ||
           are_all(lines, header, is_row) || (lines->count == 1 && strchr(lines->at[0], ',') != NULL);
}

/* A name may have a tab only if class numbers are written before the names. */
static bool is_table(const struct lines *lines)
{
    uint32_t i = 0;
    while (i < lines->count && !has_columns(lines->at[i]))
        i++;
    return i < lines->count && count_indexes(lines) == 0;
}

static int refuse_format(char *problem, size_t problem_size)
{
    snprintf(problem, problem_size, "is no list of names, or has lines of something else: write one name a line, or "
             "NUMBER:NAME, without comments, quotes or columns");
    return -EBADMSG;
}

/* Read the number, at most `most`, after a name: "cat: 2", "cat=2" or "cat 2". Returns the length of the name, or 0. */
static size_t read_number_behind(const char *line, uint32_t most, uint32_t *number_out)
{
    size_t begin = strlen(line);
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
        begin--;
    const unsigned long number = line[begin] != '\0' ? strtoul(line + begin, NULL, 10) : ULONG_MAX;
    if (begin == 0 || number > most || strchr(":= \t", line[begin - 1]) == NULL)
        return 0;
    while (begin > 0 && strchr(":= \t", line[begin - 1]) != NULL)
        begin--;
    *number_out = (uint32_t)number;
    return begin;
}

/* Refuse the list if the numbers after the names seem to be the numbers of the classes: 0 to count - 1 or 1 to count,
 * in any order, after names that differ. "character 1", "character 2" are names with numbers. 0, -EBADMSG or
 * -ENOMEM. */
static int check_numbers_behind(const struct lines *lines, char *problem, size_t problem_size)
{
    bool *const is_there = calloc((size_t)lines->count + 1, sizeof(*is_there));
    bool are_alike = true;
    uint32_t i = 0, number = 0;
    size_t before = 0;
    if (is_there == NULL)
        return -ENOMEM;
    for (; i < lines->count; i++) {
        const size_t bytes = read_number_behind(lines->at[i], lines->count, &number);
        if (bytes == 0 || is_there[number])
            break;
        is_there[number] = true;
        are_alike = are_alike && (i == 0 || (bytes == before && strncmp(lines->at[i], lines->at[i - 1], bytes) == 0));
        before = bytes;
    }
    const bool are_classes = i == lines->count && !(is_there[0] && is_there[lines->count]) && !are_alike;
    free(is_there);
    return are_classes ? refuse_format(problem, problem_size) : 0;
}

static int read_lines(struct class_names *names, size_t bytes, char *problem, size_t problem_size)
{
    struct lines lines = { NULL, 0 };
    int rc = cut_lines(&lines, names->text, bytes);
    if (rc == 0 && lines.count > 0 && is_other_format(&lines)) {
        rc = refuse_format(problem, problem_size);
    } else if (rc == 0 && lines.count == 0) {
        snprintf(problem, problem_size, "names no class");
        rc = -EBADMSG;
    } else if (rc == 0 && lines.count > CLASS_NAMES_MAX) {
        snprintf(problem, problem_size, "names %" PRIu32 " classes, more than %" PRIu32, lines.count, CLASS_NAMES_MAX);
        rc = -EBADMSG;
    }
    if (rc == 0 && count_indexes(&lines) == 0)
        rc = check_numbers_behind(&lines, problem, problem_size);
    if (rc == 0)
        rc = leave_out_numbers(&lines);
    if (rc == 0 && is_table(&lines))
        rc = refuse_format(problem, problem_size);
    if (rc == 0)
        rc = take_lines(names, &lines, problem, problem_size);
    free(lines.at);
    return rc;
}

int class_names_read(struct class_names *names_out, const char *text, size_t bytes, char *problem_out,
                     size_t problem_size)
{
    if (bytes > CLASS_NAMES_BYTES_MAX || memchr(text, '\0', bytes) != NULL) {
        snprintf(problem_out, problem_size, "is no text of names");
        return -EBADMSG;
    }
    struct class_names names = { .text = malloc(bytes + 1) };
    if (names.text == NULL)
        return -ENOMEM;
    const size_t mark = skip_mark(text, bytes);
    memcpy(names.text, text + mark, bytes - mark);
    const int rc = read_lines(&names, bytes - mark, problem_out, problem_size);
    if (rc < 0) {
        class_names_release(&names);
        return rc;
    }
    sort(&names);
    *names_out = names;
    return 0;
}

int class_names_make(struct class_names *names_out, const char *const *list, uint32_t count, int32_t shift)
{
    struct class_names names = { 0 };
    size_t bytes = 1;
    const uint32_t dropped = shift < 0 ? 0 - (uint32_t)shift : 0, unnamed = shift > 0 ? (uint32_t)shift : 0;
    const uint32_t first = dropped < count ? dropped : count;
    for (uint32_t i = first; i < count; i++)
        bytes += strlen(list[i]) + 1;
    names.count = count > first ? unnamed + count - first : 0;
    names.text = calloc(1, bytes);
    names.names = calloc((size_t)names.count + 1, sizeof(*names.names));
    names.by_name = calloc((size_t)names.count + 1, sizeof(*names.by_name));
    if (names.text == NULL || names.names == NULL || names.by_name == NULL) {
        class_names_release(&names);
        return -ENOMEM;
    }
    char *at = names.text;
    for (uint32_t c = 0; c < names.count; c++) {
        const char *const name = c < unnamed ? "" : list[first + c - unnamed];
        names.names[c] = c < unnamed ? names.text + bytes - 1 : at;
        at = c < unnamed ? at : stpcpy(at, name) + 1;
    }
    sort(&names);
    *names_out = names;
    return 0;
}

/* As strcmp, but the first string has a length instead of a terminating zero. */
static int name_compare(const uint8_t *name, size_t bytes, const char *other)
{
    const size_t other_bytes = strlen(other);
    const size_t shorter = bytes < other_bytes ? bytes : other_bytes;
    const int order = shorter > 0 ? memcmp(name, other, shorter) : 0;
    return order != 0 ? order : (bytes > other_bytes) - (bytes < other_bytes);
}

/* Binary search: the first place in by_name whose name is not less than `name`. */
static uint32_t find_place(const struct class_names *names, const uint8_t *name, size_t bytes)
{
    uint32_t low = 0, high = names->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (name_compare(name, bytes, names->names[names->by_name[middle]]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_named(const struct class_names *names, uint32_t place, const uint8_t *name, size_t bytes)
{
    return place < names->count && name_compare(name, bytes, names->names[names->by_name[place]]) == 0;
}

int class_names_find(const struct class_names *names, const uint8_t *name, size_t bytes, uint32_t *class_out)
{
    const uint32_t place = find_place(names, name, bytes);
    if (bytes == 0 || !is_named(names, place, name, bytes))
        return -ENOENT;
    if (is_named(names, place + 1, name, bytes))
        return -ENOTUNIQ;
    *class_out = names->by_name[place];
    return 0;
}

bool class_names_differ(const struct class_names *a, const struct class_names *b)
{
    for (uint32_t c = 0; c < a->count && c < b->count; c++)
        if (*a->names[c] != '\0' && *b->names[c] != '\0' && strcmp(a->names[c], b->names[c]) != 0)
            return true;
    return false;
}

void class_names_release(struct class_names *names)
{
    free(names->text);
    free(names->names);
    free(names->by_name);
    *names = (struct class_names){ 0 };
}
