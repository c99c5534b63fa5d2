/* Splits as they are described. Called while a data set is opened. */
#include "loader/opening/split_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"
#include "loader/shards/shard_list.h"

/* What a pattern comes to. */
struct wish {
    char folder[PATH_MAX];      /* with its slash */
    const char *split;          /* NULL: the one that is meant by what the set is for */
    const char *what;
    struct text *problems;
};

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool set_folder(struct wish *wish, const char *path, size_t bytes)
{
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    if (bytes == 0 || bytes + 2 > sizeof(wish->folder))
        return false;
    memcpy(wish->folder, path, bytes);
    memcpy(wish->folder + bytes, "/", 2);
    return is_folder(wish->folder);
}

/* Whether the pattern is FOLDER or FOLDER:SPLIT. */
static bool read_pattern(struct wish *wish, const char *pattern)
{
    struct stat status;
    const char *const colon = strrchr(pattern, ':');
    if (stat(pattern, &status) == 0)
        return set_folder(wish, pattern, strlen(pattern));
    if (colon == NULL || colon[1] == '\0' || strpbrk(colon, "/*?[") != NULL)
        return false;
    wish->split = colon + 1;
    return set_folder(wish, pattern, (size_t)(colon - pattern));
}

static void begin_line(const struct wish *wish)
{
    text_line(wish->problems);
    text_add(wish->problems, "%s: ", wish->what);
    text_add_escaped(wish->problems, wish->folder);
    text_add(wish->problems, ": ");
}

static int tell_no_split(const struct wish *wish, const struct manifest *manifest)
{
    begin_line(wish);
    if (wish->split != NULL) {
        text_add(wish->problems, "has no split '");
        text_add_escaped(wish->problems, wish->split);
        text_add(wish->problems, "'; it has:");
    } else {
        text_add(wish->problems, "has no split for %s, name one as FOLDER:SPLIT; it has:", wish->what);
    }
    for (size_t i = 0; i < manifest->split_count; i++) {
        text_add(wish->problems, " ");
        text_add_escaped(wish->problems, manifest->split_names[i]);
    }
    return -ENOENT;
}

static bool find_named(const struct manifest *manifest, const char *name, size_t *split_out)
{
    for (size_t i = 0; i < manifest->split_count; i++) {
        if (strcmp(manifest->split_names[i], name) == 0) {
            *split_out = i;
            return true;
        }
    }
    return false;
}

static bool find_meant(const struct manifest *manifest, enum split meant, size_t *split_out)
{
    for (size_t i = 0; i < manifest->split_count; i++) {
        if (split_of_name(manifest->split_names[i]) == meant) {
            *split_out = i;
            return true;
        }
    }
    return false;
}

/* A test set where there is none for validation. */
static bool find_split(const struct wish *wish, const struct manifest *manifest, size_t *split_out)
{
    if (wish->split != NULL)
        return find_named(manifest, wish->split, split_out);
    if (strcmp(wish->what, "validation") != 0)
        return find_named(manifest, "train", split_out) || find_meant(manifest, SPLIT_TRAIN, split_out);
    return find_meant(manifest, SPLIT_VALIDATION, split_out) || find_meant(manifest, SPLIT_TEST, split_out);
}

static int add_shards(const struct wish *wish, const struct manifest *manifest, size_t split, struct shard_list *list)
{
    int rc = 0;
    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        if (manifest->shards[i].split == split)
            rc = shard_list_append(list, wish->folder, manifest->shards[i].file);
    shard_list_sort(list);
    list->is_folder = true;
    return rc;
}

/* The bytes of NAME in NAME-NNNNN-of-NNNNN; 0 where a name is no such thing. */
static size_t stem_bytes(const char *name)
{
    const char *const of = strstr(name, "-of-");
    size_t bytes = of != NULL ? (size_t)(of - name) : 0;
    while (bytes > 0 && name[bytes - 1] >= '0' && name[bytes - 1] <= '9')
        bytes--;
    return bytes > 0 && name[bytes - 1] == '-' ? bytes : 0;
}

/* A file that is called like the listed ones, and is none of them: the description is of another set. */
static int check_entry(const struct wish *wish, const struct manifest *manifest, const char *listed, const char *name)
{
    const size_t stem = stem_bytes(listed);
    if (stem == 0 || strncmp(name, listed, stem) != 0 || stem_bytes(name) != stem || !shard_list_is_shard(name) ||
        manifest_find(manifest, name) != NULL)
        return 0;
    begin_line(wish);
    text_add_escaped(wish->problems, name);
    text_add(wish->problems, " is none of the shards that %s lists, such as ", manifest->shards[0].listed_in);
    text_add_escaped(wish->problems, listed);
    text_add(wish->problems, ": one of them is of another version of the set");
    return -EBADMSG;
}

static int check_files(const struct wish *wish, const struct manifest *manifest, const char *listed)
{
    DIR *const entries = opendir(wish->folder);
    if (entries == NULL)
        return 0;               /* what cannot be listed may yet be opened */
    const struct dirent *entry;
    int rc = 0;
    while (rc == 0 && (entry = readdir(entries)) != NULL)
        rc = check_entry(wish, manifest, listed, entry->d_name);
    closedir(entries);
    return rc;
}

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static int find(const struct wish *wish, const struct manifest *manifest, struct shard_list *list)
{
    size_t split;
    if (!find_split(wish, manifest, &split))
        return tell_no_split(wish, manifest);
    const int rc = add_shards(wish, manifest, split, list);
    if (rc == 0 && list->count == 0) {
        begin_line(wish);
        text_add(wish->problems, "split '%.100s' has no shards", manifest->split_names[split]);
        return -ENOENT;
    }
    return rc < 0 ? rc : check_files(wish, manifest, name_of(list->paths[0]));
}

int split_folder_find(struct shard_list *list_out, struct shard_counts *counts, const char *pattern, const char *what,
                      struct text *problems)
{
    struct wish wish = { .what = what, .problems = problems };
    struct shard_list list = { 0 };
    const struct manifest *manifest;
    if (!read_pattern(&wish, pattern))
        return -ENOTSUP;
    if (begun_set_is_in(wish.folder)) {
        begin_line(&wish);
        text_add(problems, BEGUN_SET_TEXT);
        return -EBADMSG;
    }
    int rc = shard_counts_folder(counts, wish.folder, &manifest);
    if (rc < 0)
        return rc;
    const bool is_tfds = manifest->count > 0 && strcmp(manifest->shards[0].listed_in, DATASET_INFO_FILE) == 0;
    if (manifest->count == 0 || (wish.split == NULL && !is_tfds))
        return -ENOTSUP;
    rc = find(&wish, manifest, &list);
    if (rc == 0)
        *list_out = list;
    else
        shard_list_release(&list);
    return rc;
}
