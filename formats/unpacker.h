/* Compressed files of records: recognising and decompressing them, piece by piece, in memory that does not depend on
 * their content. A compressed file is one or more independent units, one after another: gzip members, zlib streams or
 * LZ4 frames (also skippable frames, which have no data). */
#ifndef PIPETRAIN_UNPACKER_H
#define PIPETRAIN_UNPACKER_H

#include <isa-l.h>
#include <lz4frame.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum container { CONTAINER_PLAIN, CONTAINER_GZIP, CONTAINER_ZLIB, CONTAINER_LZ4, CONTAINER_COUNT };

/* Bytes that container_find and container_may_begin read. */
#define CONTAINER_HEAD_BYTES 12u
#define CONTAINER_MAGIC_BYTES 4u

/* The container of a file that begins with these bytes. A valid TFRecord header is checked first, because the lengths
 * of some records look like the signatures of other containers. Anything not recognised is CONTAINER_PLAIN. */
enum container container_find(const uint8_t *head, size_t bytes);
/* May a unit of the container begin with these bytes? */
bool container_may_begin(enum container container, const uint8_t magic[CONTAINER_MAGIC_BYTES]);
/* The name of a container: "gzip", ... */
const char *container_name(enum container container);

/* The unread input and the free output space; a step advances both. */
struct unpack_piece {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

enum unpack {
    UNPACK_WAITS,               /* needs more input or more output space */
    UNPACK_ENDED,               /* the unit is complete, and its checksum and size are right */
    UNPACK_DAMAGED
};

enum inflater_part {
    INFLATER_HEADER,
    INFLATER_EXTRA_LENGTH,
    INFLATER_EXTRA,
    INFLATER_NAME,
    INFLATER_COMMENT,
    INFLATER_HEADER_CRC,
    INFLATER_BODY,
    INFLATER_TRAILER,
    INFLATER_PART_COUNT
};

/* The complete state, without pointers, of decompressing one gzip member (RFC 1952) or zlib stream (RFC 1950), with the
 * window. A copy of it continues where the original was. 88 KB. */
struct inflater {
    struct inflate_state state;
    bool is_gzip;
    enum inflater_part part;
    uint8_t flags;              /* from a gzip header */
    uint8_t field[10];          /* the bytes read so far of a field of fixed length */
    uint32_t field_bytes;
    uint32_t skip_bytes;        /* remaining bytes of the extra field */
    uint32_t header_crc;
    uint32_t given_bytes;       /* bytes of output modulo 2^32, as in a gzip trailer */
    uint32_t unread_bytes;      /* at the end: how many of the bytes read last belong to the next unit */
    const char *problem;        /* set if the data is damaged */
};

struct unpacker {
    enum container container;   /* container of the current unit */
    struct inflater inflater;   /* for gzip and zlib */
    LZ4F_dctx *lz4;
    size_t lz4_wanted;          /* size of the next block: liblz4 gets no more bytes at once, so that the blocks before
                                 * a damaged one are decompressed */
    const char *problem;        /* set when a unit is damaged */
};

/* 0 or -ENOMEM. */
int unpacker_init(struct unpacker *unpacker);
/* Accepts a struct of zeros. */
void unpacker_release(struct unpacker *unpacker);
/* The block size in the header of a file of LZ4 frames. */
size_t unpacker_lz4_block_bytes(const uint8_t *head, size_t bytes);
/* Allocate the memory for LZ4 frames with blocks of this size, so that steps do not allocate. */
void unpacker_reserve_lz4(struct unpacker *unpacker, size_t block_bytes);
/* Host memory of an unpacker that has reserved this block size; 0: without a reservation. */
size_t unpacker_bytes(size_t block_bytes);

/* Begin a new unit, in any state of the unpacker. */
void unpacker_begin(struct unpacker *unpacker, enum container container);
/* Decompress until input or output space is used up; there must be output space. */
enum unpack unpacker_step(struct unpacker *unpacker, struct unpack_piece *piece);
/* After the end of a unit: how many of the bytes read last belong to the next unit. */
size_t unpacker_unread(const struct unpacker *unpacker);
/* Save: the state from which decompressing a unit can continue, for the caller to copy; NULL for LZ4, which has no such
 * state. Restore: continue from such a copy. */
const struct inflater *unpacker_save(const struct unpacker *unpacker);
void unpacker_restore(struct unpacker *unpacker, enum container container, const struct inflater *saved);

#endif
