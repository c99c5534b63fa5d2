/* A tower's trained arena, cut into ranges that an update treats alike. Arithmetic only; used from
 * the tower's thread. */
#ifndef PIPETRAIN_UPDATE_CUT_H
#define PIPETRAIN_UPDATE_CUT_H

#include "compute/arena.h"
#include "compute/optimizer.h"

/* A range of the arena of which all or nothing takes part in weight decay. */
struct update_run { size_t offset, end; bool decays; };

struct update_cut {
    struct update_run *runs;            /* in the order of the arena, which they cover */
    struct optimizer_range *ranges;     /* room for the runs of one update */
    uint32_t run_count;
};

/* Find the runs of the arena of net's trained parameters. 0 or -ENOMEM. */
int update_cut_init(struct update_cut *cut, const struct net *net, const struct arena *arena);
/* Accepts what is all zero, or half made. */
void update_cut_release(struct update_cut *cut);
/* The ranges of [offset, end) in cut->ranges, one where nothing decays, else one for each run that
 * lies in it. `whole` is all of the arena. Returns how many. */
uint32_t update_cut_at(struct update_cut *cut, const struct optimizer *optimizer, const struct optimizer_range *whole,
                       size_t offset, size_t end);

#endif
