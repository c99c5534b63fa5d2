/* The plan of a network's values and gradients, made once for every backend: where each lies,
 * from when to when it is held, what is computed in place, and where the gradient of a value
 * that is read more than once is added up.
 *
 * A backend says how its layers use values (struct value_use) and how large these are; the plan
 * gives a buffer to every value and gradient and one block of memory in which buffers that hold
 * nothing at the same time lie over each other. A backend's own buffers go into the same block.
 *
 * Time is counted in instants: forward of every head in turn, then for every head from the last
 * to the first backward in two, the gradients of its parameters and those of its inputs. */
#ifndef PIPETRAIN_VALUES_H
#define PIPETRAIN_VALUES_H

#include "compute/plan/fusion.h"
#include "compute/plan/lifetime.h"

#define BUFFER_NONE UINT32_MAX

enum value_phase { PHASE_FORWARD, PHASE_PARAMETERS, PHASE_INPUTS };

/* What a backend's implementation of a group does. */
struct value_use {
    /* Whether backward reads the first input and the result again, and until when; PHASE_FORWARD: it
     * does not. Other inputs are read forward only. */
    enum value_phase in_until, out_until;
    bool out_sign;              /* of the result, backward asks only which numbers are above 0 */
    bool in_place;              /* forward may write the result over an input */
    uint32_t in_place_input;    /* over this one of the group's; but 0 in evaluation only */
    bool keeps_sign;            /* in place, and what was not above 0 stays so; what was, stays above 0, or
                                 * its gradient is 0 */
    bool is_identity;           /* the result is the first input: nothing is done, forward or backward */
    bool grows;                 /* the result may be the first input with more numbers behind each of its pixels:
                                 * then only those are written, and backward reads only those */
    bool reads_fronts;          /* inputs may be the front of a wider value, see struct value, where backward adds */
    bool gradient_in_place;     /* backward may write its last input's gradient over its result's */
    bool adds;                  /* backward can add an input's gradient to what is there */
    bool gradient_early;        /* forward writes the input's gradient (the loss) */
};

/* Values that grow out of each other lie in one buffer, and their gradients in another: each is the front of the
 * widest, its first channels at every pixel. A buffer has the widest one's bytes. */
struct value {
    size_t bytes;               /* of all samples; of a front: of the widest */
    uint32_t widest;            /* the value it is the front of, itself where it is of none */
    bool has_gradient;          /* training, and something before it is trained and not frozen */
    uint32_t buffer, gradient;  /* BUFFER_NONE: there is none */
};

/* The gradient of one input of a group, when the value has one. A group's inputs are worked off
 * in order: the same value may be read twice. What it finds in its result's gradient, a group may
 * change: nobody else reads that. */
struct flow {
    uint32_t buffer;            /* where the group writes it; BUFFER_NONE: not wanted */
    bool adds;                  /* add to what is in `buffer`, else overwrite */
    uint32_t sum;               /* behind the group `buffer` is to be added to this; else BUFFER_NONE */
};

struct value_plan {
    const struct fusion *fusion;        /* lent */
    bool training;
    struct value *values;               /* by value */
    struct flow (*flows)[GROUP_INPUTS_MAX];     /* by head */
    struct lifetime *buffers;
    uint32_t buffer_count, buffer_room;
    size_t bytes;                       /* of the block, after value_plan_place */
};

/* bytes: by value; uses: by head; both are read now only. 0 or -ENOMEM. */
int value_plan_open(struct value_plan *plan, const struct fusion *fusion, bool training, const size_t *bytes,
                    const struct value_use *uses);
void value_plan_close(struct value_plan *plan);

/* A buffer of the backend's own, not used at any time yet. 0 or -ENOMEM. */
int value_plan_buffer(struct value_plan *plan, size_t bytes, uint32_t *buffer_out);
/* The buffer holds something at `time`, and from and to every other time named. */
void value_plan_use(struct value_plan *plan, uint32_t buffer, uint32_t time);
void value_plan_use_always(struct value_plan *plan, uint32_t buffer);
/* All buffers and uses are known: decide the offsets. 0 or -ENOMEM. */
int value_plan_place(struct value_plan *plan);

/* Does backward have to do anything for this head? */
bool value_plan_needs_grad(const struct value_plan *plan, uint32_t head);

static inline bool value_is_front(const struct value_plan *plan, uint32_t value)
{
    return plan->values[value].widest != value;
}
/* Does the result of the head lie around its first input? */
static inline bool value_plan_grows(const struct value_plan *plan, uint32_t head)
{
    const struct group *const group = &plan->fusion->groups[head];
    return value_is_front(plan, group->inputs[0]) &&
           plan->values[group->inputs[0]].widest == plan->values[group->output].widest;
}

/* The first piece at or behind `from` of the block that holds nothing at `time`: its offset, and its
 * end in *end_out. The block's bytes when there is none. */
size_t value_plan_idle(const struct value_plan *plan, uint32_t time, size_t from, size_t *end_out);

static inline uint32_t time_forward(uint32_t head)
{
    return head;
}
static inline uint32_t time_parameters(const struct value_plan *plan, uint32_t head)
{
    const uint32_t count = plan->fusion->net->layer_count;
    return count + 2 * (count - 1 - head);
}
static inline uint32_t time_inputs(const struct value_plan *plan, uint32_t head)
{
    return time_parameters(plan, head) + 1;
}

#endif
