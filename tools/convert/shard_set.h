/* A set of shard files that appears in a directory all at once: everything is written under
 * temporary names, and only when all of it is on the disk do the files get their names (set_commit.h).
 * A run that dies before leaves the directory as it was, but for temporaries that the next one removes;
 * one that dies later leaves what the next one finishes. A directory with a manifest (dataset.json) holds
 * a complete set. */
#ifndef PIPETRAIN_SHARD_SET_H
#define PIPETRAIN_SHARD_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"
#include "stage/stop.h"
#include "tools/convert/images/image_tally.h"
#include "tools/convert/packing.h"
#include "tools/convert/set_folder.h"

#define SAMPLE_VALUES_MAX 16u
#define SHARD_COUNT_MAX 99999u
#define MANIFEST_NAME "dataset.json"

/* One split of a data set, as its converter gives it. */
struct sample_source {
    const char *split;          /* "train", "validation" */
    uint64_t record_count;
    uint32_t shard_count;       /* at most record_count; 0 only when there are no records; not the converter's */
    uint64_t bytes;             /* of all records, about; 0: all are as long as the first */
    size_t scratch_bytes;       /* memory lent to each call of sample */
    /* Say what sample `index` is: features in bytewise order of their names, which may point
     * into scratch. Any thread. 0, or a negative errno after stop_fail. */
    int (*sample)(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                  size_t *count_out);
    /* Instead of it, for records that are there: the payload of record `index`, which may lie in scratch. */
    int (*payload)(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out);
    /* What to call record `index` in messages: its file. Any thread. NULL: it has no other name. */
    void (*name)(void *arg, uint64_t index, char *text, size_t text_size);
    void *arg;
};

struct shard_file {
    const struct sample_source *source;
    uint32_t source_number;
    uint32_t number;            /* within its split */
    uint64_t first_position;    /* its records are positions first_position ... of the split's order */
    uint64_t record_count;
    char name[96];
    char temporary_name[112];
    uint64_t bytes;             /* set by the writer of this file, like what follows */
    uint64_t content_hash;      /* xxh3 over the records' lengths and payloads */
    size_t frame_bytes_most;
    struct image_tally images;
};

struct shard_set_spec {
    const char *directory;
    const struct sample_source *sources;
    size_t source_count;
    bool may_replace;           /* a set that is there */
    enum packing packing;       /* of the shards */
    const char *image_key;      /* of the feature with the image; NULL: one of the usual names */
};

struct shard_set {
    struct shard_set_spec spec;
    struct set_folder folder;
    size_t topmost_made;        /* of the directories made by this run, which go when it fails (stage/file/folders.h) */
    bool is_writing;            /* what is temporary in the directory is of this run, and goes with it */
    struct shard_file *files;
    size_t file_count;
    struct stop *stop;
};

/* Make the directory and those above it where they are not there, lock it against a second writer,
 * finish what a dead run had begun to put in place, refuse a set that is there and must not be replaced or
 * cannot be, and remove leftovers of dead runs. What `spec` points to is lent. 0, or a negative errno after
 * stop_fail. shard_set_close in both cases. */
int shard_set_open(struct shard_set *set, const struct shard_set_spec *spec, struct stop *stop);
/* Give all files their names, in the place of the set that was there; `manifest` is written beside
 * them. 0, or a negative errno after stop_fail: the set that was there is whole, or the message says that it has
 * been given up, and how this one is finished. */
int shard_set_commit(struct shard_set *set, const char *manifest);
/* Remove what was written, unless committing has begun. */
void shard_set_close(struct shard_set *set);

/* A new file of the set that nothing else had under that name, or a negative errno. */
int shard_set_create(const struct shard_set *set, const char *temporary_name);

#endif
