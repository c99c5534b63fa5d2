/* Where each parameter lies in a tower's flat arenas (weights, gradients, optimizer
 * states share one layout): reverse layer order, so that backward fills the gradient
 * arena front to back and any prefix can be reduced while the rest is computed.
 * Inside its range a parameter has the backend's own layout (possibly padded; padding
 * is zero and stays zero). */
#ifndef PIPETRAIN_ARENA_H
#define PIPETRAIN_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "compute/net.h"

struct arena_range { size_t offset, count; };   /* in floats; offsets are multiples of 16 floats (64 bytes) */

struct arena {
    uint32_t parameter_count;
    struct arena_range *ranges;         /* by parameter index */
    size_t count;                       /* floats of the whole arena */
};

/* Lay out the parameters of `net`, parameter i taking stored_counts[i] floats. 0 or -ENOMEM. */
int arena_init(struct arena *arena, const struct net *net, const size_t *stored_counts);
void arena_release(struct arena *arena);
/* Floats at the front of the gradient arena that are final once the backward pass
 * has done every layer with index >= `layer`. */
size_t arena_ready(const struct arena *arena, const struct net *net, uint32_t layer);

#endif
