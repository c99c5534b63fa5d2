/* Which shards weights were trained on, in their metadata, so that an evaluation on them is noticed. Main thread
 * only. */
#ifndef PIPETRAIN_TRAINED_SHARDS_H
#define PIPETRAIN_TRAINED_SHARDS_H

#include "loader/dataset.h"
#include "tools/lib/results/weights.h"

/* Store the hashes of the contents of up to TRAINED_SHARDS_MAX shards of the training set in the weights that will be
 * saved: the lowest ones, so that the choice does not depend on names and order, and a set that is evaluated has the
 * same ones. Nothing is done without weights or a set. 0 or -ENOMEM. */
#define TRAINED_SHARDS_MAX 56u
int trained_shards_save(struct weights *weights, const struct dataset *train);
/* The number of shards of a set that the text (NULL: none) contains, and the first of them. */
uint32_t trained_shards_count(const char *text, const struct dataset *dataset, uint32_t *first_out);

#endif
