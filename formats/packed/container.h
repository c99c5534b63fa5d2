/* What a file of records may be compressed with, told by its first bytes, and a piece of one that is
 * turned back. A compressed file is one or more units, one behind the other, each of which begins anew:
 * gzip members, zlib streams, LZ4 frames (skippable ones, too, which hold nothing). */
#ifndef PIPETRAIN_CONTAINER_H
#define PIPETRAIN_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum container { CONTAINER_PLAIN, CONTAINER_GZIP, CONTAINER_ZLIB, CONTAINER_LZ4, CONTAINER_COUNT };

/* Bytes container_find looks at, and those container_may_begin does. */
#define CONTAINER_HEAD_BYTES 12u
#define CONTAINER_MAGIC_BYTES 4u

/* What a file that begins so is. A right header of a TFRecord comes first, as the lengths of some records
 * look like other beginnings; whatever is not recognised is plain. */
enum container container_find(const uint8_t *head, size_t bytes);
/* Whether a unit of the container may begin with these bytes. */
bool container_may_begin(enum container container, const uint8_t magic[CONTAINER_MAGIC_BYTES]);
/* "gzip", ... */
const char *container_name(enum container container);

/* Input still to be taken and room still to be filled: both move along. */
struct unpack_piece {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

enum unpack {
    UNPACK_WAITS,               /* for input or for room */
    UNPACK_ENDED,               /* the unit is complete, its checksums right */
    UNPACK_DAMAGED
};

#endif
