/* Catalogs of shards. Called while a data set is opened, and by pipetrain-shards. */
#include "loader/shards/catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "formats/little_endian.h"
#include "stage/file/file.h"
#include "stage/file/folders.h"

#define CATALOG_MAGIC "PTCATLG"
#define CATALOG_VERSION 1u
#define HEADER_BYTES 40u
#define CHECKSUM_AT 16u
#define ENTRY_BYTES 48u
#define FLAG_PACKED 1u
#define CACHE_SUFFIX ".pipetrain-catalog"

/* The header: magic (8 bytes), version and number of shards (uint32), checksum, number of records and bytes of names
 * (uint64). */
struct catalog_header {
    uint32_t version, shard_count;
    uint64_t checksum, record_count, names_bytes;
};

static bool find_size(const struct catalog_header *header, uint64_t *bytes_out)
{
    uint64_t lengths_bytes, bytes = HEADER_BYTES + (uint64_t)header->shard_count * ENTRY_BYTES;
    return !__builtin_mul_overflow(header->record_count, sizeof(uint32_t), &lengths_bytes)
        && !__builtin_add_overflow(bytes, lengths_bytes, &bytes)
        && !__builtin_add_overflow(bytes, header->names_bytes, bytes_out);
}

/* The checksum of an image as if its checksum were 0. */
static uint64_t image_checksum(uint8_t *image, size_t bytes)
{
    uint8_t stored[sizeof(uint64_t)];
    memcpy(stored, image + CHECKSUM_AT, sizeof(stored));
    memset(image + CHECKSUM_AT, 0, sizeof(stored));
    const uint64_t checksum = XXH3_64bits(image, bytes);
    memcpy(image + CHECKSUM_AT, stored, sizeof(stored));
    return checksum;
}

/* ---- reading: the file is not trusted, since its checksum detects damage, but not forgery ---- */

static int refuse(char *problem, size_t problem_size, const char *text)
{
    snprintf(problem, problem_size, "%s: " CATALOG_ADVICE, text);
    return -EBADMSG;
}

static int check_header(struct catalog_header *header, uint8_t *image, size_t bytes, char *problem, size_t problem_size)
{
    char text[128];
    uint64_t expected = 0;
    if (bytes < HEADER_BYTES || memcmp(image, CATALOG_MAGIC, sizeof(CATALOG_MAGIC)) != 0)
        return refuse(problem, problem_size, "is not a catalog");
    *header = (struct catalog_header){ .version = little_endian_get32(image + 8),
                                       .shard_count = little_endian_get32(image + 12),
                                       .checksum = little_endian_get64(image + CHECKSUM_AT),
                                       .record_count = little_endian_get64(image + 24),
                                       .names_bytes = little_endian_get64(image + 32) };
    if (header->version != CATALOG_VERSION) {
        snprintf(text, sizeof(text), "is of version %" PRIu32 ", this program reads version %u", header->version,
                 CATALOG_VERSION);
        return refuse(problem, problem_size, text);
    }
    if (!find_size(header, &expected) || expected != bytes) {
        snprintf(text, sizeof(text), "is %zu bytes long, its counts say %" PRIu64, bytes, expected);
        return refuse(problem, problem_size, text);
    }
    if (image_checksum(image, bytes) != header->checksum)
        return refuse(problem, problem_size, "its checksum differs");
    return 0;
}

/* Do the lengths add up to the stream, and is none too long? */
static bool lengths_fit(const struct catalog_shard *shard)
{
    uint64_t bytes = shard->record_count * TFRECORD_FRAME_BYTES;
    for (uint64_t i = 0; i < shard->record_count; i++) {
        const uint32_t length = little_endian_get32(shard->lengths + i * sizeof(uint32_t));
        if (length > TFRECORD_PAYLOAD_MAX || length > shard->stream_bytes - bytes)
            return false;
        bytes += length;
    }
    return bytes == shard->stream_bytes;
}

