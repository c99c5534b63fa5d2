/* Statistics of the labels, payloads and images of records. Each thread of a scan gathers its own statistics, which
 * are merged at the end: the result does not depend on the number of threads. */
#ifndef PIPETRAIN_SHARDS_STATISTICS
#define PIPETRAIN_SHARDS_STATISTICS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/found_sample.h"

struct value_count {
    int64_t first, second;      /* the key */
    uint64_t count;             /* > 0 */
};

/* A count for each key. Initialised with zeros. Used by one thread at a time. */
struct value_counts {
    /* owned; a hash table, in which count 0 marks a free entry, until value_counts_sort */
    struct value_count *entries;
    size_t count;                       /* number of different keys */
    size_t room;                        /* allocated entries, a power of two */
};

/* Add `count` to the count of the key (first, second). 0 or -ENOMEM. */
int value_counts_add(struct value_counts *counts, int64_t first, int64_t second, uint64_t count);
/* Add all counts of `other`. 0 or -ENOMEM. */
int value_counts_merge(struct value_counts *counts, const struct value_counts *other);
/* Move the used entries to the front, sorted by `compare`. No key may be added afterwards. */
void value_counts_sort(struct value_counts *counts, int (*compare)(const void *a, const void *b));
/* Orders for value_counts_sort: by key; or by count, largest first, and among equal counts by key. */
int value_counts_by_key(const void *a, const void *b);
int value_counts_by_count(const void *a, const void *b);
void value_counts_release(struct value_counts *counts);

/* Initialised with zeros. */
struct shards_statistics {
    uint64_t records;
    uint64_t unlabelled;        /* number of records without an integer label */
    uint64_t turned;            /* number of images with another EXIF orientation than upright */
    uint64_t payload_bytes;
    struct value_counts labels;        /* key: first is the label */
    struct value_counts payloads;      /* key: first is the number of bytes */
    struct value_counts images;        /* key: see shards_statistics_image */
};

/* Add a record. 0 or -ENOMEM. */
int shards_statistics_add(struct shards_statistics *statistics, const struct found_sample *sample,
                          size_t payload_bytes);
int shards_statistics_merge(struct shards_statistics *statistics, const struct shards_statistics *other);
void shards_statistics_release(struct shards_statistics *statistics);

/* The kind and size of the images that an entry of `images` counts. */
struct found_sample shards_statistics_image(const struct value_count *entry);
/* The median of the keys, weighted with their counts; the entries must be sorted by key. */
int64_t shards_statistics_median(const struct value_counts *counts);
/* Find the label_offset that moves the labels from `least` to `most` into [0, classes): 0 if they are already there,
 * else the offset that makes the smallest label 0. False if there are too many labels. */
bool shards_statistics_offset(int64_t least, int64_t most, uint64_t classes, int64_t *offset_out);

#endif
