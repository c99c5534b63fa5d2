/* Statistics of the labels, payloads and images of records. Each thread of a scan gathers its own statistics, which are
 * merged at the end: the result does not depend on the threads. */
#ifndef PIPETRAIN_SHARDS_STATISTICS
#define PIPETRAIN_SHARDS_STATISTICS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/found_sample.h"

struct tally_entry {
    int64_t first, second;      /* the key */
    uint64_t count;             /* > 0 */
};

/* Zero it first. One thread at a time. */
struct tally {
    struct tally_entry *entries;        /* owned; until tally_sort a hash table: count 0 is free */
    size_t count;                       /* different keys */
    size_t room;                        /* a power of two */
};

/* Add `count` to the count of a key. 0 or -ENOMEM. */
int tally_add(struct tally *tally, int64_t first, int64_t second, uint64_t count);
/* Add all counts of another tally. 0 or -ENOMEM. */
int tally_merge(struct tally *tally, const struct tally *other);
/* Move the `count` entries to the front, sorted by `compare`. No key may be added afterwards. */
void tally_sort(struct tally *tally, int (*compare)(const void *a, const void *b));
/* Orders for tally_sort: by key; by count, largest first, and then by key. */
int tally_by_key(const void *a, const void *b);
int tally_by_count(const void *a, const void *b);
void tally_release(struct tally *tally);

/* Zero it first. */
struct shards_statistics {
    uint64_t records;
    uint64_t unlabelled;        /* records without an integer label */
    uint64_t turned;            /* images that their EXIF orientation rotates */
    uint64_t payload_bytes;
    struct tally labels;        /* first: the label */
    struct tally payloads;      /* first: bytes */
    struct tally images;        /* first, second: see shards_statistics_image */
};

/* Add a record. 0 or -ENOMEM. */
int shards_statistics_add(struct shards_statistics *statistics, const struct found_sample *sample,
                          size_t payload_bytes);
int shards_statistics_merge(struct shards_statistics *statistics, const struct shards_statistics *other);
void shards_statistics_release(struct shards_statistics *statistics);

/* The kind and size of the images that an entry of `images` counts. */
struct found_sample shards_statistics_image(const struct tally_entry *entry);
/* The median of the keys of a tally that is sorted by key. */
int64_t shards_statistics_median(const struct tally *tally);
/* The label_offset that moves labels from `least` to `most` into [0, classes): 0 if they are in it, else the one that
 * makes the least 0. False if there are too many labels. */
bool shards_statistics_offset(int64_t least, int64_t most, uint64_t classes, int64_t *offset_out);

#endif
