/* The files that a pattern with wildcards names, as a shell would find them. */
#ifndef PIPETRAIN_PATTERN_H
#define PIPETRAIN_PATTERN_H

/* Called while a pattern is expanded. */
struct pattern_visitor {
    /* A path that matches, in the order of the directories. 0 to go on. */
    int (*found)(void *arg, const char *path);
    /* What is at this path cannot be looked at, or is a directory that cannot be read; error is a positive
     * errno. 0 to go on without it. */
    int (*unlisted)(void *arg, const char *path, int error);
    void *arg;
};

/* Visit all that is there under a name that matches: *, ?, [...] and \ in each part between slashes, a
 * leading dot only by a dot. Directories that are not there have no names. 0, the first other result of the
 * visitor, or -ENAMETOOLONG. Blocks on the file system. */
int pattern_expand(const char *pattern, const struct pattern_visitor *visitor);

/* Cut the first pattern off a row of them: all up to a comma, without the blanks around it. A comma behind a
 * backslash is one of the pattern's, which loses the backslash. Writes into `*rest` and moves it on; NULL when
 * nothing is left, which is then NULL. The pattern may be empty. */
char *pattern_cut(char **rest);
/* What a pattern that names nothing holds that shells and other programs expand, and pattern_expand does not; "" where
 * there is nothing of that kind. */
const char *pattern_hint(const char *pattern);

#endif
