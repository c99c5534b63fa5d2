/* Records that stand in two sets: a validation set that holds training images measures too well. For --check and
 * the start of runs. */
#ifndef PIPETRAIN_DUPLICATES_H
#define PIPETRAIN_DUPLICATES_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/dataset.h"

/* Sets of so many bytes together are read as a whole, and bytes of images are compared. */
#define DUPLICATES_READ_MAX ((uint64_t)256 << 20)

struct duplicates {
    uint64_t looked_at, among;  /* records of the one set, of the other */
    uint64_t count;             /* records of the one that the other has, too; the first one, and its like: */
    uint64_t first, other;
    bool are_images;            /* the bytes of images were compared, whatever else is in the records; else the bytes of
                                 * whole records, found by their lengths and stored checksums */
};

/* The bytes of both sets, decompressed. */
uint64_t duplicates_bytes(const struct dataset *dataset, const struct dataset *other);
/* Find the records of `dataset` that are in `other`. Where the sets are larger than read_max bytes, records of
 * `dataset` are a sample, and compressed shards are not looked at. Records that cannot be read have no like. 0,
 * -ENOMEM, or -ECANCELED soon after a set has become unwanted. */
int duplicates_find(struct duplicates *duplicates_out, const struct dataset *dataset, const struct dataset *other,
                    uint64_t read_max);

#endif
