/* Shards as input of a conversion. Opened by main while the tfrecord converter prepares, read by any thread. */
#include "tools/convert/records/record_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/shards/frame_text.h"

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

int record_set_open(struct record_set *set, struct shard_list *list, const atomic_bool *interrupted, struct stop *stop)
{
    *set = (struct record_set){ .list = *list };
    *list = (struct shard_list){ 0 };
    set->shards = calloc(set->list.count + 1, sizeof(*set->shards));
    if (set->shards == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for %u shards", set->list.count);
        return -ENOMEM;
    }
    int rc = 0;
    for (uint32_t i = 0; i < set->list.count && rc == 0; i++)
        rc = open_shard(set, i, interrupted, stop);
    return rc;
}

void record_set_close(struct record_set *set)
{
    for (uint32_t i = 0; set->shards != NULL && i < set->list.count; i++) {
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

    frame_text(check, problem, text, sizeof(text));
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

    const ssize_t got = shard_source_read(shard->source, frame, (size_t)place->payload_bytes + TFRECORD_FRAME_BYTES,
                                          place->offset);
    if (got < 0) {
        stop_fail(stop, exit_code_of((int)got, EXIT_CODE_DATA), "%s: record %" PRIu64 " cannot be read: %s",
                  shard->source->path, record, exit_cause((int)got));
        return (int)got;
    }
    const enum tfrecord_check check = tfrecord_verify(frame, (size_t)got, &payload_bytes, &problem);
    if (check != TFRECORD_OK)
        return fail(shard, record, check, &problem, stop);
    *payload_out = frame + TFRECORD_HEADER_BYTES;
    *bytes_out = (size_t)payload_bytes;
    return 0;
}
