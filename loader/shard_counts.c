/* Shards compared with their manifest. Called while a data set is opened. */
#include "loader/shard_counts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"

#define PROBLEM_BYTES 256u

static const char *name_of(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void tell_unusable(const char *path, const char *problem)
{
    log_message(LOG_RUN, "%s: %s: shards are not compared with it", path, problem);
}

static int read_text(struct shard_source *source, char **text_out)
{
    const size_t bytes = source->stamp.bytes;
    if (bytes > MANIFEST_BYTES_MAX)
        return -EFBIG;
    char *const text = malloc(bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    const ssize_t got = bytes > 0 ? shard_source_read(source, text, bytes, 0) : 0;
    if (got == (ssize_t)bytes) {
        *text_out = text;
        return 0;
    }
    free(text);
    return got < 0 ? (int)got : -ESTALE;
}

static int parse(struct manifest *manifest, struct shard_source *source, char *problem, size_t problem_size)
{
    char *text = NULL;
    int rc = read_text(source, &text);
    if (rc == 0)
        rc = manifest_read(manifest, text, source->stamp.bytes, problem, problem_size);
    free(text);
    return rc;
}

static int open_manifest(struct manifest *manifest, const char *path)
{
    struct shard_source *source;
    char problem[PROBLEM_BYTES] = "";
    int rc = shard_source_open(&source, &shard_file_ops, path);
    if (rc == -ENOENT)
        return 0;
    if (rc == 0) {
        rc = parse(manifest, source, problem, sizeof(problem));
        shard_source_close(source);
    }
    if (rc == 0 || rc == -ENOMEM)
        return rc;
    tell_unusable(path, problem[0] != '\0' ? problem : strerror(-rc));
    return 0;
}

/* The manifest of another folder. */
static int change_folder(struct shard_counts *counts, const char *path, size_t folder_bytes)
{
    char *manifest_path;
    shard_counts_release(counts);
    counts->folder = strndup(path, folder_bytes);
    if (counts->folder == NULL || asprintf(&manifest_path, "%s" MANIFEST_FILE, counts->folder) < 0)
        return -ENOMEM;
    const int rc = open_manifest(&counts->manifest, manifest_path);
    free(manifest_path);
    return rc;
}

static bool is_of_folder(const struct shard_counts *counts, const char *path, size_t folder_bytes)
{
    return counts->folder != NULL && strlen(counts->folder) == folder_bytes &&
           memcmp(counts->folder, path, folder_bytes) == 0;
}

int shard_counts_find(struct shard_counts *counts, const char *path, const struct manifest_shard **shard_out)
{
    const char *const name = name_of(path);
    const size_t folder_bytes = (size_t)(name - path);
    const int rc = is_of_folder(counts, path, folder_bytes) ? 0 : change_folder(counts, path, folder_bytes);
    if (rc == 0)
        *shard_out = manifest_find(&counts->manifest, name);
    return rc;
}

void shard_counts_release(struct shard_counts *counts)
{
    manifest_release(&counts->manifest);
    free(counts->folder);
    *counts = (struct shard_counts){ 0 };
}

bool shard_counts_agree(const struct manifest_shard *listed, const struct shard_index *index, char *text_out,
                        size_t text_size)
{
    const bool has_size = listed->bytes != MANIFEST_SIZE_UNSAID;
    if (index->record_count != listed->records)
        snprintf(text_out, text_size, "holds %" PRIu64 " records, " MANIFEST_FILE " says %" PRIu64, index->record_count,
                 listed->records);
    else if (has_size && index->stamp.bytes != listed->bytes)
        snprintf(text_out, text_size, "is %" PRIu64 " bytes long, " MANIFEST_FILE " says %" PRIu64, index->stamp.bytes,
                 listed->bytes);
    else
        return true;
    return false;
}

uint64_t shard_counts_missing(const struct manifest_shard *listed, const struct shard_index *index)
{
    const uint64_t known = index->record_count + index->damage_count;
    if (listed == NULL)
        return index->bytes == 0;
    return listed->records > known ? listed->records - known : 0;
}
