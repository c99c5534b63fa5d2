/* Expansion of patterns with wildcards, as in a shell. */
#ifndef PIPETRAIN_PATTERN_H
#define PIPETRAIN_PATTERN_H

#include <stddef.h>

struct pattern_visitor {
    /* A path that matches; not sorted. Returns 0 to continue. */
    int (*found)(void *arg, const char *path);
    /* A path that cannot be examined, or a directory that cannot be read; error is a positive errno. Returns 0 to
     * continue without it. */
    int (*unlisted)(void *arg, const char *path, int error);
    void *arg;
};

/* Visit all existing paths that match: *, ?, [...] and \ in each part between slashes; a leading dot only matches a
 * dot. 0, the first other result of the visitor, or -ENAMETOOLONG. */
int pattern_expand(const char *pattern, const struct pattern_visitor *visitor);

/* Split off the first of several patterns separated by commas, without blanks around it. A comma after a backslash
 * belongs to the pattern; the backslash is removed. Modifies the text at *rest and moves *rest past the comma; *rest
 * becomes NULL after the last pattern, and then the result is NULL. The pattern may be empty. */
char *pattern_cut(char **rest);
/* For a pattern that matches nothing: what shells or others expand and pattern_expand does not; how to write a name
 * with special characters that exists; where a relative pattern was looked for; or "". It follows "no file matches". */
void pattern_explain(const char *pattern, char *text_out, size_t text_size);

#endif
