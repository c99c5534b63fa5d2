/* pipetrain-shards catalog: write or compare the catalog of a folder. Called by the main thread. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/catalog.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"
#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/results/result_file.h"
#include "tools/lib/text/number.h"
#include "tools/shards/shards_command.h"

/* The shards of the folder, as the catalog is to describe them. */
struct described_set {
    struct shard_index *indexes;
    struct catalog_entry *entries;
    uint32_t count;
    uint64_t records;
};

/* Index a shard. One with damaged lengths is refused, as a catalog has no place for them. 0, or a negative errno after a
 * message. */
static int describe_shard(const struct shards_request *request, const char *path, struct shard_index *index,
                          bool *is_packed_out)
{
    struct shard_source *source;
    int rc = shards_source_open(&source, path);
    if (rc < 0)
        return rc;
    rc = shards_index_open(index, source, request, false);
    if (rc == 0) {
        rc = shard_fingerprint(index, source, &index->fingerprint);
        if (rc < 0)
            log_message(LOG_ERROR, "%s: cannot be read: %s", path, strerror(-rc));
    }
    *is_packed_out = !source->ops->is_plain;
    shard_source_close(source);
    return rc;
}

static int describe_set(const struct shards_request *request, const struct shard_list *list, struct described_set *set)
{
    int rc = 0;
    set->indexes = calloc((size_t)list->count + 1, sizeof(*set->indexes));
    set->entries = calloc((size_t)list->count + 1, sizeof(*set->entries));
    if (set->indexes == NULL || set->entries == NULL) {
        log_message(LOG_ERROR, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < list->count && rc == 0; i++) {
        struct catalog_entry *const entry = &set->entries[i];
        rc = atomic_load(request->is_unwanted) ? -ECANCELED
                                               : describe_shard(request, list->paths[i], &set->indexes[i],
                                                                &entry->is_packed);
        entry->name = shard_base_name(list->paths[i]);
        entry->index = &set->indexes[i];
        set->count++;
        set->records += set->indexes[i].record_count;
    }
    return rc;
}

static void release_set(struct described_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        shard_index_release(&set->indexes[i]);
    free(set->indexes);
    free(set->entries);
}

/* Find the path of the catalog: in the folder, or in the cache folder if the folder cannot be written and has none, which
 * a run would read instead. */
static bool find_path(const char *folder, char *path_out, size_t path_size)
{
    if (!catalog_path_beside(folder, path_out, path_size))
        return false;
    if (access(folder, W_OK) == 0 || access(path_out, F_OK) == 0)
        return true;
    cache_folder_make();
    return catalog_path_in_cache(folder, path_out, path_size);
}

/* Read the present catalog. False if there is none; *bytes_out is 0 if it cannot be read. */
static bool read_present(const char *path, uint8_t **image_out, size_t *bytes_out)
{
    *image_out = NULL;
    *bytes_out = 0;
    return file_load(path, SIZE_MAX, image_out, bytes_out) != -ENOENT;
}

static void print_result(const struct described_set *set, const char *path, size_t bytes, const char *what)
{
    printf("%s: %" PRIu32 " shard%s, %s records, %s bytes%s\n", path, set->count, set->count == 1 ? "" : "s",
           number_grouped(set->records).text, number_grouped(bytes).text, what);
}

static int compare_catalog(const struct described_set *set, const char *path, bool is_there, bool is_equal, size_t bytes)
{
    if (is_there && is_equal)
        print_result(set, path, bytes, ", all right");
    else if (is_there)
        log_message(LOG_ERROR, "%s: does not describe the shards in its directory: " CATALOG_ADVICE, path);
    else
        log_message(LOG_ERROR, "%s: %s", path, strerror(ENOENT));
    return is_there && is_equal ? EXIT_CODE_OK : EXIT_CODE_DATA;
}

static int write_catalog(const struct shards_request *request, const struct described_set *set, const char *path,
                         const uint8_t *image, size_t bytes)
{
    uint8_t *present;
    size_t present_bytes;
    const bool is_there = read_present(path, &present, &present_bytes);
    const bool is_equal = is_there && present_bytes == bytes && memcmp(present, image, bytes) == 0;
    free(present);
    if (request->compares)
        return compare_catalog(set, path, is_there, is_equal, bytes);
    if (is_equal) {
        print_result(set, path, bytes, ", unchanged");
        return EXIT_CODE_OK;
    }
    const int code = result_file_write(path, request->may_replace, &(struct file_part){ image, bytes }, 1);
    if (code == EXIT_CODE_OK)
        print_result(set, path, bytes, "");
    return code;
}

static int make_catalog(const struct shards_request *request, const char *folder, const struct shard_list *list)
{
    struct described_set set = { 0 };
    char path[PATH_MAX];
    uint8_t *image = NULL;
    size_t bytes = 0;
    int rc = describe_set(request, list, &set);
    if (rc == 0) {
        rc = catalog_pack(set.entries, set.count, &image, &bytes);
        if (rc < 0)
            log_message(LOG_ERROR, "%s: %s", folder, strerror(-rc));
    }
    int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : EXIT_CODE_OK;
    if (rc == 0 && find_path(folder, path, sizeof(path)))
        code = write_catalog(request, &set, path, image, bytes);
    else if (rc == 0) {
        log_message(LOG_ERROR, "%s: cannot be written, and there is no cache folder", folder);
        code = EXIT_CODE_OUTPUT;
    }
    free(image);
    release_set(&set);
    return code;
}

static int run(const struct shards_request *request, struct shard_list *unused)
{
    (void)unused;
    const char *const folder = request->words[0];
    struct shard_list list = { 0 };
    struct stat status;
    if (stat(folder, &status) < 0 || !S_ISDIR(status.st_mode)) {
        log_message(LOG_ERROR, "%s: is not a directory", folder);
        return EXIT_CODE_DATA;
    }
    const int rc = shard_paths_in_folder(&list, folder);
    const int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : make_catalog(request, folder, &list);
    shard_list_release(&list);
    return code;
}

const struct shards_command command_catalog = {
    .name = "catalog",
    .words = "DIRECTORY",
    .words_least = 1,
    .words_most = 1,
    .options = "cf",
    .summary = "write one index of all shards",
    .help = "Writes DIRECTORY/" CATALOG_FILE ", or a file in the user's cache folder if the\n"
            "directory cannot be written: size, record lengths and a fingerprint of every\n"
            "shard. Runs then open a shard only when they first read it. Make it again with\n"
            "--force after the set has changed; with --check, exit status 3 says that it\n"
            "has. Shards with damaged lengths are refused.\n\n"
            "  " SHARDS_PROGRAM " catalog imagenet\n"
            "  " SHARDS_PROGRAM " catalog --check imagenet\n"
            "  " SHARDS_PROGRAM " catalog --force imagenet\n",
    .run = run,
};
