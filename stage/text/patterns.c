/* Patterns of names. */
#include "stage/text/patterns.h"

#include <fnmatch.h>
#include <string.h>

#define BETWEEN " \t,"

bool patterns_next(const char **at, char pattern_out[PATTERN_BYTES])
{
    const char *const begin = *at + strspn(*at, BETWEEN);
    const size_t bytes = strcspn(begin, BETWEEN), kept = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES - 1;
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
