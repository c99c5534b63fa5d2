/* Catalogs: one file with the name, size, record lengths and fingerprint of every shard of a folder, so that a run opens
 * one file at its start instead of all shards. Written by pipetrain-shards catalog, read while a data set is opened.
 * doc/formats.md describes the file. */
#ifndef PIPETRAIN_CATALOG_H
#define PIPETRAIN_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_index.h"

#define CATALOG_FILE "catalog.pipetrain"
/* Ends messages about a catalog that does not fit. */
#define CATALOG_ADVICE "make the catalog again with pipetrain-shards catalog --force, or remove the catalog"

/* A shard as the catalog describes it. The pointers are valid until the catalog is released. */
struct catalog_shard {
    const char *name;           /* without a folder */
    uint64_t stored_bytes;      /* size of the file */
    uint64_t stream_bytes;      /* size of the stream of records */
    uint64_t record_count;
    uint64_t contents;          /* as in struct shard_index */
    uint64_t fingerprint;       /* shard_fingerprint */
    bool is_packed;             /* the file is compressed */
    const uint8_t *lengths;     /* payload bytes of each record, uint32, little-endian */
};

struct catalog {
    uint8_t *image;             /* the file; owned */
    size_t image_bytes;
    struct catalog_shard *shards;       /* ordered by name; owned */
    uint32_t shard_count;
    uint64_t record_count;
};

/* Check an image completely and list its shards. All offsets that follow from it are then inside the streams, even if it
 * is forged. Takes ownership of the image, which malloc has allocated. 0; -EBADMSG with a text that follows "CATALOG: ";
 * or -ENOMEM. */
int catalog_parse(struct catalog *catalog_out, uint8_t *image, size_t bytes, char *problem_out, size_t problem_size);
/* Read the catalog of a folder, whose name ends with a slash: the file in it, or else in the user's cache folder.
 * path_out gets the path. 0; -ENOENT: there is none; or as catalog_parse, or another negative errno with a text. */
int catalog_read(struct catalog *catalog_out, const char *folder, char *path_out, size_t path_size, char *problem_out,
                 size_t problem_size);
/* Accepts a struct of zeros. */
void catalog_release(struct catalog *catalog);
/* The shard of this name, or NULL. */
const struct catalog_shard *catalog_find(const struct catalog *catalog, const char *name);

/* Write the path of a folder's catalog: in the folder, or in the user's cache folder. False if it is too long, or there
 * is no cache folder. */
bool catalog_path_beside(const char *folder, char *path_out, size_t path_size);
bool catalog_path_in_cache(const char *folder, char *path_out, size_t path_size);

/* Make the image of a catalog of shards ordered by name, each without damage. Records that are left out of an index are
 * part of it. 0 and an image that the caller
 * frees; -ENOMEM; or -EOVERFLOW. */
struct catalog_entry {
    const char *name;
    const struct shard_index *index;
    bool is_packed;
};
int catalog_pack(const struct catalog_entry *entries, uint32_t count, uint8_t **image_out, size_t *bytes_out);

/* Make the index of a shard from the catalog. `listed_in` describes the catalog in messages and must stay valid. 0 or
 * -ENOMEM. */
int catalog_index(const struct catalog_shard *shard, const char *listed_in, struct shard_index *index_out);

#endif
