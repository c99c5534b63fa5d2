/* The index of one shard: where each record lies. Built by walking the headers on
 * first use, kept beside the shard (or in the user's cache directory when that is not
 * writable), rebuilt when the shard's size, mtime or inode differ or the index's own
 * checksum does. */
#ifndef PIPETRAIN_SHARD_INDEX_H
#define PIPETRAIN_SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_record { uint64_t offset; uint32_t payload_bytes; };

/* A stretch of a shard that could not be framed: at least one record is lost there.
 * Only with on_corrupt = skip. */
struct shard_damage { uint64_t offset, bytes; uint64_t before_record; };

/* Records and damages, taken in the order of their offsets, cover the file without gaps. */
struct shard_index {
    uint64_t file_bytes;
    int64_t mtime_ns;
    uint64_t inode;
    uint64_t record_count;
    struct shard_record *records;
    uint64_t damage_count;
    struct shard_damage *damages;
};

struct shard_index_options {
    bool skip_damage;           /* resynchronise after a bad length, instead of failing */
    bool use_cache;             /* read and write cached indexes */
};

/* The index of the shard open as `fd` at `path`; an empty file has no records. 0, or a
 * negative errno with a message that names file, record and byte in problem_out
 * (-EBADMSG: damaged or foreign). */
int shard_index_open(struct shard_index *index_out, int fd, const char *path,
                     const struct shard_index_options *options, char *problem_out, size_t problem_size);
void shard_index_release(struct shard_index *index);

/* Building an index record by record, in file order. 0 or -ENOMEM. */
int shard_index_add_record(struct shard_index *index, uint64_t offset, uint32_t payload_bytes);
int shard_index_add_damage(struct shard_index *index, uint64_t offset, uint64_t bytes);

#endif
