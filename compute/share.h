/* Model parallelism (model.parts): how a network is divided among towers. The convolutions, the trunk, are computed by
 * every tower for its own samples; the dense layers at the end, the head, by every tower for all samples of the batch,
 * but only some of their units (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks").
 *
 * The units of every dense layer of the head are divided into `parts` equal parts, each of which is a product of its
 * own, however many towers there are: so the number of towers changes no bits. A tower owns neighbouring parts of every
 * layer.
 *
 * The share of a tower is a net with the layers of the trunk, which end in LAYER_SEND, and for every dense layer of the
 * head and every own part: LAYER_RECEIVE, the dense layer with a part of the units, the ReLUs and dropouts after it, and
 * LAYER_SEND or, after the last dense layer, LAYER_PART_LOSS. Each of these is a range of layers with a plan of its own
 * (compute/head.h). Parameters of the head are ranges of rows of those of the whole net. */
#ifndef PIPETRAIN_SHARE_H
#define PIPETRAIN_SHARE_H

#include "compute/net.h"
#include "compute/plan/fusion.h"
#include "stage/device.h"

#define SHARE_PARTS_MAX 64u
#define HEAD_STAGES_MAX 16u

/* A dense layer of the head, with the ReLUs and dropouts after it. */
struct head_stage {
    uint32_t first, end;        /* layers of the whole net: the dense layer .. end - 1 */
    uint32_t inputs, units;     /* of the dense layer */
    bool sends_gradient;        /* a layer before it is trained, so the gradient of its inputs is wanted */
};

struct head {
    uint32_t parts;
    uint32_t first;             /* layer of the whole net: the first dense layer */
    uint32_t features;          /* numbers of a sample that the head reads */
    uint32_t stage_count;
    struct head_stage stages[HEAD_STAGES_MAX];
};

/* Neighbouring parts. */
struct part_range { uint32_t first, count; };

/* Find the head of a finished whole net: the longest end of the net that begins with a dense layer and consists of
 * dense layers, ReLUs, dropouts and the loss, each reading the one before, which nothing else reads. 0; or -EINVAL, with
 * the reason, if there is none, or if its units are not multiples of `parts` (at most SHARE_PARTS_MAX). */
int head_find(struct head *head_out, const struct net *net, uint32_t parts, struct unsupported_reason *reason);
/* Can so many towers own the parts? 1, or parts / 2^k: the parts of a tower are a subtree of the order of additions
 * (stage/pairwise.h). */
bool head_parts_fit(uint32_t parts, uint32_t towers);
/* The parts of tower `tower` of `towers`. */
struct part_range head_own_parts(uint32_t parts, uint32_t towers, uint32_t tower);

/* Open the share of `whole` that owns `own` parts; close it with net_close. 0 or -ENOMEM. */
int share_open(struct net **share_out, const struct net *whole, const struct head *head, struct part_range own);
/* The layers of the trunk, and those of stage `stage` (from 0) and part own.first + `part`. */
struct layer_range share_trunk(const struct head *head);
struct layer_range share_stage(const struct head *head, struct part_range own, uint32_t stage, uint32_t part);

#endif
