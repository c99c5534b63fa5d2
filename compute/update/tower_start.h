/* What a tower that trains begins with: weights of its seed, and optimizer buffers where those do not begin at 0.
 * Called by tower_allocate. */
#ifndef PIPETRAIN_TOWER_START_H
#define PIPETRAIN_TOWER_START_H

#include "compute/tower.h"

/* Bytes of the host's memory that tower_start takes for as long as it runs; 0: the gradients have room for it. */
size_t tower_start_bytes(const struct tower *tower);
/* The tower's memory is bound to its backend, and all 0. 0 or a negative errno. */
int tower_start(struct tower *tower);

#endif
