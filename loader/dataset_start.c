/* Packs and unpacks what was found when a data set was opened. The numbers are in the machine's byte order, as an image is
 * only for processes of the same run:
 *
 *   u64 bytes of the catalog | catalog | i64 listed_ns of every shard | {u64 id, u64 bytes, frame} of every record */
#include "loader/dataset_start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset.h"
#include "loader/shards/shard_list.h"

#define RECORD_HEAD_BYTES (2 * sizeof(uint64_t))

/* ---- records ---- */

const struct start_record *start_records_find(const struct start_records *records, uint64_t id)
{
    for (size_t i = 0; i < records->count; i++)
        if (records->records[i].id == id)
            return &records->records[i];
    return NULL;
}

int start_records_add(struct start_records *records, uint64_t id, const uint8_t *frame, size_t bytes)
{
    if (start_records_find(records, id) != NULL)
        return 0;
    struct start_record *const grown = realloc(records->records, (records->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    records->records = grown;
    uint8_t *const copy = malloc(bytes + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, frame, bytes);
    grown[records->count++] = (struct start_record){ .id = id, .bytes = bytes, .frame = copy };
    return 0;
}

void start_records_release(struct start_records *records)
{
    for (size_t i = 0; i < records->count; i++)
        free(records->records[i].frame);
    free(records->records);
    *records = (struct start_records){ 0 };
}

/* ---- names ---- */

/* The name of a shard in the catalog: by its number, as shards in several folders may have the same name. */
static char *make_name(uint32_t shard, const char *path)
{
    char *name;
    return asprintf(&name, "%010" PRIu32 "-%s", shard, path) < 0 ? NULL : name;
}

const struct catalog_shard *dataset_start_find(const struct dataset_start *start, uint32_t shard, const char *name)
{
    char *const key = make_name(shard, name);
    const struct catalog_shard *const found = key != NULL ? catalog_find(&start->catalog, key) : NULL;
    free(key);
    return found;
}

const char *dataset_start_name(const struct dataset_start *start, uint32_t shard)
{
    const char *const key = start->catalog.shards[shard].name, *const dash = strchr(key, '-');
    return dash != NULL ? dash + 1 : key;
}

/* ---- packing ---- */

static bool is_whole(const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        if (dataset->sources[i] == NULL || dataset->indexes[i].gap_count > 0 || dataset->missing_records[i] > 0)
            return false;
    return true;
}

static int describe(const struct dataset *dataset, struct catalog_entry *entries)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        struct shard_index *const index = &dataset->indexes[i];
        const int rc = index->listed_in == NULL ? shard_fingerprint(index, dataset->sources[i], &index->fingerprint) : 0;
        char *const name = rc == 0 ? make_name(i, shard_base_name(dataset->paths[i])) : NULL;
        if (name == NULL)
            return rc < 0 ? rc : -ENOMEM;
        entries[i] = (struct catalog_entry){ .name = name, .index = index,
                                             .is_packed = !dataset->sources[i]->ops->is_plain };
    }
    return 0;
}

static uint8_t *put(uint8_t *at, const void *data, size_t bytes)
{
    memcpy(at, data, bytes);
    return at + bytes;
}

/* Append what is not in the catalog. */
static int join(const uint8_t *catalog, uint64_t catalog_bytes, const struct dataset *dataset, uint8_t **image_out,
                size_t *bytes_out)
{
    const struct start_records *const records = &dataset->start;
    size_t bytes = sizeof(catalog_bytes) + catalog_bytes + dataset->shard_count * sizeof(int64_t);
    for (size_t i = 0; i < records->count; i++)
        bytes += RECORD_HEAD_BYTES + records->records[i].bytes;
    uint8_t *const image = malloc(bytes);
    if (image == NULL)
        return -ENOMEM;
    uint8_t *at = put(image, &catalog_bytes, sizeof(catalog_bytes));
    at = put(at, catalog, catalog_bytes);
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        at = put(at, &dataset->indexes[i].listed_ns, sizeof(int64_t));
    for (size_t i = 0; i < records->count; i++) {
        const uint64_t head[2] = { records->records[i].id, records->records[i].bytes };
        at = put(at, head, sizeof(head));
        at = put(at, records->records[i].frame, records->records[i].bytes);
    }
    *image_out = image;
    *bytes_out = bytes;
    return 0;
}

int dataset_start_pack(const struct dataset *dataset, uint8_t **image_out, size_t *bytes_out)
{
    if (!is_whole(dataset))
        return -ENOTSUP;
    struct catalog_entry *const entries = calloc((size_t)dataset->shard_count + 1, sizeof(*entries));
    uint8_t *catalog = NULL;
    size_t bytes = 0;
    int rc = entries != NULL ? describe(dataset, entries) : -ENOMEM;
    if (rc == 0)
        rc = catalog_pack(entries, dataset->shard_count, &catalog, &bytes);
    if (rc == 0)
        rc = join(catalog, bytes, dataset, image_out, bytes_out);
    for (uint32_t i = 0; entries != NULL && i < dataset->shard_count; i++)
        free((char *)(uintptr_t)entries[i].name);
    free(entries);
    free(catalog);
    return rc;
}

/* ---- unpacking ---- */

static int parse_records(struct start_records *records, const uint8_t *at, size_t left)
{
    int rc = 0;
    while (rc == 0 && left > 0) {
        uint64_t head[2] = { 0, UINT64_MAX };
        if (left >= sizeof(head))
            memcpy(head, at, sizeof(head));
        if (left < sizeof(head) || head[1] > left - sizeof(head))
            return -EBADMSG;
        rc = start_records_add(records, head[0], at + sizeof(head), head[1]);
        at += sizeof(head) + head[1];
        left -= sizeof(head) + head[1];
    }
    return rc;
}

/* Copy listed_ns of all shards; *at is advanced. */
static int parse_times(struct dataset_start *start, const uint8_t **at, size_t left)
{
    const size_t bytes = start->catalog.shard_count * sizeof(int64_t);
    if (left < bytes)
        return -EBADMSG;
    start->listed_ns = malloc(bytes + 1);
    if (start->listed_ns == NULL)
        return -ENOMEM;
    memcpy(start->listed_ns, *at, bytes);
    *at += bytes;
    return 0;
}

int dataset_start_parse(struct dataset_start *start_out, const uint8_t *image, size_t bytes)
{
    struct dataset_start start = { 0 };
    uint64_t catalog_bytes = UINT64_MAX;
    char problem[256];
    if (bytes >= sizeof(catalog_bytes))
        memcpy(&catalog_bytes, image, sizeof(catalog_bytes));
    if (bytes < sizeof(catalog_bytes) || catalog_bytes > bytes - sizeof(catalog_bytes))
        return -EBADMSG;
    uint8_t *const catalog = malloc(catalog_bytes + 1);
    if (catalog == NULL)
        return -ENOMEM;
    memcpy(catalog, image + sizeof(catalog_bytes), catalog_bytes);
    const uint8_t *at = image + sizeof(catalog_bytes) + catalog_bytes, *const end = image + bytes;
    int rc = catalog_parse(&start.catalog, catalog, catalog_bytes, problem, sizeof(problem));
    if (rc == 0)
        rc = parse_times(&start, &at, (size_t)(end - at));
    if (rc == 0)
        rc = parse_records(&start.records, at, (size_t)(end - at));
    if (rc < 0)
        dataset_start_release(&start);
    else
        *start_out = start;
    return rc;
}

void dataset_start_release(struct dataset_start *start)
{
    catalog_release(&start->catalog);
    free(start->listed_ns);
    start->listed_ns = NULL;
    start_records_release(&start->records);
}
