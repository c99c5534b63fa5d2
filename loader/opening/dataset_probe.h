/* What the first records of a data set say of all of them. */
#ifndef PIPETRAIN_DATASET_PROBE_H
#define PIPETRAIN_DATASET_PROBE_H

#include "loader/opening/opening.h"

/* Find the format of the samples from the first record, how raw pixels are meant from some more, and read the first
 * record of every shard, which shows a foreign one before training does. What is wrong is reported to the opening,
 * whose records are numbered. */
void dataset_probe(struct opening *opening);

#endif
