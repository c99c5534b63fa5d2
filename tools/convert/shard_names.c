/* Expands the arguments of the converter of WebDataset. Called by the main thread. */
#include "tools/convert/shard_names.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/convert/convert.h"

#define PATH_BYTES 4096u
#define RANGE_DIGITS_MAX 9u

static int names_no_memory(struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the names of the shards");
}

static int names_add(struct shard_names *names, const char *path, struct stop *stop)
{
    if (names->count == SHARD_NAMES_MAX)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "more than %u shards: convert them in parts",
                            SHARD_NAMES_MAX);
    if (names->count == names->room) {
        const size_t room = names->room > 0 ? 2 * names->room : 64;
        char **const grown = realloc(names->paths, room * sizeof(*grown));
        if (grown == NULL)
            return names_no_memory(stop);
        names->paths = grown;
        names->room = room;
    }
    names->paths[names->count] = strdup(path);
    return names->paths[names->count] != NULL ? (names->count++, 0) : names_no_memory(stop);
}

/* ---- ranges ---- */

/* A range "{000..099}" in a text. */
struct range {
    const char *begin, *end;    /* the first byte, and the byte after the last */
    unsigned long first, last;
    int digits;                 /* the least number of digits */
};

static bool read_range(const char *brace, struct range *range_out)
{
    const size_t first = strspn(brace + 1, "0123456789");
    const char *const dots = brace + 1 + first, *const second = dots + 2;

    if (first == 0 || first > RANGE_DIGITS_MAX || strncmp(dots, "..", 2) != 0)
        return false;
    const size_t last = strspn(second, "0123456789");
    if (last == 0 || last > RANGE_DIGITS_MAX || second[last] != '}')
        return false;
    const bool is_padded = (brace[1] == '0' && first > 1) || (second[0] == '0' && last > 1);
    *range_out = (struct range){ brace, second + last + 1, strtoul(brace + 1, NULL, 10), strtoul(second, NULL, 10),
                                 is_padded ? (int)(first > last ? first : last) : 1 };
    return true;
}

static bool find_range(const char *text, struct range *range_out)
{
    while ((text = strchr(text, '{')) != NULL && !read_range(text, range_out))
        text++;
    return text != NULL;
}

static int expand_path(struct shard_names *names, const char *path, bool is_of_range, struct stop *stop);

static int expand_range(struct shard_names *names, const char *text, const struct range *range, struct stop *stop)
{
    char path[PATH_BYTES];
    int rc = 0;

    if (range->last < range->first || range->last - range->first >= SHARD_NAMES_MAX)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s: the range {%lu..%lu} is empty or has more than %u "
                            "files", text, range->first, range->last, SHARD_NAMES_MAX);
    for (unsigned long i = range->first; i <= range->last && rc == 0; i++) {
        const int length = snprintf(path, sizeof(path), "%.*s%0*lu%s", (int)(range->begin - text), text,
                                    range->digits, i, range->end);
        rc = length < (int)sizeof(path) ? expand_path(names, path, true, stop)
                                        : convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s: is too long", text);
    }
    return rc;
}

/* ---- patterns and folders ---- */

static int expand_glob(struct shard_names *names, const char *pattern, struct stop *stop)
{
    glob_t found;
    const int status = glob(pattern, GLOB_BRACE, NULL, &found);
    int rc = status == GLOB_NOSPACE ? names_no_memory(stop) : 0;

    if (status == GLOB_NOMATCH || status == GLOB_ABORTED)
        return convert_fail(stop, EXIT_CODE_DATA, -ENOENT, "%s: no file matches this pattern", pattern);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        rc = names_add(names, found.gl_pathv[i], stop);
    globfree(&found);
    return rc;
}

/* Does the file have the name of a tar archive: "a.tar", "a.tar.gz", "a.tgz"? */
static bool is_tar_name(const char *name)
{
    const char *const tar = strstr(name, ".tar"), *const end = strrchr(name, '.');
    return name[0] != '.' && ((tar != NULL && (tar[4] == '\0' || tar[4] == '.')) ||
                              (end != NULL && strcmp(end, ".tgz") == 0));
}

