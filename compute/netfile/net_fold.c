/* Finding repeats. A turn's lines name what they read as seen from there: the line before, what stood in front of the
 * turn, or a layer by its name. Two turns make a pattern, in which the numbers that are one more in the second become
 * the counter; the turns that follow have to be what the pattern gives for their numbers. */
#include "compute/netfile/net_fold.h"

#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_form.h"

#define COUNTER "{i}"
#define COUNTER_DIGITS 6u       /* of a number that may be one */
#define SPENT_LINES 2u          /* a repeat has these besides: "repeat" and "end" */
#define NOT_COUNTED UINT32_MAX  /* no number of the turns counts as yet */

/* ---- lines ---- */

static void add(struct net_row *row, const char *text, size_t bytes)
{
    const size_t used = strlen(row->text), room = sizeof(row->text) - 1 - used;
    const size_t added = bytes < room ? bytes : room;
    memcpy(row->text + used, text, added);
    row->text[used + added] = '\0';
}

static void add_text(struct net_row *row, const char *text)
{
    add(row, text, strlen(text));
}

static uint32_t before(uint32_t layer)
{
    return layer == 0 ? NET_INPUT : layer - 1;
}

/* What a line calls a layer that it reads. */
static const char *name_of(const struct net *net, uint32_t input)
{
    return input == NET_INPUT ? "image" : net->layers[input].name;
}

/* The same in a turn that begins with layer `turn`. */
static const char *name_in_turn(const struct net *net, uint32_t input, uint32_t layer, uint32_t turn)
{
    if (input == before(layer))
        return "before";
    return input == before(turn) ? "start" : name_of(net, input);
}

/* `turn` is NULL outside of repeats. */
static void write_line(const struct net_script *script, uint32_t layer, const uint32_t *turn, struct net_row *row_out)
{
    const struct layer *const what = &script->net->layers[layer];
    const bool reads_before = net_forms[what->kind].most_inputs == 1 && what->inputs[0] == before(layer);
    row_out->text[0] = '\0';
    add_text(row_out, script->front[layer]);
    for (uint32_t i = 0; i < what->input_count && !reads_before; i++) {
        const uint32_t input = what->inputs[i];
        add_text(row_out, i == 0 ? " from " : ",");
        add_text(row_out, turn != NULL ? name_in_turn(script->net, input, layer, *turn) : name_of(script->net, input));
    }
    add_text(row_out, script->rest[layer]);
}

/* ---- patterns ---- */

static size_t digits_at(const char *text)
{
    return strspn(text, "0123456789");
}

/* A number as a counter would print it. */
static bool read_counter(const char *text, size_t digits, uint32_t *number_out)
{
    if (digits > COUNTER_DIGITS || (digits > 1 && text[0] == '0'))
        return false;
    *number_out = (uint32_t)strtoul(text, NULL, 10);
    return true;
}

/* Is the second number one more, and the first where the counter begins? */
static bool counts(const char *a, size_t a_digits, const char *b, size_t b_digits, uint32_t *counts_from)
{
    uint32_t first, second;
    if (!read_counter(a, a_digits, &first) || !read_counter(b, b_digits, &second) || second != first + 1)
        return false;
    if (*counts_from == NOT_COUNTED)
        *counts_from = first;
    return *counts_from == first;
}

/* The line of two turns with the counter in it. False: they differ in something else. */
static bool make_pattern(const char *a, const char *b, uint32_t *counts_from, struct net_row *pattern_out)
{
    pattern_out->text[0] = '\0';
    while (*a != '\0' || *b != '\0') {
        const size_t a_digits = digits_at(a), b_digits = digits_at(b);
        const size_t a_bytes = a_digits > 0 ? a_digits : 1, b_bytes = b_digits > 0 ? b_digits : 1;
        const bool is_same = a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
        if (is_same)
            add(pattern_out, a, a_bytes);
        else if (a_digits > 0 && b_digits > 0 && counts(a, a_digits, b, b_digits, counts_from))
            add_text(pattern_out, COUNTER);
        else
            return false;
        a += a_bytes;
        b += b_bytes;
    }
    return true;
}

/* The pattern with a number for its counter. */
static void fill_pattern(const struct net_row *pattern, uint32_t number, struct net_row *row_out)
{
    char digits[16];
    snprintf(digits, sizeof(digits), "%u", number);
    row_out->text[0] = '\0';
    for (const char *at = pattern->text;;) {
        const char *const counter = strstr(at, COUNTER);
        if (counter == NULL) {
            add_text(row_out, at);
            return;
        }
        add(row_out, at, (size_t)(counter - at));
        add_text(row_out, digits);
        at = counter + strlen(COUNTER);
    }
}

/* ---- repeats ---- */

/* Of a line of the first two turns. */
static bool find_pattern(const struct net_script *script, const struct net_fold *fold, uint32_t line,
                         uint32_t *counts_from, struct net_row *pattern_out)
{
    const uint32_t second = fold->first + fold->lines;
    struct net_row a, b;
    if (script->net->layers[fold->first + line].kind != script->net->layers[second + line].kind)
        return false;
    write_line(script, fold->first + line, &fold->first, &a);
    write_line(script, second + line, &second, &b);
    return make_pattern(a.text, b.text, counts_from, pattern_out);
}

static bool begins_twice(const struct net_script *script, struct net_fold *fold)
{
    struct net_row pattern;
    fold->counts_from = NOT_COUNTED;
    for (uint32_t line = 0; line < fold->lines; line++)
        if (!find_pattern(script, fold, line, &fold->counts_from, &pattern))
            return false;
    return true;
}

/* Is the turn behind all those there are one, too? */
static bool goes_on(const struct net_script *script, const struct net_fold *fold)
{
    const uint32_t next = fold->first + fold->turns * fold->lines;
    if (next + fold->lines > script->net->layer_count)
        return false;
    for (uint32_t line = 0; line < fold->lines; line++) {
        uint32_t counts_from = fold->counts_from;
        struct net_row pattern, expected, row;
        find_pattern(script, fold, line, &counts_from, &pattern);
        fill_pattern(&pattern, fold->counts_from + fold->turns, &expected);
        write_line(script, next + line, &next, &row);
        if (strcmp(row.text, expected.text) != 0)
            return false;
    }
    return true;
}

/* By the share of lines that are written for those there are. */
static bool is_shorter(const struct net_fold *a, const struct net_fold *b)
{
    const uint64_t a_written = a->lines + SPENT_LINES, b_written = b->turns == 1 ? b->lines : b->lines + SPENT_LINES;
    return a_written * b->lines * b->turns < b_written * a->lines * a->turns;
}

struct net_fold net_fold_find(const struct net_script *script, uint32_t first)
{
    struct net_fold best = { .first = first, .lines = 1, .turns = 1 };
    const uint32_t most = (script->net->layer_count - first) / 2;
    for (uint32_t lines = 1; lines <= most; lines++) {
        struct net_fold fold = { .first = first, .lines = lines, .turns = 2 };
        if (!begins_twice(script, &fold))
            continue;
        while (goes_on(script, &fold))
            fold.turns++;
        if (is_shorter(&fold, &best))
            best = fold;
    }
    return best;
}

void net_fold_line(const struct net_script *script, const struct net_fold *fold, uint32_t line, struct net_row *row_out)
{
    uint32_t counts_from = fold->counts_from;
    if (fold->turns == 1)
        write_line(script, fold->first, NULL, row_out);
    else
        find_pattern(script, fold, line, &counts_from, row_out);
}
