/* Compressed files of records: recognising them, and decompressing them piece by piece with memory that does not
 * depend on their content. A compressed file is one or more units, one after another, each independent of the
 * others: gzip members, zlib streams, LZ4 frames (skippable ones too, which hold nothing). */
#ifndef PIPETRAIN_UNPACKER_H
#define PIPETRAIN_UNPACKER_H

#include <isa-l.h>
#include <lz4frame.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum container { CONTAINER_PLAIN, CONTAINER_GZIP, CONTAINER_ZLIB, CONTAINER_LZ4, CONTAINER_COUNT };

/* Bytes that container_find and container_may_begin look at. */
#define CONTAINER_HEAD_BYTES 12u
#define CONTAINER_MAGIC_BYTES 4u

/* The container of a file that begins with these bytes. A valid header of a TFRecord is checked first, as the
 * lengths of some records look like other signatures; anything not recognised is plain. */
enum container container_find(const uint8_t *head, size_t bytes);
/* Whether a unit of the container may begin with these bytes. */
bool container_may_begin(enum container container, const uint8_t magic[CONTAINER_MAGIC_BYTES]);
/* "gzip", ... */
const char *container_name(enum container container);

/* Input still to be read and room still to be filled: a step moves both on. */
struct unpack_piece {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

enum unpack {
    UNPACK_WAITS,               /* needs more input or more room */
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

/* One gzip member (RFC 1952) or zlib stream (RFC 1950) in the middle of decompression: everything between two
 * pieces, the window too, without pointers. A copy continues where the original was. 88 KB. */
struct inflater {
    struct inflate_state state;
    bool is_gzip;
    enum inflater_part part;
    uint8_t flags;              /* of a gzip header */
    uint8_t field[10];          /* of fixed length, the bytes read so far */
    uint32_t field_bytes;
    uint32_t skip_bytes;        /* left of the extra field */
    uint32_t header_crc;
    uint32_t given_bytes;       /* modulo 2^32, as a gzip trailer counts */
    uint32_t unread_bytes;      /* at the end: how many of the last bytes read belong to the next unit */
    const char *problem;        /* set when it is damaged */
};

struct unpacker {
    enum container container;   /* of the unit */
    struct inflater inflater;   /* of gzip and zlib */
    LZ4F_dctx *lz4;
    size_t lz4_wanted;          /* bytes of the next block: no more are offered to liblz4, so that a damaged block
                                 * does not cost the good ones before it */
    const char *problem;        /* set when a unit is damaged */
};

/* 0 or -ENOMEM. */
int unpacker_init(struct unpacker *unpacker);
/* Accepts a struct of zeros. */
void unpacker_release(struct unpacker *unpacker);
/* The block size of a file of LZ4 frames, from its first bytes. */
size_t unpacker_lz4_block_bytes(const uint8_t *head, size_t bytes);
/* Allocate what LZ4 frames with blocks of this size need, so that no step allocates. */
void unpacker_reserve_lz4(struct unpacker *unpacker, size_t block_bytes);
/* Host memory of an unpacker with that reservation; block_bytes 0: without one. */
size_t unpacker_bytes(size_t block_bytes);

/* Begin a unit, whatever came before. */
void unpacker_begin(struct unpacker *unpacker, enum container container);
/* Decompress as far as input and room go; there must be room. */
enum unpack unpacker_step(struct unpacker *unpacker, struct unpack_piece *piece);
/* After a unit has ended: how many of the last bytes read belong to the next one. */
size_t unpacker_unread(const struct unpacker *unpacker);
/* The state from which a unit can be continued, to be copied; NULL for LZ4, which has none. And continuing from such a
 * copy. */
const struct inflater *unpacker_save(const struct unpacker *unpacker);
void unpacker_restore(struct unpacker *unpacker, enum container container, const struct inflater *saved);

#endif
