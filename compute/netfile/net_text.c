/* Lines, words and values of a text that describes a network. */
#include "compute/netfile/net_text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"

#define BLANKS " \t"

void net_problems_add(struct net_problems *problems, uint32_t line, const char *format, ...)
{
    char problem[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof(problem), format, arguments);
    va_end(arguments);
    problems->count++;
    problems->sink->report(problems->sink->arg, line, problem);
}

/* ---- lines ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* The number of bytes before the comment. */
static size_t bytes_without_comment(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '#' && (i == 0 || is_blank(text[i - 1])))
            return i;
    return bytes;
}

static struct net_line trim_line(const char *text, size_t bytes)
{
    while (bytes > 0 && is_blank(text[0])) {
        text++;
        bytes--;
    }
    while (bytes > 0 && is_blank(text[bytes - 1]))
        bytes--;
    return (struct net_line){ .text = text, .bytes = (uint32_t)bytes, .kind = LINE_EMPTY };
}

static bool check_bytes(const struct net_line *line, uint32_t number, struct net_problems *problems)
{
    if (line->bytes > NET_FILE_LINE_MAX) {
        net_problems_add(problems, number, "the line is longer than %u bytes", NET_FILE_LINE_MAX);
        return false;
    }
    for (uint32_t i = 0; i < line->bytes; i++) {
        const unsigned char byte = (unsigned char)line->text[i];
        if ((byte >= 0x20 && byte < 0x7f) || byte == '\t')
            continue;
        net_problems_add(problems, number, "only a comment may hold the byte 0x%02x", byte);
        return false;
    }
    return true;
}

static const struct { const char *word; enum line_kind kind; } line_words[] = {
    { "model", LINE_HEADER }, { "image", LINE_HEADER }, { "classes", LINE_HEADER }, { "transform", LINE_HEADER },
    { "repeat", LINE_REPEAT }, { "end", LINE_END },
};

/* Find the kind of a line by its first word. */
static enum line_kind find_kind(const struct net_line *line)
{
    uint32_t length = 0;
    while (length < line->bytes && !is_blank(line->text[length]))
        length++;
    for (size_t i = 0; i < sizeof(line_words) / sizeof(*line_words); i++)
        if (strlen(line_words[i].word) == length && memcmp(line_words[i].word, line->text, length) == 0)
            return line_words[i].kind;
    return length == 0 ? LINE_EMPTY : LINE_LAYER;
}

static struct net_line read_line(const char *text, size_t bytes, uint32_t number, struct net_problems *problems)
{
    if (bytes > 0 && text[bytes - 1] == '\r')
        bytes--;
    struct net_line line = trim_line(text, bytes_without_comment(text, bytes));
    line.kind = check_bytes(&line, number, problems) ? find_kind(&line) : LINE_BROKEN;
    return line;
}

/* Match repeats and ends: each end belongs to the last open repeat before it. */
static void match_repeats(struct net_lines *lines, struct net_problems *problems)
{
    uint32_t open[NET_FILE_DEPTH_MAX], depth = 0, beyond = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        const enum line_kind kind = lines->line[i].kind;
        if (kind == LINE_REPEAT && depth == NET_FILE_DEPTH_MAX) {
            net_problems_add(problems, i + 1, "repeats are nested more than %u deep", NET_FILE_DEPTH_MAX);
            beyond++;
        } else if (kind == LINE_REPEAT) {
            open[depth++] = i;
        } else if (kind == LINE_END && beyond > 0) {
            beyond--;
        } else if (kind == LINE_END && depth > 0) {
            lines->line[open[--depth]].end = i;
        } else if (kind == LINE_END) {
            net_problems_add(problems, i + 1, "end without a repeat");
        }
    }
    for (uint32_t i = 0; i < depth; i++)
        net_problems_add(problems, open[i] + 1, "this repeat has no end");
}

static uint32_t count_lines(const char *text, size_t bytes)
{
    uint32_t count = 1;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    return count;
}

