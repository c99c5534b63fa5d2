/* When the towers' models are replaced by their mean, and what each counts for in it: arithmetic
 * over the schedule, so that it is the same wherever a run goes on from. */
#ifndef PIPETRAIN_MEAN_H
#define PIPETRAIN_MEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"

/* Are the towers one model once the batch `span` is done? A mean is taken in front of every
 * evaluation pass, and with every > 0 behind training steps every, 2 * every, ... of the run. */
bool mean_is_behind(const struct span *span, uint64_t every);

/* Samples that a tower and all towers of the run have trained on since the towers were one model,
 * up to and with batch `last`. Looks at each of those batches. */
struct mean_share { uint64_t own, all; };
struct mean_share mean_share(const struct schedule *schedule, uint32_t tower, uint64_t last, uint64_t every);

#endif
