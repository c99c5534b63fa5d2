/* One gzip member (RFC 1952) or zlib stream (RFC 1950), turned back piece by piece. Deflate itself is ISA-L's;
 * header and trailer are read here, since ISA-L loses its place in a header that comes in two pieces. */
#ifndef PIPETRAIN_INFLATER_H
#define PIPETRAIN_INFLATER_H

#include <isa-l.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/packed/container.h"

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

/* Holds everything between pieces, the window too, and points nowhere: a copy goes on where the original
 * was. 88 KB. */
struct inflater {
    struct inflate_state state;
    bool is_gzip;
    enum inflater_part part;
    uint8_t flags;              /* of a gzip header */
    uint8_t field[10];          /* of fixed length, as far as it has come */
    uint32_t field_bytes;
    uint32_t skip_bytes;        /* left of the extra field */
    uint32_t header_crc;
    uint32_t given_bytes;       /* modulo 2^32, as a gzip trailer counts */
    uint32_t unread_bytes;      /* at the end: the last ones taken belong to what follows */
    const char *problem;        /* what is wrong where it is damaged */
};

void inflater_begin(struct inflater *inflater, bool is_gzip);
/* As far as input and room go. Ended is a unit whose checksum, and size for gzip, are right. */
enum unpack inflater_step(struct inflater *inflater, struct unpack_piece *piece);

#endif