int net_lines_split(struct net_lines *lines, const char *text, size_t bytes, struct net_problems *problems)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (bytes >= 3 && memcmp(text, bom, 3) == 0) {
        text += 3;
        bytes -= 3;
    }
    const uint32_t count = count_lines(text, bytes);
    *lines = (struct net_lines){ .line = calloc(count, sizeof(*lines->line)), .count = count };
    if (lines->line == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const char *const end = bytes == 0 ? NULL : memchr(text, '\n', bytes);
        const size_t line_bytes = end == NULL ? bytes : (size_t)(end - text);
        const size_t used = line_bytes + (end != NULL);
        lines->line[i] = read_line(text, line_bytes, i + 1, problems);
        text += used;
        bytes -= used;
    }
    match_repeats(lines, problems);
    return 0;
}

void net_lines_release(struct net_lines *lines)
{
    free(lines->line);
    *lines = (struct net_lines){ .line = NULL };
}

/* ---- words ---- */

bool net_words_split(struct net_words *words)
{
    char *rest = NULL;
    words->count = words->next = 0;
    for (char *word = strtok_r(words->text, BLANKS, &rest); word != NULL; word = strtok_r(NULL, BLANKS, &rest)) {
        if (words->count == NET_WORDS_MAX)
            return false;
        words->word[words->count++] = word;
    }
    return true;
}

const char *net_words_next(struct net_words *words)
{
    return words->next < words->count ? words->word[words->next++] : NULL;
}

/* ---- values ---- */

bool net_read_count(const char *text, uint32_t least, uint32_t *count_out, const char **end_out)
{
    uint64_t count = 0;
    const char *end = text;
    for (; *end >= '0' && *end <= '9' && count <= NET_COUNT_MAX; end++)
        count = 10 * count + (uint64_t)(*end - '0');
    if (end == text || count < least || count > NET_COUNT_MAX)
        return false;
    *count_out = (uint32_t)count;
    *end_out = end;
    return true;
}

bool net_read_whole(const char *text, uint32_t least, uint32_t *count_out)
{
    const char *end;
    return net_read_count(text, least, count_out, &end) && *end == '\0';
}

bool net_read_product(const char *text, uint32_t *count_out)
{
    uint32_t next;
    bool fits = net_read_count(text, 1, &next, &text);
    uint64_t total = next;
    while (fits && (*text == '*' || *text == '/')) {
        const bool divides = *text == '/';
        fits = net_read_count(text + 1, 1, &next, &text) && (!divides || total % next == 0);
        total = !fits ? total : divides ? total / next : total * next;
        fits = fits && total <= NET_COUNT_MAX;
    }
    if (!fits || *text != '\0')
        return false;
    *count_out = (uint32_t)total;
    return true;
}

bool net_read_double(const char *text, double *number_out)
{
    const char *end = decimal_end(text);
    double number = end != NULL ? decimal_read(text) : NAN;
    while (end != NULL && (*end == '*' || *end == '/')) {
        const char *const next = end + 1;
        const double factor = decimal_end(next) != NULL ? decimal_read(next) : NAN;
        number = *end == '*' ? number * factor : number / factor;
        end = decimal_end(next);
    }
    if (end == NULL || *end != '\0' || !isfinite(number))
        return false;
    *number_out = number;
    return true;
}

bool net_read_number(const char *text, float *number_out)
{
    double number;
    if (!net_read_double(text, &number) || !isfinite((float)number))
        return false;
    *number_out = (float)number;
    return true;
}

bool net_name_fits(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(name);
    return length > 0 && length < sizeof(((struct layer *)0)->name) && strspn(name, allowed) == length;
}

bool net_name_is_reserved(const char *name)
{
    static const char *const reserved[] = { "image", "before", "start", "classes" };
    for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
        if (strcmp(reserved[i], name) == 0)
            return true;
    return false;
}
