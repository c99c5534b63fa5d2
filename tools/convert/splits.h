/* The samples of a conversion: their order, the choice of validation samples, and the number of shards. */
#ifndef PIPETRAIN_SPLITS
#define PIPETRAIN_SPLITS

#include <stdint.h>

#include "stage/random.h"
#include "tools/convert/convert.h"

/* Returns a permutation of 0 ... count - 1 that depends only on key and count; the caller frees it. NULL if out of
 * memory. */
uint64_t *sample_order(uint64_t count, struct random_key key);
/* Returns the numbers 0 ... count - 1 in ascending order; the caller frees them. NULL if out of memory. */
uint64_t *sample_order_stored(uint64_t count);

/* A subset of the samples of a source. */
struct sample_subset {
    struct sample_source whole;
    const uint64_t *chosen;     /* for each sample of the subset, its index in `whole` */
};

/* The samples of all sources that remain when unreadable images are left out. */
struct kept_samples {
    uint64_t *chosen[CONVERT_SOURCES_MAX];
    struct sample_subset subsets[CONVERT_SOURCES_MAX];
};

/* With --skip-unreadable, decode all images, and leave out those that cannot be decoded: they are reported, and added
 * to conversion->left_out. The sources then refer to *kept, until it is released. Nothing is decoded with --no-decode.
 * 0, -ECANCELED when interrupted, or a negative errno after stop_fail: no image of a split can be decoded. */
int splits_skip_unreadable(struct kept_samples *kept, struct conversion *conversion,
                           const struct convert_options *options, struct stop *stop);
/* Accepts a struct of zeros. */
void kept_samples_release(struct kept_samples *kept);

struct hold_out {
    uint64_t *order;            /* indices of the samples: those for validation, followed by those for training */
    struct sample_subset subsets[2];        /* training and validation */
};

/* Check that every class of the other splits is also in the training set. Labels without training samples are
 * reported. 0, or a negative errno after stop_fail. */
int splits_check_classes(const struct conversion *conversion, const struct convert_options *options, struct stop *stop);

/* With --validation, split the training samples: the seed chooses a proportional number of validation samples from
 * each class. Each class keeps at least one training sample, and classes with few samples are reported. The sources
 * then refer to *hold_out, until it is released. 0, or a negative errno after stop_fail, for example because a
 * validation split exists already, or no training sample would remain. */
int splits_hold_out(struct hold_out *hold_out, struct conversion *conversion, const struct convert_options *options,
                    struct stop *stop);
/* Accepts a struct of zeros. */
void hold_out_release(struct hold_out *hold_out);

/* Set the number of shards of every source: as requested, else 4 for training and 1 for validation, but more if
 * shards would exceed 1 GiB. There are never more shards than records. 0, or a negative errno after stop_fail. */
int splits_count_shards(struct conversion *conversion, const struct convert_options *options, struct stop *stop);

#endif
