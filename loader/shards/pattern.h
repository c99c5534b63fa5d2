/* Expansion of patterns with wildcards, as in a shell. */
#ifndef PIPETRAIN_PATTERN_H
#define PIPETRAIN_PATTERN_H

#include <stddef.h>

struct pattern_visitor {
    /* Called with a matching path, in no particular order. Returns 0 to continue. */
    int (*found)(void *arg, const char *path);
    /* Called with a path that cannot be examined, or a directory that cannot be read; error is a positive errno.
     * Returns 0 to continue without it. */
    int (*unlisted)(void *arg, const char *path, int error);
    void *arg;
};

/* Visit all existing paths that match. A pattern may have *, ?, [...] and \ in each component; a leading dot is matched
 * only by a dot. 0, the first nonzero result of the visitor, or -ENAMETOOLONG. */
int pattern_expand(const char *pattern, const struct pattern_visitor *visitor);

/* Split off the first of several comma-separated patterns, without blanks around it. A comma after a backslash belongs
 * to the pattern; the backslash is removed. Modifies the text at *rest and advances *rest past the comma. After the
 * last pattern *rest is NULL, and then the result is NULL. A pattern may be empty. */
char *pattern_cut(char **rest);
/* Explain why a pattern matches nothing: it has something that shells or other programs expand but pattern_expand does
 * not; a name with special characters exists and has to be quoted; or the directory in which a relative pattern was
 * expanded. The text follows "no file matches"; it may be "". */
void pattern_explain(const char *pattern, char *text_out, size_t text_size);

#endif
