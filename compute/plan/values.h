/* The memory of a network's values and gradients, for all backends: where each is stored and during which time, which
 * are computed in place, and where the gradient of a value with several readers is summed.
 *
 * A backend says how its layers use values (struct value_use) and how large the values are. The plan assigns a buffer
 * to every value and gradient, and an offset in one block of memory to every buffer; buffers that are in use at
 * different times share memory. A backend can add buffers of its own to the block.
 *
 * Times are numbered: forward of every head in order, then, for every head from the last to the first, backward in two
 * passes: the gradients of its parameters, then those of its inputs. */
#ifndef PIPETRAIN_VALUES_H
#define PIPETRAIN_VALUES_H

#include "compute/plan/fusion.h"

#define BUFFER_NONE UINT32_MAX

/* A buffer, and the times between which it is in use. */
#define LIFETIME_ALIGN 64u

struct lifetime {
    size_t bytes;
    uint32_t first, last;       /* inclusive; first > last: never used */
    size_t offset;              /* result: a multiple of LIFETIME_ALIGN */
};

/* Assign offsets to `count` buffers so that no two that are in use at the same time overlap. Returns the bytes of the
 * block, or 0 when there is no memory (or no buffer is used). Deterministic. */
size_t lifetime_place(struct lifetime *buffers, uint32_t count);

enum pass { PASS_FORWARD, PASS_PARAMETERS, PASS_INPUTS };

/* How a backend's implementation of a group uses its values. All 0 is always correct and takes the most memory. */
struct value_use {
    /* The last pass that reads the first input, the other inputs, and the result; PASS_FORWARD: backward does not read
     * them. */
    enum pass in_until, others_until, out_until;
    bool out_sign;              /* backward reads only which numbers of the result are above 0 */
    bool in_place;              /* forward may overwrite an input with the result */
    uint32_t in_place_input;    /* this input of the group; other than 0 in evaluation only */
    bool keeps_sign;            /* in place, forward preserves the signs that backward reads: numbers not above 0 stay
                                 * so; a number above 0 stays so unless its gradient is 0 */
    bool out_absent;            /* the result is not stored: its only reader computes it from the first input, which it
                                 * marks as in use */
    bool is_identity;           /* the result is the first input: forward and backward do nothing */
    bool grows;                 /* the result may extend the first input in place, with more channels after those of
                                 * each pixel; then forward writes and backward reads only the new channels */
    bool reads_fronts;          /* inputs may be the front of a wider value (struct value), where backward adds */
    bool gradient_in_place;     /* backward may overwrite the gradient of the result with that of the last input */
    bool adds;                  /* backward can add an input's gradient to the one in memory */
    bool adds_apart;            /* backward can write the sum of the first input's gradient and the one in memory to
                                 * other memory, masked by the ReLU whose output the input is, if wanted */
    bool takes_masked;          /* the result is the output of a ReLU at the end of the group; backward accepts a
                                 * gradient that is 0 where the result is not above 0, and then does not need to know
                                 * where that is */
    bool gradient_early;        /* forward writes the input's gradient (the loss) */
};

/* Values that grow out of each other (value_use.grows) share one buffer, and their gradients another. Each of them
 * is the front of the widest, that is, its first channels at every pixel. */
struct value {
    size_t bytes;               /* bytes of all samples; for a front, the bytes of the widest value */
    uint32_t widest;            /* the value of which it is the front; itself when it is not a front */
    bool has_gradient;          /* the value has a gradient: in training, when a layer before it is trained and not
                                 * frozen */
    bool is_masked;             /* the gradient is masked by the last group that adds to it (flow.masks) */
    uint32_t buffer, gradient;  /* BUFFER_NONE: none; a value without a buffer is computed by its reader
                                 * (value_use.out_absent), or read by nobody */
};

/* How the gradient of one input of a group is written, when the value has one. Inputs are processed in order,
 * because the same value may be read twice. A group may change its result's gradient, which nobody else reads. */
struct flow {
    uint32_t buffer;            /* where the group writes it; BUFFER_NONE: it is not needed */
    bool adds;                  /* add to the contents of `buffer`, else overwrite them */
    uint32_t addend;            /* write the sum of the gradient and this buffer, which nobody reads afterwards;
                                 * BUFFER_NONE: only the gradient */
    bool masks;                 /* write 0 where the value, which is the output of a ReLU, is not above 0 */
    uint32_t sum;               /* after the group, `buffer` is added to this buffer; BUFFER_NONE: it is not */
};

/* Where values and gradients are, in one block of memory. */
struct value_memory {
    const struct fusion *fusion;        /* lent */
    bool training;
    struct value *values;               /* by value */
    struct flow (*flows)[GROUP_INPUTS_MAX];     /* by head */
    struct lifetime *buffers;
    uint32_t buffer_count, buffer_room;
    size_t bytes;                       /* of the block, after value_memory_place */
};

/* `bytes` is by value, `uses` by head; neither is kept. 0 or -ENOMEM. */
int value_memory_open(struct value_memory *memory, const struct fusion *fusion, bool training, const size_t *bytes,
                    const struct value_use *uses);
void value_memory_close(struct value_memory *memory);

/* Add a buffer for the backend itself, which is not in use at any time yet. 0 or -ENOMEM. */
int value_memory_buffer(struct value_memory *memory, size_t bytes, uint32_t *buffer_out);
/* Mark the buffer as in use at `time`. It is in use from the first to the last time that was marked. */
void value_memory_use(struct value_memory *memory, uint32_t buffer, uint32_t time);
void value_memory_use_always(struct value_memory *memory, uint32_t buffer);
/* Assign the offsets, when all buffers and their times are known. 0 or -ENOMEM. */
int value_memory_place(struct value_memory *memory);

/* Must backward compute anything for this head? */
bool value_memory_needs_grad(const struct value_memory *memory, uint32_t head);

static inline bool value_is_front(const struct value_memory *memory, uint32_t value)
{
    return memory->values[value].widest != value;
}
/* Does the result of the head share the buffer of its first input, as a wider value? */
static inline bool value_memory_grows(const struct value_memory *memory, uint32_t head)
{
    const struct group *const group = &memory->fusion->groups[head];
    return value_is_front(memory, group->inputs[0]) &&
           memory->values[group->inputs[0]].widest == memory->values[group->output].widest;
}

/* The first range of the block at or after `from` that is unused at `time`: returns its offset, and its end in
 * *end_out. Returns the bytes of the block when there is none. */
size_t value_memory_idle(const struct value_memory *memory, uint32_t time, size_t from, size_t *end_out);

static inline uint32_t time_forward(uint32_t head)
{
    return head;
}
static inline uint32_t time_parameters(const struct value_memory *memory, uint32_t head)
{
    const uint32_t count = memory->fusion->net->layer_count;
    return count + 2 * (count - 1 - head);
}
static inline uint32_t time_inputs(const struct value_memory *memory, uint32_t head)
{
    return time_parameters(memory, head) + 1;
}

#endif
