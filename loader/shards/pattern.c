/* Expands patterns component by component. Called while a data set is opened. Not done with the C library's glob
 * (2.36): it has a double free when out of memory, and does not report why a directory cannot be read. */
#include "loader/shards/pattern.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* path[0, length) is the expansion of the components before `rest`; unless empty, it ends with a slash. */
struct search {
    const struct pattern_visitor *visitor;
    char path[PATH_MAX];
};

static int pattern_expand_part(struct search *search, size_t length, const char *rest);
static int pattern_unlisted(struct search *search, size_t length, int error);

static bool has_wildcard(const char *part, size_t bytes)
{
    return strcspn(part, "*?[\\") < bytes;
}

static bool pattern_append(struct search *search, size_t length, const char *text, size_t bytes)
{
    if (length + bytes >= sizeof(search->path))
        return false;
    memcpy(search->path + length, text, bytes);
    search->path[length + bytes] = '\0';
    return true;
}

/* Continue after a component that was expanded to `name`, which exists if it was listed. In the pattern, `slashes`
 * follow it. */
static int pattern_enter(struct search *search, size_t length, const char *name, size_t name_bytes,
                         const char *slashes, bool is_listed)
{
    const size_t slash_bytes = strspn(slashes, "/");
    struct stat status;
    if (!pattern_append(search, length, name, name_bytes) ||
        !pattern_append(search, length + name_bytes, slashes, slash_bytes))
        return -ENAMETOOLONG;
    length += name_bytes + slash_bytes;
    if (slashes[slash_bytes] != '\0')
        return pattern_expand_part(search, length, slashes + slash_bytes);
    if ((is_listed && slash_bytes == 0) || lstat(search->path, &status) == 0)
        return search->visitor->found(search->visitor->arg, search->path);
    return pattern_unlisted(search, length, errno);
}

/* Report a path that cannot be examined. Dangling and circular links are ignored. */
static int pattern_unlisted(struct search *search, size_t length, int error)
{
    while (length > 1 && search->path[length - 1] == '/')
        length--;
    search->path[length] = '\0';
    return error == ENOENT || error == ENOTDIR || error == ELOOP
               ? 0
               : search->visitor->unlisted(search->visitor->arg, length > 0 ? search->path : ".", error);
}

/* Visit the names in a directory that match the component. */
static int pattern_list(struct search *search, size_t length, DIR *folder, const char *part, const char *slashes)
{
    int rc = 0;
    errno = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL && rc == 0; entry = readdir(folder)) {
        if (fnmatch(part, entry->d_name, FNM_PERIOD) == 0)
            rc = pattern_enter(search, length, entry->d_name, strlen(entry->d_name), slashes, true);
        errno = 0;
    }
    return rc == 0 && errno != 0 ? pattern_unlisted(search, length, errno) : rc;
}

static int pattern_match(struct search *search, size_t length, const char *rest, size_t bytes)
{
    char part[NAME_MAX + 1];
    if (bytes >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, rest, bytes);
    part[bytes] = '\0';
    DIR *const folder = opendir(length > 0 ? search->path : ".");
    if (folder == NULL)
        return pattern_unlisted(search, length, errno);
    const int rc = pattern_list(search, length, folder, part, rest + bytes);
    closedir(folder);
    return rc;
}

static int pattern_expand_part(struct search *search, size_t length, const char *rest)
{
    const size_t bytes = strcspn(rest, "/");
    return has_wildcard(rest, bytes) ? pattern_match(search, length, rest, bytes)
                                     : pattern_enter(search, length, rest, bytes, rest + bytes, false);
}

int pattern_expand(const char *pattern, const struct pattern_visitor *visitor)
{
    struct search search = { .visitor = visitor };
    return *pattern != '\0' ? pattern_expand_part(&search, 0, pattern) : 0;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(" \t", text[bytes - 1]) != NULL)
        bytes--;
    text[bytes] = '\0';
    return text;
}

char *pattern_cut(char **rest)
{
    char *const pattern = *rest, *out = pattern;
    if (pattern == NULL)
        return NULL;
    const char *in = pattern;
    for (; *in != '\0' && *in != ','; in++) {
        if (in[0] == '\\' && in[1] == ',')
            in++;
        else if (in[0] == '\\' && in[1] != '\0')
            *out++ = *in++;
        *out++ = *in;
    }
    *rest = *in == ',' ? pattern + (in - pattern) + 1 : NULL;
    *out = '\0';
    return trim(pattern);
}

static const char *find_hint(const char *pattern)
{
    static const struct { const char *text, *hint; bool is_at_begin; } rows[] = {
        { "~", "; ~ is not expanded: write the path of the home directory", true },
        { "://", "; addresses are not read: copy the files to this machine or mount them", false },
        { "$", "; variables are not expanded: write what they stand for", false },
        { "{", "; {a,b} and {1..3} are not expanded: use *, [1-3], or several patterns with commas", false },
        { "}", "; {a,b} is not expanded: use *, [ab], or several patterns with commas", false },
        { "**", "; ** matches within one directory, as * does: write a * for each level", false },
        { "%]", "; slices as in TensorFlow Datasets are not read: use data.validation_split or data.limit", false },
        { "[:", "; slices as in TensorFlow Datasets are not read: use data.validation_split or data.limit", false },
        { ":]", "; slices as in TensorFlow Datasets are not read: use data.validation_split or data.limit", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *const found = strstr(pattern, rows[i].text);
        if (found != NULL && (!rows[i].is_at_begin || found == pattern))
            return rows[i].hint;
    }
    return NULL;
}

/* Find the first component of the pattern that has a special character and is also the literal name of a file or
 * folder. Returns its end in the pattern, or 0. */
static size_t find_literal(const char *pattern)
{
    char path[PATH_MAX];
    struct stat status;
    for (size_t end = 0; pattern[end] != '\0' && end < sizeof(path) - 1;) {
        const size_t begin = end + (pattern[end] == '/');
        end = begin + strcspn(pattern + begin, "/");
        if (end >= sizeof(path))
            return 0;
        memcpy(path, pattern, end);
        path[end] = '\0';
        if (has_wildcard(pattern + begin, end - begin) && stat(path, &status) == 0)
            return end;
    }
    return 0;
}

/* Write how to quote such a name: "; [ is special in a pattern: for this name write set \[v2]/train-*". */
static bool explain_literal(const char *pattern, char *text, size_t text_size)
{
    const size_t end = find_literal(pattern);
    size_t length =
        (size_t)snprintf(text, text_size, "; * ? [ and \\ are special in a pattern: for the name itself write ");
    if (end == 0)
        return false;
    for (size_t i = 0; pattern[i] != '\0' && length + 3 < text_size; i++) {
        if (i < end && strchr("*?[]\\", pattern[i]) != NULL)
            text[length++] = '\\';
        text[length++] = pattern[i];
    }
    text[length] = '\0';
    return true;
}

void pattern_explain(const char *pattern, char *text_out, size_t text_size)
{
    char folder[PATH_MAX];
    const char *const hint = find_hint(pattern);
    if (explain_literal(pattern, text_out, text_size))
        return;
    if (hint != NULL)
        snprintf(text_out, text_size, "%s", hint);
    else if (pattern[0] != '/' && getcwd(folder, sizeof(folder)) != NULL)
        snprintf(text_out, text_size, " in the current folder, %s, to which paths are relative", folder);
    else
        *text_out = '\0';
}
