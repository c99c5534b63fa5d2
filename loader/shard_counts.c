/* Compares shards with their manifest. Called while a data set is opened. */
#include "loader/shard_counts.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/shards/shard_list.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define PROBLEM_BYTES 256u

static void report_unusable(const char *path, const char *problem)
{
    log_message(LOG_RUN, "%s: %s: shards are not compared with it", path, problem);
}

typedef int (*manifest_fn)(struct manifest *manifest, const char *text, size_t bytes, char *problem,
                           size_t problem_size);

/* Read the file `name` in the folder if it exists. A file that cannot be used is reported. 0 or -ENOMEM. */
static int read_file(struct manifest *manifest, const char *folder, const char *name, manifest_fn read, bool is_quiet)
{
    char problem[PROBLEM_BYTES] = "", *path, *text;
    size_t bytes;
    if (asprintf(&path, "%s%s", folder, name) < 0)
        return -ENOMEM;
    int rc = file_load(path, MANIFEST_BYTES_MAX, &text, &bytes);
    if (rc == 0) {
        rc = read(manifest, text, bytes, problem, sizeof(problem));
        free(text);
    }
    if (rc < 0 && rc != -ENOENT && rc != -ENOMEM && !is_quiet)
        report_unusable(path, problem[0] != '\0' ? problem : file_load_problem(rc));
    free(path);
    return rc == -ENOMEM ? rc : 0;
}

/* Read our own manifest, or else that of TensorFlow Datasets. */
static int open_manifest(struct manifest *manifest, const char *folder, bool is_quiet)
{
    int rc = read_file(manifest, folder, MANIFEST_FILE, manifest_read, is_quiet);
    const bool is_ours = rc == 0 && manifest->split_count > 0;
    if (rc == 0 && !is_ours)
        rc = read_file(manifest, folder, DATASET_INFO_FILE, dataset_info_read, is_quiet);
    if (rc == 0 && manifest->split_count > 0 && (!is_ours || manifest->image_key == NULL))
        rc = read_file(manifest, folder, FEATURES_FILE, dataset_features_read, is_quiet);
    return rc;
}

