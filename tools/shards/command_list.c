/* pipetrain-shards list: print the number and the size of the records of shards, from their indexes. Called by the
 * main thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/unpacker.h"
#include "loader/shards/shard_index.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/shards/shards_command.h"

struct listing {
    struct json *json;          /* NULL: the output is text */
    const struct shards_request *request;
    uint64_t shards, records, bytes, damages;
};

/* The container of the shard ("plain", "gzip", ...), from the first bytes of the file. */
static const char *container_of(const struct shard_source *source)
{
    uint8_t head[CONTAINER_HEAD_BYTES];
    struct shard_source *file;
    if (source->ops->is_plain || shard_source_open(&file, &shard_file_ops, source->path) < 0)
        return container_name(CONTAINER_PLAIN);
    const ssize_t got = shard_source_read(file, head, sizeof(head), 0);
    shard_source_close(file);
    return container_name(container_find(head, got < 0 ? 0 : (size_t)got));
}

static void print_shard(const struct shard_source *source, const struct shard_index *index)
{
    char shown[1024];
    log_plain(source->path, shown, sizeof(shown));
    printf("%12" PRIu64 " %15" PRIu64 "  %-10s  %s", index->record_count, index->stamp.bytes, container_of(source),
           shown);
    if (index->damage_count > 0)
        printf(": %" PRIu64 " damage%s", index->damage_count, index->damage_count == 1 ? "" : "s");
    printf("\n");
}

static void json_shard(struct json *json, const struct shard_source *source, const struct shard_index *index)
{
    json_open_object(json, NULL);
    json_quoted(json, "path", source->path);
    json_u64(json, "records", index->record_count);
    json_u64(json, "bytes", index->stamp.bytes);
    json_quoted(json, "container", container_of(source));
    json_u64(json, "damages", index->damage_count);
    json_close_object(json);
}

static void add_shard(struct listing *listing, const struct shard_source *source, const struct shard_index *index)
{
    if (listing->json != NULL)
        json_shard(listing->json, source, index);
    else
        print_shard(source, index);
    listing->shards++;
    listing->records += index->record_count;
    listing->bytes += index->stamp.bytes;
    listing->damages += index->damage_count;
}

/* Print the contents of a shard. 0, or a negative errno after a message. */
static int list_shard(struct listing *listing, const char *path)
{
    struct shard_source *source;
    struct shard_index index;
    int rc = shards_source_open(&source, path);
    if (rc < 0)
        return rc;
    rc = shards_index_open(&index, source, listing->request, true);
    if (rc == 0) {
        add_shard(listing, source, &index);
        shard_index_release(&index);
    }
    shard_source_close(source);
    return rc;
}

/* List all shards that can be read. Returns an exit code. */
static int list_shards(struct listing *listing, const struct shard_list *list)
{
    int code = EXIT_CODE_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        const int rc = list_shard(listing, list->paths[i]);
        if (rc == -ECANCELED || rc == -ENOMEM)
            return rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_STOPPED;
        if (rc < 0)
            code = EXIT_CODE_DATA;
    }
    return listing->damages > 0 ? EXIT_CODE_DATA : code;
}

static int list_as_text(struct listing *listing, const struct shard_list *list)
{
    printf("%12s %15s  %-10s  %s\n", "records", "bytes", "container", "shard");
    const int code = list_shards(listing, list);
    printf("%12" PRIu64 " %15" PRIu64 "  in %" PRIu64 " shard%s\n", listing->records, listing->bytes, listing->shards,
           listing->shards == 1 ? "" : "s");
    if (listing->damages > 0)
        log_message(LOG_RUN, "there is damage: find it with " SHARDS_PROGRAM " check");
    return code;
}

static int list_as_json(struct listing *listing, const struct shard_list *list)
{
    struct json json;
    json_init(&json, true);
    listing->json = &json;
    json_open_object(&json, NULL);
    json_open_array(&json, "shards");
    int code = list_shards(listing, list);
    json_close_array(&json);
    json_u64(&json, "records", listing->records);
    json_u64(&json, "bytes", listing->bytes);
    json_u64(&json, "damages", listing->damages);
    json_close_object(&json);
    const char *const text = json_text(&json);
    if (text != NULL)
        puts(text);
    else
        code = EXIT_CODE_MEMORY;
    json_release(&json);
    return code;
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    struct listing listing = { .request = request };
    return request->is_json ? list_as_json(&listing, list) : list_as_text(&listing, list);
}

const struct shards_command command_list = {
    .name = "list",
    .words = "PATTERN...",
    .words_least = 1,
    .words_most = UINT32_MAX,
    .options = "J",
    .summary = "records, bytes and container of shards",
    .help = "Reads the index next to each shard, and creates it if there is none, for which\n"
            "only the headers of records are read. Payloads are not checked: use check for\n"
            "that.\n\n"
            "  " SHARDS_PROGRAM " list data/digits\n"
            "  " SHARDS_PROGRAM " list 'imagenet/train-*' --json\n",
    .takes_patterns = true,
    .run = run,
};
