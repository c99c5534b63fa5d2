/* Parameter groups: ranges of a tower's trained arena that the optimizer updates alike (with or without weight
 * decay, at the rate of the step or, with LARS, at a rate of their own). Arithmetic only; no memory of a device is
 * touched. Used by the tower and by the parameter server. */
#ifndef PIPETRAIN_PARAM_GROUPS_H
#define PIPETRAIN_PARAM_GROUPS_H

#include "compute/arena.h"
#include "compute/floats.h"
#include "compute/optimizer.h"
#include "compute/part_norms.h"
#include "compute/share.h"

/* Neighbouring parameters form one group, but a parameter with a rate of its own is a group by itself. */
struct param_group {
    size_t offset, end;
    bool decays;                        /* weight decay applies */
    bool adapts;                        /* the group has a rate of its own, computed from the norms of weights and
                                         * gradients */
    /* Where it adapts: the sums of squares of its weights and gradients. Of a part of a parameter they are those of the
     * whole parameter, which part_norms_add finds. */
    double *weight_sums, *gradient_sums;
};

/* An own part of a parameter, whose squares are summed apart. */
struct part_squares {
    size_t offset, count;               /* in the arena */
    uint32_t part;                      /* 0: the first own part */
    uint32_t gradients, weights;        /* which sums of the part (struct part_norms); PART_NO_SUM: not needed */
};
#define PART_NO_SUM UINT32_MAX

struct param_groups {
    struct param_group *groups;         /* in arena order; together they cover the updated part of the arena */
    uint32_t group_count;
    bool are_alike;                     /* all groups are updated alike, as one range */
    bool clips;                         /* the norm of all gradients is clipped */
    double *all_sums;                   /* where the norm is clipped: SQUARES_ROOM doubles */
    /* Of a share of a net whose updates need norms (param_groups_divide). */
    struct part_norms norms;            /* parts 0: they do not */
    struct part_squares *part_squares;
    uint32_t part_squares_count;
    size_t shared;                      /* arena.shared */
    float scale;                        /* factor of the gradients in the last update; 0: no update yet */
    /* Results of param_groups_select, with room for all groups. */
    struct optimizer_range *ranges;     /* ranges to be updated */
    struct squares *squares;            /* sums of squares to be computed before the update */
    uint32_t range_count, squares_count;
};

/* Find the groups of the net's trained parameters. With an adaptive rule the weights of convolutions and dense
 * layers get rates of their own; biases, gammas and betas do not. 0 or -ENOMEM. */
int param_groups_init(struct param_groups *groups, const struct net *net, const struct arena *arena,
                      const struct optimizer *optimizer);
/* After init, for a share of a net that has `own` of `parts` parts: updates that need norms get them over all parts, and with
 * skips_nonfinite, whether a gradient of any part is not finite. If any of that is needed, all parameters are updated at
 * once. 0 or -ENOMEM. */
int param_groups_divide(struct param_groups *groups, const struct net *net, const struct arena *arena, uint32_t parts,
                        struct part_range own, bool skips_nonfinite);
/* Floats that the towers exchange of every part before an update, two for a double; 0: none. */
size_t param_groups_part_floats(const struct param_groups *groups);
/* Set the memory of the exchange, which is lent: those floats of every part, from part 0 on, in device memory. */
void param_groups_bind_exchange(struct param_groups *groups, float *exchanged);
/* Accepts structs that are all zero or were initialised in part. */
void param_groups_release(struct param_groups *groups);
/* Bytes of device memory that the sums of squares need; may be 0. */
size_t param_groups_bytes(const struct param_groups *groups);
/* Set that memory, which is lent. Not called when it is 0 bytes. */
void param_groups_bind(struct param_groups *groups, double *sums);
/* Find the ranges to update in [offset, end), and the sums of squares that the updates need. [offset, end) contains
 * every parameter entirely or not at all; when gradients are clipped or parts have norms, it contains all of them.
 * `arena` describes the whole arena as one range. */
void param_groups_select(struct param_groups *groups, const struct optimizer_range *arena, size_t offset, size_t end);

#endif
