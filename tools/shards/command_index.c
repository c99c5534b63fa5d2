/* pipetrain-shards index: write or compare the DALI index of a shard. Called by the main thread. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loader/shards/shard_index.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/results/result_file.h"
#include "tools/shards/dali_index.h"
#include "tools/shards/shards_command.h"

/* Index the records of an uncompressed, undamaged shard. 0, or a negative errno after a message. */
static int read_shard(const struct shards_request *request, const char *path, struct shard_index *index_out)
{
    struct shard_source *source;
    int rc = shards_source_open(&source, path);
    if (rc < 0)
        return rc;
    if (!source->ops->is_plain) {
        log_message(LOG_ERROR, "%s: is compressed: an index of DALI needs an uncompressed shard", path);
        rc = -ENOTSUP;
    } else
        rc = shards_index_open(index_out, source, request, false);
    shard_source_close(source);
    return rc;
}

static int write_index(const struct shards_request *request, const struct shard_index *index, const char *path)
{
    size_t bytes;
    char *const text = dali_index_text(index, &bytes);
    if (text == NULL) {
        log_message(LOG_ERROR, "%s: %s", path, strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    const int code = result_file_write(path, request->may_replace, &(struct file_part){ text, bytes }, 1);
    if (code == EXIT_CODE_OK)
        printf("%s: %" PRIu64 " records\n", path, index->record_count);
    free(text);
    return code;
}

static int compare_index(const struct shard_index *index, const char *path)
{
    char *text, problem[256];
    size_t bytes;
    const int rc = file_load(path, SIZE_MAX, &text, &bytes);
    if (rc < 0) {
        log_message(LOG_ERROR, "%s: cannot be read: %s", path, file_load_problem(rc));
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    }
    const bool agrees = dali_index_agrees(text, bytes, index, problem, sizeof(problem));
    free(text);
    if (agrees)
        printf("%s: %" PRIu64 " records, all right\n", path, index->record_count);
    else
        log_message(LOG_ERROR, "%s: %s", path, problem);
    return agrees ? EXIT_CODE_OK : EXIT_CODE_DATA;
}

/* The length of the path of the shard in an argument: with --check the argument may also be the path of its index. */
static int shard_bytes(const struct shards_request *request, const char *word)
{
    const size_t bytes = strlen(word), suffix = strlen(DALI_INDEX_SUFFIX);
    const bool is_index = bytes > suffix && strcmp(word + bytes - suffix, DALI_INDEX_SUFFIX) == 0;
    return (int)(is_index && request->compares ? bytes - suffix : bytes);
}

/* A path that is truncated here is too long to be opened anyway. */
static int process_shard(const struct shards_request *request, const char *word)
{
    char shard[PATH_MAX + 1], beside[PATH_MAX + sizeof(DALI_INDEX_SUFFIX)];
    struct shard_index index;
    snprintf(shard, sizeof(shard), "%.*s", shard_bytes(request, word), word);
    snprintf(beside, sizeof(beside), "%s" DALI_INDEX_SUFFIX, shard);
    const char *const path = request->output != NULL ? request->output : beside;
    const int rc = read_shard(request, shard, &index);
    if (rc < 0)
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    const int code = request->compares ? compare_index(&index, path) : write_index(request, &index, path);
    shard_index_release(&index);
    return code;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Process all shards. Returns the first exit code that is not EXIT_CODE_OK, if any. */
static int process_shards(const struct shards_request *request, char *const *paths, uint32_t count)
{
    int code = EXIT_CODE_OK;
    for (uint32_t i = 0; i < count && !atomic_load(request->is_unwanted); i++) {
        const int next = process_shard(request, paths[i]);
        code = code == EXIT_CODE_OK ? next : code;
    }
    return code;
}

static int process_folder(const struct shards_request *request, const char *path)
{
    struct shard_list list = { 0 };
    const int rc = shard_paths_in_folder(&list, path);
    const int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : process_shards(request, list.paths, list.count);
    shard_list_release(&list);
    return code;
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    (void)list;
    int code = EXIT_CODE_OK;
    if (request->output != NULL && (request->word_count > 1 || is_folder(request->words[0]))) {
        log_message(LOG_ERROR, "--output names one index, but there are several shards");
        return EXIT_CODE_USAGE;
    }
    for (uint32_t i = 0; i < request->word_count && !atomic_load(request->is_unwanted); i++) {
        char *const word = request->words[i];
        const int next = is_folder(word) ? process_folder(request, word) : process_shard(request, word);
        code = code == EXIT_CODE_OK ? next : code;
    }
    return code;
}

const struct shards_command command_index = {
    .name = "index",
    .words = "FILE...",
    .words_least = 1,
    .words_most = UINT32_MAX,
    .options = "ocf",
    .summary = "write FILE.idx for NVIDIA DALI, or compare one",
    .help = "Writes a line \"OFFSET SIZE\" for every record, as tfrecord2idx does. Compressed\n"
            "or damaged shards cannot be indexed. With --check, FILE is a shard or the\n"
            "index next to it: exit status 3 if the index is stale, truncated, of another\n"
            "file or in another order. A directory means all shards in it.\n\n"
            "  " SHARDS_PROGRAM " index imagenet\n"
            "  " SHARDS_PROGRAM " index imagenet/train-*\n"
            "  " SHARDS_PROGRAM " index train.tfrecord -o train.idx\n"
            "  " SHARDS_PROGRAM " index --check imagenet/train-*.idx\n"
            "  " SHARDS_PROGRAM " index --check train.tfrecord -o train.idx\n",
    .run = run,
};
