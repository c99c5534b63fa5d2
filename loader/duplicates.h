/* Records that are in two data sets: a validation set with training images gives too good results. And images that are
 * in one set with two labels, of which one is wrong. For --check and the start of runs. */
#ifndef PIPETRAIN_DUPLICATES_H
#define PIPETRAIN_DUPLICATES_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/dataset.h"

/* If both data sets together have at most this many bytes, they are read completely, and images are compared by hashes
 * of their bytes. */
#define DUPLICATES_READ_MAX ((uint64_t)256 << 20)

struct duplicates {
    uint64_t looked_at, among;  /* number of records that were compared of the first data set, and of the other */
    uint64_t count;             /* records of the first data set that are also in the other; first, other: ids of the
                                 * first such record in both */
    uint64_t first, other;
    /* of these records, those whose label is not that of the equal image in the other data set, 0 unless are_images;
     * and the first such pair, with its labels as stored */
    uint64_t relabelled, relabelled_first, relabelled_other;
    int64_t first_label, other_label;
    bool are_images;            /* records were compared by the hashes of their images; false: by their lengths and
                                 * stored checksums */
};

/* The size of both data sets, decompressed. */
uint64_t duplicates_bytes(const struct dataset *dataset, const struct dataset *other);
/* Find the records of `dataset` that are also in `other`. If the data sets are larger than read_max bytes, only a
 * sample of the records of `dataset` is searched for, and compressed shards are skipped. Records that cannot be read
 * equal no other. 0, -ENOMEM, or -ECANCELED soon after a data set's *is_unwanted is set. */
int duplicates_find(struct duplicates *duplicates_out, const struct dataset *dataset, const struct dataset *other,
                    uint64_t read_max);

struct label_conflicts {
    uint64_t looked_at;         /* number of images that were compared; 0: the data set is too large */
    uint64_t count;             /* images that also occur with another label before; first, other: ids of the first
                                 * such record, and of the one before */
    uint64_t first, other;
    int64_t first_label, other_label;   /* as stored */
};

/* Find equal images of a data set that have different labels, by hashes of their bytes, unless the data set is larger
 * than read_max bytes. Records that cannot be read are skipped. 0, -ENOMEM, or -ECANCELED soon after the data set's
 * *is_unwanted is set. */
int label_conflicts_find(struct label_conflicts *conflicts_out, const struct dataset *dataset, uint64_t read_max);

#endif
