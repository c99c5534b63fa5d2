/* Weights to and from people's tools: one safetensors file with PyTorch-style names. */
#ifndef PIPETRAIN_WEIGHTS_H
#define PIPETRAIN_WEIGHTS_H

#include <stdint.h>

#include "compute/tower.h"
#include "tools/run/run_directory.h"

/* Write the tower's weights as `file` in the run directory, atomically, with the xxh3 of
 * every tensor in the metadata. 0 or a negative errno: -EDOM when a weight is not a finite
 * number, nothing is written then and *broken_out names its tensor. The tower does no steps now. */
int weights_save(struct run_directory *directory, const char *file, const struct net *net, struct tower *tower,
                 uint64_t steps, const char **broken_out);

#endif
