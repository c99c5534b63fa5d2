/* The shard files of a set. Called while it is opened. */
#include "loader/dataset_shards.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/opening/split_folder.h"
#include "loader/shards/pattern.h"
#include "loader/shards/text.h"

/* A set whose files are being found. */
struct finding {
    struct shard_list list;
    const char *patterns, *what;
    struct shard_counts *counts;
    struct text *problems;
};

static int report(const struct finding *finding, const char *path, const char *text, const char *other)
{
    text_line(finding->problems);
    text_add(finding->problems, "%s: ", finding->what);
    text_add_escaped(finding->problems, path);
    text_add(finding->problems, ": %s", text);
    text_add_escaped(finding->problems, other);
    return -EINVAL;
}

static int add_pattern(struct finding *finding, const char *pattern)
{
    struct shard_list found = { 0 };
    int rc = split_folder_find(&found, finding->counts, pattern, finding->what, finding->problems);
    if (rc == -ENOTSUP)
        rc = shard_list_find(&found, pattern, finding->what, finding->problems);
    if (rc == 0)
        rc = shard_counts_add_absent(finding->counts, &found);
    if (rc == 0)
        rc = shard_list_join(&finding->list, &found);
    shard_list_release(&found);
    return rc;
}

static int add_part(struct finding *finding, const char *pattern)
{
    if (*pattern == '\0')
        return report(finding, finding->patterns, "nothing is named before or behind a comma", "");
    return add_pattern(finding, pattern);
}

/* The first error; the patterns behind it are tried all the same, so that all problems are told. */
static int add_patterns(struct finding *finding, char *rest)
{
    int first = 0;
    for (const char *pattern = pattern_cut(&rest); pattern != NULL && first != -ENOMEM; pattern = pattern_cut(&rest)) {
        const int rc = add_part(finding, pattern);
        if (rc == -ENOMEM || first == 0)
            first = rc;
    }
    return first;
}

struct named_file {
    dev_t device;
    ino_t inode;
    uint32_t place;     /* in the list */
};

static int named_file_compare(const void *a, const void *b)
{
    const struct named_file *const one = a, *const other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    if (one->inode != other->inode)
        return one->inode < other->inode ? -1 : 1;
    return (one->place > other->place) - (one->place < other->place);
}

/* Of those that are there, sorted; their count. */
static uint32_t identify(struct named_file *files, const struct shard_list *list)
{
    uint32_t count = 0;
    struct stat status;
    for (uint32_t i = 0; i < list->count; i++)
        if (stat(list->paths[i], &status) == 0)
            files[count++] = (struct named_file){ status.st_dev, status.st_ino, i };
    qsort(files, count, sizeof(*files), named_file_compare);
    return count;
}

/* A file that two patterns name would be trained on twice as often as the others. */
static int check_named_once(const struct finding *finding)
{
    const struct shard_list *const list = &finding->list;
    struct named_file *const files = calloc(list->count, sizeof(*files));
    if (files == NULL)
        return -ENOMEM;
    const uint32_t count = identify(files, list);
    int rc = 0;
    for (uint32_t i = 1; i < count && rc == 0; i++)
        if (files[i].device == files[i - 1].device && files[i].inode == files[i - 1].inode)
            rc = report(finding, list->paths[files[i].place],
                        "is named twice: the same file as ", list->paths[files[i - 1].place]);
    free(files);
    return rc;
}

static int find_each(struct finding *finding)
{
    char *const text = strdup(finding->patterns);
    if (text == NULL)
        return -ENOMEM;
    int rc = add_patterns(finding, text);
    if (rc == 0)
        rc = check_named_once(finding);
    free(text);
    return rc;
}

int dataset_shards_find(struct shard_list *list_out, const char *patterns, const char *what,
                        struct shard_counts *counts, struct text *problems)
{
    struct finding finding = { .patterns = patterns, .what = what, .counts = counts, .problems = problems };
    const bool is_one = strchr(patterns, ',') == NULL || access(patterns, F_OK) == 0;
    const int rc = is_one ? add_pattern(&finding, patterns) : find_each(&finding);
    if (rc < 0)
        shard_list_release(&finding.list);
    else
        *list_out = finding.list;
    return rc;
}

/* ---- what the manifest says ---- */

static int keep_first(void *arg, const char *path)
{
    char *const first = arg;
    snprintf(first, PATH_MAX, "%s", path);
    return 1;
}

static int pass_unlisted(void *arg, const char *path, int error)
{
    (void)arg, (void)path, (void)error;
    return 0;
}

/* A path that the pattern names, of DIRECTORY:SPLIT the directory; "" when there is none. */
static void find_first(const char *pattern, char first_out[PATH_MAX])
{
    const struct pattern_visitor visitor = { keep_first, pass_unlisted, first_out };
    const char *const colon = strrchr(pattern, ':');
    first_out[0] = '\0';
    if (access(pattern, F_OK) == 0)
        snprintf(first_out, PATH_MAX, "%s", pattern);
    else
        (void)pattern_expand(pattern, &visitor);
    if (first_out[0] == '\0' && colon != NULL && colon - pattern < PATH_MAX)
        snprintf(first_out, PATH_MAX, "%.*s", (int)(colon - pattern), pattern);
}

static uint64_t read_classes(const char *path)
{
    char problem[256], *text;
    size_t bytes;
    struct manifest manifest = { 0 };
    if (text_file_read(path, MANIFEST_BYTES_MAX, &text, &bytes) != 0)
        return 0;
    const int rc = manifest_read(&manifest, text, bytes, problem, sizeof(problem));
    const uint64_t classes = rc == 0 ? manifest.classes : 0;
    manifest_release(&manifest);
    free(text);
    return classes;
}

uint64_t dataset_shards_classes(const char *patterns)
{
    char first[PATH_MAX], path[PATH_MAX + sizeof(MANIFEST_FILE) + 1];
    struct stat status;
    char *const text = strdup(patterns), *rest = text;
    const bool is_one = strchr(patterns, ',') == NULL || access(patterns, F_OK) == 0;
    const char *const pattern = is_one ? patterns : text != NULL ? pattern_cut(&rest) : NULL;
    find_first(pattern != NULL ? pattern : "", first);
    free(text);
    if (first[0] == '\0' || stat(first, &status) != 0)
        return 0;
    char *const slash = strrchr(first, '/');
    if (S_ISDIR(status.st_mode))
        snprintf(path, sizeof(path), "%s/%s", first, MANIFEST_FILE);
    else
        snprintf(path, sizeof(path), "%.*s%s", slash != NULL ? (int)(slash + 1 - first) : 0, first, MANIFEST_FILE);
    return read_classes(path);
}
