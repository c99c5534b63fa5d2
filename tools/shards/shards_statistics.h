/* What the records of shards have in common, and how they differ: labels, payloads, images. Each thread of a scan
 * gathers its own, and they are put together at the end, so that nothing depends on the threads. */
#ifndef PIPETRAIN_SHARDS_STATISTICS_H
#define PIPETRAIN_SHARDS_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/found_sample.h"
#include "tools/shards/tally.h"

/* Filled with zeros to begin with. */
struct shards_statistics {
    uint64_t records;
    uint64_t unlabelled;        /* records without an integer label */
    uint64_t turned;            /* images that are not upright by their EXIF data */
    uint64_t payload_bytes;
    struct tally labels;        /* first: the label */
    struct tally payloads;      /* first: bytes */
    struct tally images;        /* first, second: as shards_statistics_image reads them */
};

/* Add a record. 0 or -ENOMEM. */
int shards_statistics_add(struct shards_statistics *statistics, const struct found_sample *sample,
                          size_t payload_bytes);
int shards_statistics_merge(struct shards_statistics *statistics, const struct shards_statistics *other);
void shards_statistics_release(struct shards_statistics *statistics);

/* The image an entry of `images` counts: its kind and sizes. */
struct found_sample shards_statistics_image(const struct tally_entry *entry);
/* The key below which lie half of what is counted, in a tally that is sorted by key. */
int64_t shards_statistics_median(const struct tally *tally);
/* What has to be added to labels from `least` to `most` so that they are in [0, classes): nothing if they are there,
 * else what makes the least 0. False when they are too many. */
bool shards_statistics_offset(int64_t least, int64_t most, uint64_t classes, int64_t *offset_out);

#endif
