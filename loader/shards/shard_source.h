/* Where the bytes of a shard come from: a row of operations for every kind of place they are
 * kept in, and one open shard. The rest of the loader reads through it and knows neither files nor
 * descriptors. Offsets count bytes of the records' stream, which are those of the file
 * only as long as nothing is compressed. */
#ifndef PIPETRAIN_SHARD_SOURCE_H
#define PIPETRAIN_SHARD_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A state of a shard as it is kept: where nothing here differs, nothing has changed. */
struct shard_stamp {
    uint64_t bytes; /* as kept, not of the stream */
    int64_t mtime_ns;
    uint64_t inode;
};

struct shard_source;

/* What a kind of source can do. Every operation but open and close may be called from any
 * number of threads at once. Errors are negative errnos. */
struct shard_source_ops {
    /* Open the shard of this name, which is lent until close, with its ops and stamp filled
     * in. -EISDIR and -ESPIPE (nothing that is read at offsets) tell what the name is. */
    int (*open)(struct shard_source **source_out, const char *path);
    void (*close)(struct shard_source *source);
    /* The length of the stream. It may take reading the whole shard: only an index that is
     * built asks. */
    int (*size)(struct shard_source *source, uint64_t *bytes_out);
    /* Read up to `bytes` >= 1 at `offset`, waiting for them. The bytes read, which may be
     * fewer than asked; 0 at the end of the stream only; -ESTALE where the shard had to be opened
     * anew and was no longer the same. */
    ssize_t (*read)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* The same from where the shard is kept, as it is found there under its name now, past
     * every cache on the way. NULL where that cannot be done. */
    ssize_t (*read_afresh)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
    /* Where the stream is a file's: its descriptor for reads past the operations above, to be given back, or
     * -EAGAIN where that would take opening the file. Never waits. NULL, both, where it is no file's. */
    int (*try_descriptor)(struct shard_source *source);
    void (*give_back_descriptor)(struct shard_source *source);
    /* The stamp of what is found under the name now. */
    int (*stamp)(const struct shard_source *source, struct shard_stamp *stamp_out);
    /* The first place at or behind `offset` where the stream is broken, as far as it was read, because what is
     * kept is damaged: no record goes across it, and the byte there means nothing. What is wrong
     * is said in `text`. UINT64_MAX where there is none. NULL: streams are never broken. */
    uint64_t (*find_break)(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
    /* Where that break begins to tell: what lies from here to it in the stream may be wrong for the same cause.
     * UINT64_MAX where there is no break. NULL where find_break is. */
    uint64_t (*break_begin)(struct shard_source *source, uint64_t offset);
    bool is_plain; /* the stream is what is kept, so that its length is the stamp's */
};

/* An open shard, constant until it is closed. Rows keep what they need behind it. */
struct shard_source {
    const struct shard_source_ops *ops;
    const char *path;
    uint64_t device;          /* that holds it: with the stamp's inode, which shard this is under any name */
    struct shard_stamp stamp; /* when it was opened */
    size_t held_bytes;        /* host memory it has taken, where that depends on the shard's size */
};

/* Files as they are; and compressed ones, which it tells by their content: others are opened as they are. */
extern const struct shard_source_ops shard_file_ops, shard_packed_ops;

/* Open a shard as `ops` does; NULL: a file, compressed or not. */
int shard_source_open(struct shard_source **source_out, const struct shard_source_ops *ops, const char *path);
/* No thread reads. Accepts NULL. */
void shard_source_close(struct shard_source *source);
int shard_source_size(struct shard_source *source, uint64_t *bytes_out);
/* Read `bytes` at `offset`, going on where the source gave fewer. The bytes read, less than
 * asked only at the end of the stream, or a negative errno. */
ssize_t shard_source_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As shard_source_read, past every cache. -ENOTSUP where the source cannot. */
ssize_t shard_source_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset);
/* As find_break and break_begin of its row. */
uint64_t shard_source_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size);
uint64_t shard_source_break_begin(struct shard_source *source, uint64_t offset);
/* Whether what is found under the name now is not what was opened, or cannot be found. */
bool shard_source_changed(const struct shard_source *source);

bool shard_stamp_equal(const struct shard_stamp *a, const struct shard_stamp *b);

#endif