static int choose_tar(const struct dirent *entry)
{
    return is_tar_name(entry->d_name);
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int expand_folder(struct shard_names *names, const char *folder, struct stop *stop)
{
    struct dirent **entries;
    char path[PATH_BYTES];
    const int count = scandir(folder, &entries, choose_tar, compare_entries);
    int rc = count < 0 ? convert_fail(stop, EXIT_CODE_DATA, -errno, "%s: cannot read the folder: %s", folder,
                                      strerror(errno)) : 0;

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/",
                 entries[i]->d_name);
        rc = rc == 0 ? names_add(names, path, stop) : rc;
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return count != 0 ? rc
         : convert_fail(stop, EXIT_CODE_DATA, -ENOENT, "%s: contains no .tar file: give the shards, or put samples "
                        "that are unpacked into one: tar --sort=name -cf samples.tar -C %s .", folder, folder);
}

static int expand_path(struct shard_names *names, const char *path, bool is_of_range, struct stop *stop)
{
    struct range range;
    struct stat status;

    if (stat(path, &status) == 0)
        return S_ISDIR(status.st_mode) ? expand_folder(names, path, stop) : names_add(names, path, stop);
    if (strstr(path, "://") != NULL || strncmp(path, "pipe:", 5) == 0)
        return convert_fail(stop, EXIT_CODE_DATA, -EINVAL, "%s: addresses and commands are not opened: download the "
                            "shards, and give their files", path);
    if (find_range(path, &range))
        return expand_range(names, path, &range, stop);
    return strpbrk(path, "*?[{") != NULL && !is_of_range ? expand_glob(names, path, stop)
                                                         : names_add(names, path, stop);
}

int shard_names_expand(struct shard_names *names, char *const *arguments, size_t count, struct stop *stop)
{
    int rc = 0;

    *names = (struct shard_names){ 0 };
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = expand_path(names, arguments[i], false, stop);
    return rc;
}

void shard_names_release(struct shard_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->paths[i]);
    free(names->paths);
    *names = (struct shard_names){ 0 };
}

/* ---- gaps ---- */

/* The number of a shard in its name: the last digits before its extension. */
struct numbered { const char *path; size_t begin, end; uint64_t number; };

static struct numbered number_of(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    const char *end = name + strcspn(name, ".");

    while (end > name && (end[-1] < '0' || end[-1] > '9'))
        end--;
    const char *begin = end;
    while (begin > name && begin[-1] >= '0' && begin[-1] <= '9')
        begin--;
    const bool is_short = end > begin && end - begin <= (int)RANGE_DIGITS_MAX;
    return (struct numbered){ path, (size_t)(begin - path), (size_t)(end - path),
                              is_short ? strtoull(begin, NULL, 10) : 0 };
}

/* Are the paths equal but for their numbers? */
static bool is_same_series(const struct numbered *a, const struct numbered *b)
{
    return a->begin == b->begin && a->end > a->begin && b->end > b->begin &&
           memcmp(a->path, b->path, a->begin) == 0 && strcmp(a->path + a->end, b->path + b->end) == 0;
}

/* Compares the texts around the numbers first, so that a series is consecutive. */
static int compare_numbered(const void *left, const void *right)
{
    const struct numbered *const a = left, *const b = right;

    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    const int before = memcmp(a->path, b->path, a->begin), after = strcmp(a->path + a->end, b->path + b->end);
    return before != 0 ? before : after != 0 ? after : (a->number > b->number) - (a->number < b->number);
}

int shard_names_report_gaps(const struct shard_names *names)
{
    struct numbered *const shards = calloc(names->count + 1, sizeof(*shards));
    const struct numbered *first = NULL;
    uint64_t missing = 0;

    if (shards == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < names->count; i++)
        shards[i] = number_of(names->paths[i]);
    qsort(shards, names->count, sizeof(*shards), compare_numbered);
    for (size_t i = 1; i < names->count; i++) {
        if (!is_same_series(&shards[i - 1], &shards[i]) || shards[i].number <= shards[i - 1].number + 1)
            continue;
        first = first != NULL ? first : &shards[i - 1];
        missing += shards[i].number - shards[i - 1].number - 1;
    }
    if (first != NULL)
        log_message(LOG_RUN, "%" PRIu64 " number%s missing between those of the shards, such as the one after %s: are "
                    "all shards there?", missing, missing == 1 ? " is" : "s are", first->path);
    free(shards);
    return 0;
}
