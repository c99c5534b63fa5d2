/* The layout of a tower's arenas, which are flat arrays of all parameters. Weights, gradients and optimizer states
 * share one layout: trained parameters are stored in reverse layer order, so that backward fills the gradient arena
 * from front to back and any prefix can be reduced while the rest is still computed. Of a share of a net
 * (compute/share.h) the parts that this tower alone has come after those that all towers have. Frozen parameters come
 * after all others; they are neither reduced nor updated, and have no optimizer states. Running statistics have an arena
 * of their own. Inside its range a parameter has the backend's own layout; padding is zero and stays zero. Used by
 * towers, backends and sync/. */
#ifndef PIPETRAIN_ARENA_H
#define PIPETRAIN_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "compute/net.h"

#define ARENA_ELSEWHERE SIZE_MAX        /* offset of a parameter that is stored in another arena; its count is 0 */

struct arena_range { size_t offset, count; };   /* in floats; offsets are multiples of 16 floats (64 bytes) */

/* With class weights the first floats of the trained arena belong to no parameter: in the gradients, float 0 is the sum
 * of the class weights of the samples. So it is reduced with the first bucket of gradients, before any update needs
 * it. */
#define ARENA_LEAD 16u

struct arena {
    size_t lead;                        /* floats before the first parameter: 0 or ARENA_LEAD */
    uint32_t parameter_count;           /* the number of parameters of the net */
    struct arena_range *ranges;         /* the range of each parameter, by its index */
    size_t count;                       /* floats of the whole arena */
    size_t shared;                      /* floats before the parts of parameters that this tower alone has (net_share):
                                         * every tower has these, and their gradients are summed over towers; without
                                         * parts it is `updated` */
    size_t updated;                     /* floats before the frozen parameters, which updates change; all floats in the
                                         * arena of statistics */
};

struct arenas { struct arena trained, statistics; };

/* Lay out the parameters of `net`, where parameter i has stored_counts[i] floats, after `lead` floats of the trained
 * arena. 0 or -ENOMEM. */
int arenas_init(struct arenas *arenas, const struct net *net, const size_t *stored_counts, size_t lead);
void arenas_release(struct arenas *arenas);
/* The arena that contains a parameter. */
const struct arena *arenas_of(const struct arenas *arenas, const struct net *net, uint32_t parameter);
/* The length of the prefix of the gradient arena that is final once backward is done with all layers from the last to
 * `layer`; of a share, with all of the trunk. At most arena->shared. */
size_t arena_ready(const struct arena *arena, const struct net *net, uint32_t layer);
/* Set is_end_out[layer] of every trained layer to whether its backward completes one of the prefixes of the gradient
 * arena that end at ends[0 .. count), ascending. */
void arena_segment_ends(const struct arena *arena, const struct net *net, const size_t *ends, uint32_t count,
                        bool *is_end_out);

#endif
