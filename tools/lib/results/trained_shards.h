/* Identifies, in the metadata of weights, the shards on which they were trained, so that an evaluation on the same
 * shards is noticed. Main thread only. */
#ifndef PIPETRAIN_TRAINED_SHARDS_H
#define PIPETRAIN_TRAINED_SHARDS_H

#include "loader/dataset.h"
#include "tools/lib/results/weights.h"

/* Store the hashes of the contents of up to TRAINED_SHARDS_MAX shards of the training set in the weights that will be
 * saved: the lowest hashes, so that the choice depends on neither names nor order and is the same for an evaluated set.
 * Does nothing without weights or a set. 0 or -ENOMEM. */
#define TRAINED_SHARDS_MAX 56u
int trained_shards_save(struct weights *weights, const struct dataset *train);
/* The number of shards of a set whose hashes are in the text (NULL: none), with the first such shard in *first_out. */
uint32_t trained_shards_count(const char *text, const struct dataset *dataset, uint32_t *first_out);

#endif
