/* Shards as input of a conversion. Opened by main while the tfrecord converter prepares, read by any thread. */
#include "tools/convert/records/record_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_index.h"
#include "tools/convert/progress.h"

#define PIECE_BYTES ((uint64_t)16 << 20)

static int open_shard(struct record_set *set, uint32_t number, const atomic_bool *interrupted, struct stop *stop)
{
    const struct shard_index_options options = { .is_unwanted = interrupted };
    struct record_shard *const shard = &set->shards[number];
    char problem[4096];

    int rc = shard_source_open(&shard->source, NULL, set->list.paths[number]);
    if (rc < 0) {
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: cannot be read: %s", set->list.paths[number],
                  exit_cause(rc));
        return rc;
    }
    rc = shard_index_open(&shard->index, shard->source, &options, problem, sizeof(problem));
    if (rc < 0 && rc != -ECANCELED)
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s", problem);
    if (rc < 0)
        return rc;
    shard->first = set->record_count;
    set->record_count += shard->index.record_count;
    for (uint64_t i = 0; i < shard->index.record_count; i++) {
        const uint32_t bytes = shard->index.records[i].payload_bytes;
        set->bytes += bytes + TFRECORD_FRAME_BYTES;
        set->payload_bytes_max = bytes > set->payload_bytes_max ? bytes : set->payload_bytes_max;
    }
    return 0;
}

/* A file that is not there, or no file, counts nothing: opening it tells. */
static uint64_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static int open_shards(struct record_set *set, const atomic_bool *interrupted, struct stop *stop)
{
    struct progress progress;
    uint64_t bytes = 0;
    int rc = 0;

    for (uint32_t i = 0; i < set->list.count; i++)
        bytes += file_bytes(set->list.paths[i]);
    progress_begin_bytes(&progress, "looking for records", bytes);
    for (uint32_t i = 0; i < set->list.count && rc == 0; i++) {
        rc = open_shard(set, i, interrupted, stop);
        progress_add(&progress, file_bytes(set->list.paths[i]));
    }
    progress_end(&progress);
    return rc;
}

int record_set_open(struct record_set *set, struct shard_list *list, const atomic_bool *interrupted, struct stop *stop)
{
    *set = (struct record_set){ .list = *list };
    *list = (struct shard_list){ 0 };
    set->shards = calloc(set->list.count + 1, sizeof(*set->shards));
    if (set->shards == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for %u shards", set->list.count);
        return -ENOMEM;
    }
    return open_shards(set, interrupted, stop);
}

/* Read a shard's stream to its block. */
static int read_stream(struct record_shard *shard, const atomic_bool *interrupted, struct stop *stop)
{
    const uint64_t all = shard->index.bytes;

    for (uint64_t at = 0; at < all;) {
        const size_t bytes = all - at < PIECE_BYTES ? (size_t)(all - at) : PIECE_BYTES;
        if (atomic_load(interrupted))
            return -ECANCELED;
        const ssize_t got = shard_source_read(shard->source, shard->stream + at, bytes, at);
        if (got != (ssize_t)bytes) {
            stop_fail(stop, EXIT_CODE_DATA, "%s: cannot be read: %s", shard->source->path,
                      got < 0 ? exit_cause((int)got) : "it has become shorter");
            return got < 0 ? (int)got : -EBADMSG;
        }
        at += bytes;
    }
    return 0;
}

/* Of the streams of all compressed shards. */
static uint64_t packed_bytes(const struct record_set *set)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->list.count; i++)
        bytes += set->shards[i].source->ops->is_plain ? 0 : set->shards[i].index.bytes;
    return bytes;
}

int record_set_keep(struct record_set *set, const atomic_bool *interrupted, bool *all_out, struct stop *stop)
{
    uint64_t left = RECORD_SET_KEPT_MAX;
    struct progress progress;
    bool all = true;
    int rc = 0;

    progress_begin_bytes(&progress, "unpacking", packed_bytes(set));
    for (uint32_t i = 0; i < set->list.count && rc == 0; i++) {
        struct record_shard *const shard = &set->shards[i];
        if (shard->source->ops->is_plain)
            continue;
        shard->stream = shard->index.bytes <= left ? malloc(shard->index.bytes + 1) : NULL;
        if (shard->stream != NULL) {
            left -= shard->index.bytes;
            rc = read_stream(shard, interrupted, stop);
        } else {
            all = false;
        }
        progress_add(&progress, shard->index.bytes);
    }
    progress_end(&progress);
    *all_out = all;
    return rc;
}

void record_set_close(struct record_set *set)
{
    for (uint32_t i = 0; set->shards != NULL && i < set->list.count; i++) {
        free(set->shards[i].stream);
        shard_index_release(&set->shards[i].index);
        shard_source_close(set->shards[i].source);
    }
    free(set->shards);
    shard_list_release(&set->list);
    *set = (struct record_set){ 0 };
}

size_t record_set_frame_bytes(const struct record_set *set)
{
    return (size_t)set->payload_bytes_max + TFRECORD_FRAME_BYTES;
}

/* The shard that holds a record: the last one that begins at or before it. */
static const struct record_shard *find_shard(const struct record_set *set, uint64_t number)
{
    uint32_t low = 0, high = set->list.count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (set->shards[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &set->shards[low];
}

static int fail(const struct record_shard *shard, uint64_t record, enum tfrecord_check check,
                const struct tfrecord_problem *problem, struct stop *stop)
{
    char text[256];

    frame_problem_describe(check, problem, text, sizeof(text));
    stop_fail(stop, EXIT_CODE_DATA, "%s: record %" PRIu64 " at byte %" PRIu64 ": %s", shard->source->path, record,
              shard->index.records[record].offset, text);
    return -EBADMSG;
}

int record_set_read(const struct record_set *set, uint64_t number, uint8_t *frame, const uint8_t **payload_out,
                    size_t *bytes_out, struct stop *stop)
{
    const struct record_shard *const shard = find_shard(set, number);
    const uint64_t record = number - shard->first;
    const struct shard_record *const place = &shard->index.records[record];
    struct tfrecord_problem problem;
    uint64_t payload_bytes;

    const size_t frame_bytes = (size_t)place->payload_bytes + TFRECORD_FRAME_BYTES;
    const uint8_t *const at = shard->stream != NULL ? shard->stream + place->offset : frame;
    const ssize_t got = shard->stream != NULL ? (ssize_t)frame_bytes
                                              : shard_source_read(shard->source, frame, frame_bytes, place->offset);
    if (got < 0) {
        stop_fail(stop, exit_code_of((int)got, EXIT_CODE_DATA), "%s: record %" PRIu64 " cannot be read: %s",
                  shard->source->path, record, exit_cause((int)got));
        return (int)got;
    }
    const enum tfrecord_check check = tfrecord_verify(at, (size_t)got, &payload_bytes, &problem);
    if (check != TFRECORD_OK)
        return fail(shard, record, check, &problem, stop);
    *payload_out = at + TFRECORD_HEADER_BYTES;
    *bytes_out = (size_t)payload_bytes;
    return 0;
}

void record_set_name(const struct record_set *set, uint64_t number, char *text, size_t text_size)
{
    const struct record_shard *const shard = find_shard(set, number);
    const uint64_t record = number - shard->first;

    snprintf(text, text_size, "%s: record %" PRIu64 " at byte %" PRIu64, shard->source->path, record,
             shard->index.records[record].offset);
}
