/* The source of a shard's bytes: a table of operations for each kind of storage, and an open shard. The rest of the
 * loader uses these and does not depend on files or descriptors. Offsets are in the uncompressed stream of records. */
#ifndef PIPETRAIN_SHARD_SOURCE_H
#define PIPETRAIN_SHARD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The state of a stored shard. */
struct shard_stamp {
    uint64_t bytes; /* stored size, possibly compressed */
    int64_t mtime_ns;
    uint64_t inode;
    int64_t ctime_ns; /* changes also after chmod or when a link is made */
};

struct shard_source;

/* The operations of a kind of source. All but open and close may be called by several threads at once. Errors are
 * negative errnos. */
struct shard_source_ops {
    /* Open a shard and set its ops and stamp; `path` must stay valid until close. -EISDIR: a directory; -ESPIPE: not a
     * regular file. */
    int (*open)(struct shard_source **source_out, const char *path);
    void (*close)(struct shard_source *source);
    /* The length of the stream. May read the whole shard; called only to build an index. */
    int (*size)(struct shard_source *source, uint64_t *bytes_out);
    /* Read up to `bytes` >= 1 at `offset`. Returns the number of bytes read, which may be fewer; 0 only at the end of
     * the stream; -ESTALE if the shard had to be reopened and has changed. */
    ssize_t (*read)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* As read, but reopens the shard by its name and bypasses all caches. NULL if not supported. */
    ssize_t (*read_afresh)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* If the stream is a plain file: get its descriptor, for reads without these operations, to be given back; -EAGAIN
     * if the file is not open. Never waits. Both functions are NULL for other streams. */
    int (*try_descriptor)(struct shard_source *source);
    void (*give_back_descriptor)(struct shard_source *source);
    /* Get the current stamp of the file with the shard's name. */
    int (*stamp)(const struct shard_source *source, struct shard_stamp *stamp_out);
    /* Find the first break of the stream at or after `offset`, in the part that has been read. At a break the
     * compressed data is damaged: the stream has a placeholder byte, and no record continues across it. `text` gets the
     * problem. UINT64_MAX if there is no break. NULL: streams of this kind have no breaks. */
    uint64_t (*find_break)(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
    /* The beginning of the damaged unit that ends with the break at `offset`: the stream from the beginning to the
     * break may be wrong as well. UINT64_MAX if there is no break. NULL if find_break is NULL. */
    uint64_t (*break_begin)(struct shard_source *source, uint64_t offset);
    bool is_plain; /* not compressed: the stream is the stored file */
};

/* An open shard; constant until it is closed. Each kind of source embeds it in a larger struct. */
struct shard_source {
    const struct shard_source_ops *ops;
    const char *path;
    uint64_t device;          /* device of the file; together with the stamp's inode it identifies the file */
    struct shard_stamp stamp; /* stamp when the shard was opened */
    size_t held_bytes;        /* host memory of the source that depends on the shard's size */
};

/* shard_file_ops: plain files; shard_packed_ops: files that may be compressed, judged by their content. */
extern const struct shard_source_ops shard_file_ops, shard_packed_ops;

/* Open a shard with `ops`; NULL: shard_packed_ops. */
int shard_source_open(struct shard_source **source_out, const struct shard_source_ops *ops, const char *path);
/* As shard_source_open for an uncompressed file that is not opened yet: its stamp is found by its name, and it is opened
 * when it is first read. `prove` is then called with its descriptor, once unless it fails: its result, a negative errno,
 * is that of reading. Any thread may call it, and several at once. */
int shard_file_defer(struct shard_source **source_out, const char *path, int (*prove)(void *arg, int fd), void *arg);
/* No other thread may be using the source. Accepts NULL. */
void shard_source_close(struct shard_source *source);
int shard_source_size(struct shard_source *source, uint64_t *bytes_out);
/* Read `bytes` at `offset`, or fewer at the end of the stream. Returns the number of bytes or a negative errno. */
ssize_t shard_source_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As shard_source_read, bypassing all caches. -ENOTSUP if not supported. */
ssize_t shard_source_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As find_break and break_begin of the source's operations. */
uint64_t shard_source_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
uint64_t shard_source_break_begin(struct shard_source *source, uint64_t offset);
/* Was the file with this name changed, replaced or removed since it was opened? */
bool shard_source_changed(const struct shard_source *source);

/* Are the stamps equal except for ctime_ns? A shard with an equal stamp can only have changed by writing in place and
 * then setting its time back. */
bool shard_stamp_equal(const struct shard_stamp *a, const struct shard_stamp *b);

#endif
