/* The samples of a conversion: their order, which are for validation, and how many shards they go to. */
#ifndef PIPETRAIN_SPLITS
#define PIPETRAIN_SPLITS

#include <stdint.h>

#include "stage/random.h"
#include "tools/convert/convert.h"

/* A permutation of 0 ... count - 1 that depends only on key and count; the caller frees it. NULL without memory. */
uint64_t *sample_order(uint64_t count, struct random_key key);
/* The numbers 0 ... count - 1 in ascending order; the caller frees them. */
uint64_t *sample_order_stored(uint64_t count);

/* A subset of the samples of a source. */
struct sample_subset {
    struct sample_source whole;
    const uint64_t *chosen;     /* for each sample of the subset, its number in `whole` */
};

struct hold_out {
    uint64_t *order;            /* of the samples: validation first, then training */
    struct sample_subset subsets[2];        /* training, validation */
};

/* Every class of another split must be one of the training set. Labels without a training sample are reported. 0, or a
 * negative errno after stop_fail. */
int splits_check_classes(const struct conversion *conversion, const struct convert_options *options, struct stop *stop);

/* With --validation, split the training samples; the seed chooses those for validation, from each class its share: the
 * classes keep at least one sample to train on, and those with few samples are reported. The sources then refer to
 * *hold_out, until it is released. 0, or a negative errno after stop_fail, for example because there is a validation
 * split already, or no sample would be left. */
int splits_hold_out(struct hold_out *hold_out, struct conversion *conversion, const struct convert_options *options,
                    struct stop *stop);
/* Accepts a struct of zeros. */
void hold_out_release(struct hold_out *hold_out);

/* Set the number of shards of every source: as requested, else 4 for training and 1 for validation, more if shards
 * would exceed 1 GiB; never more than records. 0, or a negative errno after stop_fail. */
int splits_count_shards(struct conversion *conversion, const struct convert_options *options, struct stop *stop);

#endif
