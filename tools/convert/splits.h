/* How the samples of a conversion are shared out: which are for validation, and over how many shards. */
#ifndef PIPETRAIN_SPLITS_H
#define PIPETRAIN_SPLITS_H

#include <stdint.h>

#include "tools/convert/convert.h"

/* Some of the samples of a source. */
struct sample_part {
    struct sample_source whole;
    const uint64_t *chosen;     /* the whole's number of each sample of the part */
};

struct hold_out {
    uint64_t *order;            /* of the samples: those for validation, then those to train with */
    struct sample_part parts[2];    /* to train, to validate */
};

/* Where --validation was given, divide the training samples: those for validation are chosen by the seed. What
 * the sources are then lies in *hold_out, until it is released. 0, or a negative errno after stop_fail: where
 * there is a split for validation already, or nothing would be left. */
int splits_hold_out(struct hold_out *hold_out, struct conversion *conversion, const struct convert_options *options,
                    struct stop *stop);
/* Accepts a struct of zeros. */
void hold_out_release(struct hold_out *hold_out);

/* Give every source its number of shards: as asked for, else 4 to train with and 1 to validate, more where
 * shards were over a GiB; never more than records. 0, or a negative errno after stop_fail. */
int splits_count_shards(struct conversion *conversion, const struct convert_options *options, struct stop *stop);

#endif
