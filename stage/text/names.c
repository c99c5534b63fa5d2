/* Names that users type. */
#include "stage/text/names.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdint.h>
#include <string.h>

/* ---- patterns ---- */

#define SEPARATORS " \t,"

bool patterns_next(const char **at, char pattern_out[PATTERN_BYTES])
{
    const char *const begin = *at + strspn(*at, SEPARATORS);
    const size_t bytes = strcspn(begin, SEPARATORS), kept = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES - 1;
    memcpy(pattern_out, begin, kept);
    pattern_out[kept] = '\0';
    *at = begin + bytes;
    return bytes > 0;
}

bool pattern_matches(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

bool patterns_match(const char *patterns, const char *name)
{
    char pattern[PATTERN_BYTES];
    while (patterns_next(&patterns, pattern))
        if (pattern_matches(pattern, name))
            return true;
    return false;
}

/* ---- numbers in names ---- */

static size_t digits_at(const char *text, size_t bytes, size_t at)
{
    size_t digits = 0;

    while (at + digits < bytes && text[at + digits] >= '0' && text[at + digits] <= '9')
        digits++;
    return digits;
}

bool names_differ_in_numbers(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t i = 0, k = 0;

    for (;; i++, k++) {
        const size_t digits_a = digits_at(a, a_bytes, i), digits_b = digits_at(b, b_bytes, k);
        if ((digits_a > 0) != (digits_b > 0))
            return false;
        i += digits_a;
        k += digits_b;
        if (i == a_bytes || k == b_bytes)
            return i == a_bytes && k == b_bytes;
        if (a[i] != b[k])
            return false;
    }
}

/* ---- the nearest name ---- */

#define NAME_MAX_BYTES 64u      /* longer names match no other name */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edit distance with transpositions of neighbouring characters (optimal string alignment). */
size_t nearest_distance(const char *a, const char *b)
{
    const size_t rows = strlen(a), columns = strlen(b);
    if (rows > NAME_MAX_BYTES || columns > NAME_MAX_BYTES)
        return SIZE_MAX;
    size_t cost[NAME_MAX_BYTES + 1][NAME_MAX_BYTES + 1];
    for (size_t i = 0; i <= rows; i++)
        cost[i][0] = i;
    for (size_t j = 0; j <= columns; j++)
        cost[0][j] = j;
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j <= columns; j++) {
            const size_t change = cost[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
            cost[i][j] = least(change, 1 + least(cost[i - 1][j], cost[i][j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    return cost[rows][columns];
}

void nearest_offer(struct nearest *nearest, const char *candidate, const void *what)
{
    const size_t distance = nearest_distance(nearest->name, candidate);
    const size_t likely = 1 + strlen(nearest->name) / 4;
    if (distance > likely || distance >= strlen(candidate))
        return;
    const bool drops = strlen(candidate) > strlen(nearest->name);
    if (nearest->best == NULL || distance < nearest->distance ||
        (distance == nearest->distance && drops && !nearest->drops)) {
        nearest->best = what;
        nearest->distance = distance;
        nearest->drops = drops;
    }
}
