/* dataset.json, the manifest of a data set (doc/formats.md): how many records its shards hold. */
#ifndef PIPETRAIN_MANIFEST_H
#define PIPETRAIN_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "dataset.json"
#define MANIFEST_BYTES_MAX ((size_t)16 << 20)   /* longer ones are not read */
#define MANIFEST_SIZE_UNSAID UINT64_MAX

struct manifest_shard {
    char *file;                 /* its name, without a folder; owned */
    uint64_t records;
    uint64_t bytes;             /* of the file, or MANIFEST_SIZE_UNSAID */
    size_t split;               /* the set it is listed in, of split_count */
};

/* The shards of all sets, in the bytewise order of their names. */
struct manifest {
    struct manifest_shard *shards;
    size_t count;
    size_t split_count;
};

/* Read a manifest; what it has beside splits, shards, files, records and bytes does not matter. 0, or -EBADMSG
 * with a text that says what is wrong with it, or -ENOMEM. */
int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size);
/* What is said of the shard of this name, NULL when nothing is. */
const struct manifest_shard *manifest_find(const struct manifest *manifest, const char *file);
/* Accepts a struct of zeros. */
void manifest_release(struct manifest *manifest);

#endif
