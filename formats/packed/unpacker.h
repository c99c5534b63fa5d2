/* Units of any container, turned back piece by piece with memory that does not depend on what they hold. */
#ifndef PIPETRAIN_UNPACKER_H
#define PIPETRAIN_UNPACKER_H

#include <lz4frame.h>

#include "formats/packed/container.h"
#include "formats/packed/inflater.h"

struct unpacker {
    enum container container;   /* of the unit */
    struct inflater inflater;   /* of gzip and zlib */
    LZ4F_dctx *lz4;
    size_t lz4_wanted;          /* bytes of the block that comes next: no more are offered, so that none is lost
                                 * with a damaged one behind it */
    const char *problem;        /* what is wrong where a unit is damaged */
};

/* 0 or -ENOMEM. */
int unpacker_init(struct unpacker *unpacker);
/* Accepts a struct of zeros. */
void unpacker_release(struct unpacker *unpacker);
/* The largest block of a file of LZ4 frames that begins so, as its first frame says. */
size_t unpacker_lz4_block_bytes(const uint8_t *head, size_t bytes);
/* Allocate what LZ4 frames with blocks of so many bytes take, so that no step does. */
void unpacker_reserve_lz4(struct unpacker *unpacker, size_t block_bytes);
/* Host memory of one that was reserved for such blocks; 0: for none. */
size_t unpacker_bytes(size_t block_bytes);

/* A unit begins, whatever was before. */
void unpacker_begin(struct unpacker *unpacker, enum container container);
/* As far as input and room go; there is room. */
enum unpack unpacker_step(struct unpacker *unpacker, struct unpack_piece *piece);
/* Of a unit that has ended: how many of the last bytes taken belong to what follows. */
size_t unpacker_unread(const struct unpacker *unpacker);
/* All that a unit needs to go on from here, in a struct that can be copied, or NULL where there is no such
 * thing; and going on from such a copy. */
const struct inflater *unpacker_save(const struct unpacker *unpacker);
void unpacker_restore(struct unpacker *unpacker, enum container container, const struct inflater *saved);

#endif