static bool is_file_name(const char *name)
{
    return *name != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Unpack the entry of a shard. `names` and `lengths` point to what is left of both, and are advanced. */
static bool unpack_shard(struct catalog_shard *shard, const uint8_t *entry, const char **names, const char *names_end,
                         const uint8_t **lengths, uint64_t *records_left)
{
    const uint32_t flags = little_endian_get32(entry + 40), name_bytes = little_endian_get32(entry + 44);
    *shard = (struct catalog_shard){ .stored_bytes = little_endian_get64(entry),
                                     .stream_bytes = little_endian_get64(entry + 8),
                                     .record_count = little_endian_get64(entry + 16),
                                     .contents = little_endian_get64(entry + 24),
                                     .fingerprint = little_endian_get64(entry + 32), .is_packed = flags == FLAG_PACKED,
                                     .name = *names, .lengths = *lengths };
    if (flags > FLAG_PACKED || name_bytes == 0 || name_bytes > (size_t)(names_end - *names) ||
        memchr(*names, 0, name_bytes) != *names + name_bytes - 1 || !is_file_name(*names))
        return false;
    if (shard->record_count > *records_left || shard->record_count > shard->stream_bytes / TFRECORD_FRAME_BYTES ||
        (!shard->is_packed && shard->stored_bytes != shard->stream_bytes) || !lengths_fit(shard))
        return false;
    *names += name_bytes;
    *lengths += shard->record_count * sizeof(uint32_t);
    *records_left -= shard->record_count;
    return true;
}

static bool unpack_shards(struct catalog *catalog, const struct catalog_header *header)
{
    const uint8_t *entry = catalog->image + HEADER_BYTES;
    const uint8_t *lengths = entry + (size_t)header->shard_count * ENTRY_BYTES;
    const char *names = (const char *)lengths + header->record_count * sizeof(uint32_t);
    const char *const names_end = names + header->names_bytes;
    uint64_t records_left = header->record_count;
    for (uint32_t i = 0; i < header->shard_count; i++, entry += ENTRY_BYTES) {
        struct catalog_shard *const shard = &catalog->shards[i];
        if (!unpack_shard(shard, entry, &names, names_end, &lengths, &records_left) ||
            (i > 0 && strcmp(shard[-1].name, shard->name) >= 0))
            return false;
    }
    return names == names_end && records_left == 0;
}

int catalog_parse(struct catalog *catalog_out, uint8_t *image, size_t bytes, char *problem_out, size_t problem_size)
{
    struct catalog catalog = { .image = image, .image_bytes = bytes };
    struct catalog_header header;
    int rc = check_header(&header, image, bytes, problem_out, problem_size);
    if (rc == 0) {
        catalog.shards = calloc((size_t)header.shard_count + 1, sizeof(*catalog.shards));
        catalog.shard_count = header.shard_count;
        catalog.record_count = header.record_count;
        rc = catalog.shards != NULL ? 0 : -ENOMEM;
    }
    if (rc == 0 && !unpack_shards(&catalog, &header))
        rc = refuse(problem_out, problem_size, "contradicts itself");
    if (rc < 0)
        catalog_release(&catalog);
    else
        *catalog_out = catalog;
    return rc;
}

bool catalog_path_beside(const char *folder, char *path_out, size_t path_size)
{
    const size_t bytes = strlen(folder);
    const int wanted = snprintf(path_out, path_size, "%s%s" CATALOG_FILE, folder,
                                bytes > 0 && folder[bytes - 1] != '/' ? "/" : "");
    return wanted > 0 && (size_t)wanted < path_size;
}

bool catalog_path_in_cache(const char *folder, char *path_out, size_t path_size)
{
    char cache[PATH_MAX], absolute[PATH_MAX];
    if (!cache_folder_find(cache, sizeof(cache)) || realpath(*folder != '\0' ? folder : ".", absolute) == NULL)
        return false;
    const int wanted = snprintf(path_out, path_size, "%s/%016" PRIx64 CACHE_SUFFIX, cache,
                                (uint64_t)XXH3_64bits(absolute, strlen(absolute)));
    return wanted > 0 && (size_t)wanted < path_size;
}

int catalog_read(struct catalog *catalog_out, const char *folder, char *path_out, size_t path_size, char *problem_out,
                 size_t problem_size)
{
    uint8_t *image;
    size_t bytes;
    int rc = -ENOENT;
    if (catalog_path_beside(folder, path_out, path_size))
        rc = file_load(path_out, SIZE_MAX, &image, &bytes);
    if (rc == -ENOENT && catalog_path_in_cache(folder, path_out, path_size))
        rc = file_load(path_out, SIZE_MAX, &image, &bytes);
    if (rc == 0)
        return catalog_parse(catalog_out, image, bytes, problem_out, problem_size);
    if (rc != -ENOENT)
        snprintf(problem_out, problem_size, "cannot be read: %s", file_load_problem(rc));
    return rc;
}

void catalog_release(struct catalog *catalog)
{
    free(catalog->image);
    free(catalog->shards);
    *catalog = (struct catalog){ 0 };
}

static int compare_name(const void *name, const void *shard)
{
    return strcmp(name, ((const struct catalog_shard *)shard)->name);
}

const struct catalog_shard *catalog_find(const struct catalog *catalog, const char *name)
{
    return catalog->shard_count == 0 ? NULL : bsearch(name, catalog->shards, catalog->shard_count,
                                                      sizeof(*catalog->shards), compare_name);
}

int catalog_index(const struct catalog_shard *shard, const char *listed_in, struct shard_index *index_out)
{
    struct shard_index index = { .stamp.bytes = shard->stored_bytes, .bytes = shard->stream_bytes,
                                 .contents = shard->contents, .fingerprint = shard->fingerprint,
                                 .listed_in = listed_in };
    int rc = shard_index_reserve(&index, shard->record_count);
    for (uint64_t i = 0; i < shard->record_count && rc == 0; i++)
        rc = shard_index_add_record(&index, little_endian_get32(shard->lengths + i * sizeof(uint32_t)));
    if (rc < 0) {
        shard_index_release(&index);
        return rc;
    }
    *index_out = index;
    atomic_store(&index_out->is_unproved, true);
    return 0;
}

/* ---- writing ---- */

/* The records of a shard, also those that are left out of its index. */
static uint64_t records_of(const struct catalog_entry *entry)
{
    return entry->index->record_count + entry->index->left_out;
}

static uint8_t *put_entry(uint8_t *at, const struct catalog_entry *entry)
{
    const struct shard_index *const index = entry->index;
    const uint64_t numbers[] = { index->stamp.bytes, index->bytes, records_of(entry), index->contents,
                                 index->fingerprint };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        at = little_endian_put64(at, numbers[i]);
    at = little_endian_put32(at, entry->is_packed ? FLAG_PACKED : 0);
    return little_endian_put32(at, (uint32_t)strlen(entry->name) + 1);
}

static void pack(const struct catalog_entry *entries, const struct catalog_header *header, uint8_t *image, size_t bytes)
{
    uint8_t *at = image + sizeof(CATALOG_MAGIC);
    memcpy(image, CATALOG_MAGIC, sizeof(CATALOG_MAGIC));
    at = little_endian_put32(at, header->version);
    at = little_endian_put32(at, header->shard_count);
    at = little_endian_put64(at, 0);
    at = little_endian_put64(at, header->record_count);
    at = little_endian_put64(at, header->names_bytes);
    for (uint32_t i = 0; i < header->shard_count; i++)
        at = put_entry(at, &entries[i]);
    for (uint32_t i = 0; i < header->shard_count; i++)
        for (uint64_t j = 0; j < records_of(&entries[i]); j++)
            at = little_endian_put32(at, entries[i].index->lengths[j]);
    for (uint32_t i = 0; i < header->shard_count; i++)
        at = (uint8_t *)stpcpy((char *)at, entries[i].name) + 1;
    little_endian_put64(image + CHECKSUM_AT, image_checksum(image, bytes));
}

int catalog_pack(const struct catalog_entry *entries, uint32_t count, uint8_t **image_out, size_t *bytes_out)
{
    struct catalog_header header = { .version = CATALOG_VERSION, .shard_count = count };
    uint64_t bytes;
    for (uint32_t i = 0; i < count; i++) {
        header.record_count += records_of(&entries[i]);
        header.names_bytes += strlen(entries[i].name) + 1;
    }
    if (!find_size(&header, &bytes) || bytes > SIZE_MAX)
        return -EOVERFLOW;
    uint8_t *const image = malloc(bytes);
    if (image == NULL)
        return -ENOMEM;
    pack(entries, &header, image, bytes);
    *image_out = image;
    *bytes_out = bytes;
    return 0;
}
