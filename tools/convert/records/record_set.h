/* The records of shards that are there, however they are kept, as one numbered list. */
#ifndef PIPETRAIN_RECORD_SET_H
#define PIPETRAIN_RECORD_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/shard_source.h"
#include "stage/stop.h"

#define RECORD_SET_KEPT_MAX ((uint64_t)1 << 30)

struct record_shard {
    struct shard_source *source;
    struct shard_index index;
    uint64_t first;             /* number of its first record in the set */
    uint8_t *stream;            /* all of it, where it is compressed and kept; else NULL */
};

struct record_set {
    struct shard_list list;
    struct record_shard *shards;    /* of every path of the list */
    uint64_t record_count;
    uint64_t bytes;             /* of all frames */
    uint32_t payload_bytes_max;
};

/* Open and index the shards of `list`, which the set owns from here on. 0, -ECANCELED when interrupted, or a negative
 * errno after stop_fail, as for damaged shards; record_set_close in all cases. */
int record_set_open(struct record_set *set, struct shard_list *list, const atomic_bool *interrupted, struct stop *stop);
/* Accepts a struct of zeros. */
void record_set_close(struct record_set *set);

/* Keep the streams of compressed shards in memory, as far as RECORD_SET_KEPT_MAX bytes go, for reading in another order
 * than that of the shards: without, every record costs unpacking what lies before it. *all_out: all were kept. 0,
 * -ECANCELED when interrupted, or a negative errno after stop_fail. */
int record_set_keep(struct record_set *set, const atomic_bool *interrupted, bool *all_out, struct stop *stop);

/* Bytes of a frame with the largest payload. */
size_t record_set_frame_bytes(const struct record_set *set);
/* The verified payload of record `number`, which may lie in `frame`, with room for record_set_frame_bytes. Any thread.
 * 0, or a negative errno after stop_fail. */
int record_set_read(const struct record_set *set, uint64_t number, uint8_t *frame, const uint8_t **payload_out,
                    size_t *bytes_out, struct stop *stop);
/* What to call record `number`: its shard, and its place in it. */
void record_set_name(const struct record_set *set, uint64_t number, char *text, size_t text_size);

#endif
