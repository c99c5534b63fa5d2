/* The source of a shard's bytes: a table of operations for each kind of storage, and an open shard. The rest of the
 * loader uses these and knows neither files nor descriptors. Offsets are in the uncompressed stream of records. */
#ifndef PIPETRAIN_SHARD_SOURCE_H
#define PIPETRAIN_SHARD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The state of a stored shard. */
struct shard_stamp {
    uint64_t bytes; /* as stored, possibly compressed */
    int64_t mtime_ns;
    uint64_t inode;
    int64_t ctime_ns; /* another one also after chmod, or when a link is made */
};

struct shard_source;

/* The operations of a kind of source. All but open and close may be called by several threads at once. Errors are
 * negative errnos. */
struct shard_source_ops {
    /* Open a shard and set its ops and stamp; `path` must stay valid until close. -EISDIR: a directory; -ESPIPE: not a
     * regular file. */
    int (*open)(struct shard_source **source_out, const char *path);
    void (*close)(struct shard_source *source);
    /* The length of the stream. May read the whole shard; only called to build an index. */
    int (*size)(struct shard_source *source, uint64_t *bytes_out);
    /* Read up to `bytes` >= 1 at `offset`. Returns how many were read, possibly fewer; 0 only at the end of the stream;
     * -ESTALE if the shard had to be reopened and is not the same any more. */
    ssize_t (*read)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* The same, but reopens the shard by its name and bypasses all caches. NULL if not supported. */
    ssize_t (*read_afresh)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* If the stream is a plain file: its descriptor, for reads without these operations, to be given back; or -EAGAIN
     * if the file is not open. Never waits. Both are NULL for other streams. */
    int (*try_descriptor)(struct shard_source *source);
    void (*give_back_descriptor)(struct shard_source *source);
    /* The current stamp of what has the shard's name. */
    int (*stamp)(const struct shard_source *source, struct shard_stamp *stamp_out);
    /* The first break of the stream at or after `offset`, in the part that was read so far: the compressed data are
     * damaged, no record continues across it, and the byte there is a placeholder. `text` gets the problem. UINT64_MAX
     * if there is none. NULL: streams have no breaks. */
    uint64_t (*find_break)(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
    /* The beginning of the damaged unit that ends with this break: the stream from there on may be wrong as well.
     * UINT64_MAX if there is no break. NULL if find_break is NULL. */
    uint64_t (*break_begin)(struct shard_source *source, uint64_t offset);
    bool is_plain; /* not compressed: the stream is the stored file */
};

/* An open shard; constant until it is closed. Each kind embeds it in a struct of its own. */
struct shard_source {
    const struct shard_source_ops *ops;
    const char *path;
    uint64_t device;          /* with the stamp's inode it identifies the file */
    struct shard_stamp stamp; /* when it was opened */
    size_t held_bytes;        /* host memory that depends on the shard's size */
};

/* Plain files; and files that are compressed if their content says so, else plain. */
extern const struct shard_source_ops shard_file_ops, shard_packed_ops;

/* Open a shard with `ops`; NULL: a file, compressed or not. */
int shard_source_open(struct shard_source **source_out, const struct shard_source_ops *ops, const char *path);
/* No other thread may use it. Accepts NULL. */
void shard_source_close(struct shard_source *source);
int shard_source_size(struct shard_source *source, uint64_t *bytes_out);
/* Read `bytes` at `offset`; fewer only at the end of the stream. Returns how many, or a negative errno. */
ssize_t shard_source_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As shard_source_read, bypassing all caches. -ENOTSUP if not supported. */
ssize_t shard_source_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As find_break and break_begin of the source's operations. */
uint64_t shard_source_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
uint64_t shard_source_break_begin(struct shard_source *source, uint64_t offset);
/* Whether the file of that name was changed, replaced or removed since it was opened. */
bool shard_source_changed(const struct shard_source *source);

/* Whether all but ctime_ns is equal: then only a shard that was written in place, with its time set back, has
 * changed. */
bool shard_stamp_equal(const struct shard_stamp *a, const struct shard_stamp *b);

#endif