/* Read the manifest of a new folder. */
static int add_folder(struct shard_counts *counts, const char *path, size_t folder_bytes)
{
    struct shard_folder *const grown = realloc(counts->folders, (counts->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    counts->folders = grown;
    struct shard_folder folder = { .name = strndup(path, folder_bytes) };
    const int rc = folder.name != NULL ? open_manifest(&folder.manifest, folder.name, counts->is_quiet) : -ENOMEM;
    if (rc < 0) {
        manifest_release(&folder.manifest);
        free(folder.name);
        return rc;
    }
    counts->last = counts->count;
    counts->folders[counts->count++] = folder;
    return 0;
}

static bool is_folder_of(const struct shard_folder *folder, const char *path, size_t folder_bytes)
{
    return strlen(folder->name) == folder_bytes && memcmp(folder->name, path, folder_bytes) == 0;
}

/* Set counts->last to the folder of a path. */
static int find_folder(struct shard_counts *counts, const char *path, size_t folder_bytes)
{
    if (counts->count > 0 && is_folder_of(&counts->folders[counts->last], path, folder_bytes))
        return 0;
    for (size_t i = 0; i < counts->count; i++) {
        if (is_folder_of(&counts->folders[i], path, folder_bytes)) {
            counts->last = i;
            return 0;
        }
    }
    return add_folder(counts, path, folder_bytes);
}

static int64_t written_ns(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec : 0;
}

int shard_counts_catalog(struct shard_counts *counts, const char *path, const struct shard_folder **folder_out)
{
    char where[PATH_MAX] = "", problem[PROBLEM_BYTES] = "";
    const int rc = find_folder(counts, path, (size_t)(shard_base_name(path) - path));
    if (rc < 0)
        return rc;
    struct shard_folder *const folder = &counts->folders[counts->last];
    if (!folder->catalog_is_read) {
        folder->catalog_result = catalog_read(&folder->catalog, folder->name, where, sizeof(where), problem,
                                              sizeof(problem));
        folder->catalog_path = strdup(where);
        folder->catalog_problem = strdup(problem);
        folder->catalog_ns = folder->catalog_result == 0 ? written_ns(where) : 0;
        if (folder->catalog_path == NULL || folder->catalog_problem == NULL)
            return -ENOMEM;
        folder->catalog_is_read = true;
    }
    *folder_out = folder;
    return folder->catalog_result == -ENOMEM ? -ENOMEM : 0;
}

int shard_counts_find(struct shard_counts *counts, const char *path, const struct manifest_shard **shard_out)
{
    const char *const name = shard_base_name(path);
    const int rc = find_folder(counts, path, (size_t)(name - path));
    if (rc == 0)
        *shard_out = manifest_find(&counts->folders[counts->last].manifest, name);
    return rc;
}

static int find_manifest(struct shard_counts *counts, const char *path, size_t folder_bytes,
                         const struct manifest **manifest_out)
{
    const int rc = find_folder(counts, path, folder_bytes);
    if (rc == 0)
        *manifest_out = &counts->folders[counts->last].manifest;
    return rc;
}

int shard_counts_folder(struct shard_counts *counts, const char *folder, const struct manifest **manifest_out)
{
    return find_manifest(counts, folder, strlen(folder), manifest_out);
}

int shard_counts_of(struct shard_counts *counts, const char *path, const struct manifest **manifest_out)
{
    return find_manifest(counts, path, (size_t)(shard_base_name(path) - path), manifest_out);
}

/* For each split of the manifest: was one of its shards found? */
static bool *find_splits(const struct manifest *manifest, const struct shard_list *found)
{
    bool *const is_found = calloc(manifest->split_count + 1, sizeof(*is_found));
    for (uint32_t i = 0; i < found->count && is_found != NULL; i++) {
        const struct manifest_shard *const listed = manifest_find(manifest, shard_base_name(found->paths[i]));
        if (listed != NULL)
            is_found[listed->split] = true;
    }
    return is_found;
}

/* Is a file of this name among the first `count` files of the list, which are sorted? */
static bool is_in(const struct shard_list *list, uint32_t count, const char *name)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(shard_base_name(list->paths[middle]), name);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Is this a file that would be used for the split if its directory were given? */
static bool is_of_kind(const char *name, enum split split)
{
    return strchr(name, '/') == NULL && shard_list_is_shard(name) && split_of_name(name) == split;
}

static int add_absent(const struct shard_folder *folder, const bool *is_found, struct shard_list *list)
{
    const struct manifest *const manifest = &folder->manifest;
    const enum split split = split_of_name(shard_base_name(list->paths[0]));
    const uint32_t found = list->count;
    const char *before = "";
    int rc = 0;
    for (size_t i = 0; i < manifest->count && rc == 0; before = manifest->shards[i++].file) {
        const struct manifest_shard *const listed = &manifest->shards[i];
        const bool is_meant = is_found[listed->split] && listed->records > 0 && is_of_kind(listed->file, split);
        if (is_meant && strcmp(listed->file, before) != 0 && !is_in(list, found, listed->file))
            rc = shard_list_append(list, folder->name, listed->file);
    }
    shard_list_sort(list);
    return rc;
}

int shard_counts_add_absent(struct shard_counts *counts, struct shard_list *list)
{
    const struct manifest_shard *first;
    int rc = list->is_folder ? shard_counts_find(counts, list->paths[0], &first) : 0;
    if (rc < 0 || !list->is_folder)
        return rc;
    const struct shard_folder *const folder = &counts->folders[counts->last];
    bool *const is_found = find_splits(&folder->manifest, list);
    rc = is_found != NULL ? add_absent(folder, is_found, list) : -ENOMEM;
    free(is_found);
    return rc;
}

/* ---- differences between a folder and its manifest ---- */

static void report_unlisted(const struct shard_folder *folder, const char *first, uint32_t count, const char *what)
{
    const struct manifest *const manifest = &folder->manifest;
    char path[1024], more[64] = "";
    log_escape(first, strlen(first), path, sizeof(path));
    if (count > 1)
        snprintf(more, sizeof(more), " and %" PRIu32 " more are", count - 1);
    log_message(LOG_RUN, "%s: %s%s not among the %zu shards that %s lists: remove what is of another set, or name the "
                "right files by a glob", what, path, count > 1 ? more : " is", manifest->count,
                manifest->shards[0].listed_in);
}

/* Should this listed file, which was not found, exist, and does it not? */
static bool is_missing(const struct shard_folder *folder, const struct manifest_shard *listed)
{
    char path[PATH_MAX];
    const int bytes = snprintf(path, sizeof(path), "%s%s", folder->name, listed->file);
    return listed->records > 0 && bytes < (int)sizeof(path) && strchr(listed->file, '/') == NULL &&
           access(path, F_OK) != 0;
}

static void report_missing(const struct shard_folder *folder, const bool *is_found, const bool *is_split_found,
                           const char *what)
{
    const struct manifest *const manifest = &folder->manifest;
    const struct manifest_shard *first = NULL;
    uint32_t count = 0;
    for (size_t i = 0; i < manifest->count; i++) {
        if (is_found[i] || !is_split_found[manifest->shards[i].split] || !is_missing(folder, &manifest->shards[i]))
            continue;
        first = count++ == 0 ? &manifest->shards[i] : first;
    }
    char name[NAME_MAX + 1];
    if (count == 0)
        return;
    log_escape(first->file, strlen(first->file), name, sizeof(name));
    log_message(LOG_RUN, "%s: %s%s lists %" PRIu32 " shard%s that %s missing, such as %s", what, folder->name,
                first->listed_in, count, count == 1 ? "" : "s", count == 1 ? "is" : "are", name);
}

/* shard_counts_report_others for the files of one folder. */
static int report_folder(const struct shard_folder *folder, char *const *paths, uint32_t count, const char *what)
{
    const struct manifest *const manifest = &folder->manifest;
    bool *const is_found = calloc(manifest->count + manifest->split_count + 1, sizeof(*is_found));
    bool *const is_split_found = is_found + manifest->count;
    const char *first = NULL;
    uint32_t unlisted = 0;
    if (is_found == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const struct manifest_shard *const listed = manifest_find(manifest, shard_base_name(paths[i]));
        if (listed != NULL)
            is_found[listed - manifest->shards] = is_split_found[listed->split] = true;
        else if (unlisted++ == 0)
            first = paths[i];
    }
    if (unlisted > 0)
        report_unlisted(folder, first, unlisted, what);
    report_missing(folder, is_found, is_split_found, what);
    free(is_found);
    return 0;
}

/* Is this shard of a catalog of the same split as one of the files, but does not exist? */
static bool is_absent(const struct shard_folder *folder, const char *name, char *const *paths, uint32_t count)
{
    char path[PATH_MAX];
    const int bytes = snprintf(path, sizeof(path), "%s%s", folder->name, name);
    uint32_t i = 0;
    while (i < count && split_of_name(shard_base_name(paths[i])) != split_of_name(name))
        i++;
    return i < count && bytes < (int)sizeof(path) && access(path, F_OK) != 0;
}

static void report_catalog(const struct shard_folder *folder, char *const *paths, uint32_t count, const char *what)
{
    const struct catalog *const catalog = &folder->catalog;
    const char *first = NULL;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < catalog->shard_count; i++)
        if (is_absent(folder, catalog->shards[i].name, paths, count) && missing++ == 0)
            first = catalog->shards[i].name;
    if (missing > 0)
        log_message(LOG_RUN, "%s: %s lists %" PRIu32 " shards, %" PRIu32 " of them %s missing, such as %s", what,
                    folder->catalog_path, catalog->shard_count, missing, missing == 1 ? "is" : "are", first);
}

int shard_counts_report_others(struct shard_counts *counts, char *const *paths, uint32_t count, const char *what)
{
    int rc = 0;
    for (uint32_t i = 0, length; i < count && rc == 0; i += length) {
        const struct manifest *manifest;
        length = shard_list_folder_length(paths + i, count - i);
        rc = shard_counts_of(counts, paths[i], &manifest);
        if (rc == 0 && manifest->count > 0)
            rc = report_folder(&counts->folders[counts->last], paths + i, length, what);
        else if (rc == 0)
            report_catalog(&counts->folders[counts->last], paths + i, length, what);
    }
    return rc;
}

void shard_counts_release(struct shard_counts *counts)
{
    for (size_t i = 0; i < counts->count; i++) {
        manifest_release(&counts->folders[i].manifest);
        catalog_release(&counts->folders[i].catalog);
        free(counts->folders[i].catalog_path);
        free(counts->folders[i].catalog_problem);
        free(counts->folders[i].name);
    }
    free(counts->folders);
    *counts = (struct shard_counts){ 0 };
}

bool shard_counts_agree(const struct manifest_shard *listed, const struct shard_index *index, char *text_out,
                        size_t text_size)
{
    const bool has_size = listed->bytes != MANIFEST_SIZE_UNSAID;
    if (index->record_count != listed->records)
        snprintf(text_out, text_size, "holds %" PRIu64 " records, %s says %" PRIu64, index->record_count,
                 listed->listed_in, listed->records);
    else if (has_size && index->stamp.bytes != listed->bytes)
        snprintf(text_out, text_size, "is %" PRIu64 " bytes long, %s says %" PRIu64, index->stamp.bytes,
                 listed->listed_in, listed->bytes);
    else
        return true;
    return false;
}

void shard_counts_report_absent(const struct manifest_shard *listed, char *text_out, size_t text_size)
{
    snprintf(text_out, text_size,
             "is missing: %s says %" PRIu64 " records: restore it or convert again, or name "
             "files by a glob to train without it", listed->listed_in, listed->records);
}

uint64_t shard_counts_missing(const struct manifest_shard *listed, const struct shard_index *index)
{
    const uint64_t known = index->record_count + shard_index_lost(index);
    if (listed == NULL)
        return index->bytes == 0;
    return listed->records > known ? listed->records - known : 0;
}
