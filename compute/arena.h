/* Where each parameter lies in a tower's flat arenas. The trained ones (weights, gradients and
 * optimizer states share one layout) lie in reverse layer order, so that backward fills the
 * gradient arena front to back and any prefix can be reduced while the rest is computed. What is
 * frozen lies behind all others: no reduction and no update comes there, and the optimizer keeps nothing of it. The
 * statistics of layers have an arena of their own, which no gradient and no update touches.
 * Inside its range a parameter has the backend's own layout (possibly padded; padding is zero
 * and stays zero). */
#ifndef PIPETRAIN_ARENA_H
#define PIPETRAIN_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "compute/net.h"

#define ARENA_ELSEWHERE SIZE_MAX        /* offset of a parameter that lies in another arena; its count is 0 */

struct arena_range { size_t offset, count; };   /* in floats; offsets are multiples of 16 floats (64 bytes) */

struct arena {
    uint32_t parameter_count;           /* of the net */
    struct arena_range *ranges;         /* by parameter index */
    size_t count;                       /* floats of the whole arena */
    size_t updated;                     /* of these, in front of what is frozen; all of an arena of statistics */
};

struct arenas { struct arena trained, statistics; };

/* Lay out the parameters of `net`, parameter i taking stored_counts[i] floats. 0 or -ENOMEM. */
int arenas_init(struct arenas *arenas, const struct net *net, const size_t *stored_counts);
void arenas_release(struct arenas *arenas);
/* The arena parameter `parameter` lies in. */
const struct arena *arenas_of(const struct arenas *arenas, const struct net *net, uint32_t parameter);
/* Floats at the front of the gradient arena, of those that are updated, that are final once the
 * backward pass has done every layer with index >= `layer`. */
size_t arena_ready(const struct arena *arena, const struct net *net, uint32_t layer);
/* Of every trained layer: is it the first, going backward, behind which arena_ready reaches one of `count` ascending
 * `ends`? is_end_out is by layer; those of layers without parameters stay as they are. */
void arena_segment_ends(const struct arena *arena, const struct net *net, const size_t *ends, uint32_t count,
                        bool *is_end_out);

#endif
