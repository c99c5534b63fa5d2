/* A tower's trained arena, cut into ranges that an update treats alike. Arithmetic only; used from
 * the tower's thread. */
#ifndef PIPETRAIN_UPDATE_CUT_H
#define PIPETRAIN_UPDATE_CUT_H

#include "compute/arena.h"
#include "compute/floats.h"
#include "compute/optimizer.h"

/* A range of the arena of which all or nothing takes part in weight decay. A parameter that has a rate
 * of its own is a run by itself. */
struct param_group {
    size_t offset, end;
    bool decays, adapts;
    double *sums;                       /* where it adapts, 2 * SQUARES_ROOM: of weights and of gradients */
};

struct param_groups {
    struct param_group *runs;           /* in the order of the arena, whose updated part they cover */
    uint32_t run_count;
    bool is_whole;                      /* all runs are updated alike */
    bool clips;                         /* all gradients are shortened as one */
    double *all_sums;                   /* where they are, SQUARES_ROOM */
    float scale;                        /* of the gradients in the last update; 0: there was none */
    /* What param_groups_select finds, with room for all runs. */
    struct optimizer_range *ranges;
    struct squares *squares;            /* due before the update */
    uint32_t range_count, squares_count;
};

/* Find the runs of the arena of net's trained parameters, as the optimizer sees them. Weights of convolutions and
 * dense layers have rates of their own where the rule adapts; biases, gammas and betas have not. 0 or -ENOMEM. */
int param_groups_init(struct param_groups *cut, const struct net *net, const struct arena *arena,
                      const struct optimizer *optimizer);
/* Accepts what is all zero, or half made. */
void param_groups_release(struct param_groups *cut);
/* Bytes of memory of the device that sums of squares need; may be 0. */
size_t param_groups_bytes(const struct param_groups *cut);
/* That memory, lent. Not called where it is none. */
void param_groups_bind(struct param_groups *cut, double *sums);
/* Find the ranges of [offset, end), which holds every parameter as a whole or not at all, all of them where
 * gradients are clipped, and the squares they need. `whole` is all of the arena, of which what is
 * frozen takes no part. */
void param_groups_select(struct param_groups *cut, const struct optimizer_range *whole, size_t offset, size_t end);

#endif
