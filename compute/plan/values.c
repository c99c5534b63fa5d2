/* Assigns buffers to values and gradients. Called when a backend makes a plan. */
#include "compute/plan/values.h"

#include <errno.h>
#include <stdlib.h>

/* The property of a value that backward still reads and that must therefore not be overwritten. */
enum held { HELD_NOT, HELD_SIGN, HELD_VALUES };

/* The liveness of values: which groups read a value, whether backward reads it again, and until when. */
struct liveness {
    struct value_memory *memory;
    const struct net *net;
    const struct group *groups;
    const struct value_use *uses;
    enum held *held;            /* by value */
    bool *is_shared;            /* by value: another value in the same buffer has readers, too */
};

/* ---- buffers ---- */

int value_memory_buffer(struct value_memory *memory, size_t bytes, uint32_t *buffer_out)
{
    if (memory->buffer_count == memory->buffer_room) {
        const uint32_t room = memory->buffer_room * 2 + 16;
        struct lifetime *const buffers = realloc(memory->buffers, room * sizeof(*buffers));
        if (buffers == NULL)
            return -ENOMEM;
        memory->buffers = buffers;
        memory->buffer_room = room;
    }
    memory->buffers[memory->buffer_count] = (struct lifetime){ .bytes = bytes, .first = UINT32_MAX };
    *buffer_out = memory->buffer_count++;
    return 0;
}

void value_memory_use(struct value_memory *memory, uint32_t buffer, uint32_t time)
{
    if (buffer == BUFFER_NONE)
        return;
    struct lifetime *const life = &memory->buffers[buffer];
    if (time < life->first)
        life->first = time;
    if (time > life->last)
        life->last = time;
}

void value_memory_use_always(struct value_memory *memory, uint32_t buffer)
{
    value_memory_use(memory, buffer, 0);
    value_memory_use(memory, buffer, time_inputs(memory, 0));
}

static uint32_t time_of(const struct value_memory *memory, uint32_t head, enum pass pass)
{
    return pass == PASS_FORWARD      ? time_forward(head)
           : pass == PASS_PARAMETERS ? time_parameters(memory, head)
                                       : time_inputs(memory, head);
}

/* ---- values that grow (a concatenation whose first input is the front of its result) ---- */

static bool takes_fronts(const struct liveness *liveness, uint32_t head)
{
    return liveness->uses[head].reads_fronts && (liveness->uses[head].adds || !liveness->memory->training);
}

/* Can the result of `head` grow out of `value`, its first input? The group that computes the value must be able to grow
 * it, too; all readers must accept fronts; and `head` must be the last reader and read it once. */
static bool may_grow(const struct liveness *liveness, uint32_t head, uint32_t value)
{
    const uint32_t maker = value != 0 ? liveness->groups[value - 1].head : FUSION_LEFT_OUT;
    if (!liveness->uses[head].grows || maker == FUSION_LEFT_OUT || !liveness->uses[maker].grows)
        return false;
    for (uint32_t i = maker + 1; i < liveness->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(liveness->memory->fusion, i) && k < liveness->groups[i].input_count; k++)
            if (liveness->groups[i].inputs[k] == value &&
                (!takes_fronts(liveness, i) || i > head || (i == head && k > 0)))
                return false;
    return true;
}

/* Find the fronts from the last layer to the first, so that the widest value of a result is known before that of its
 * input. */
static void find_fronts(struct liveness *liveness)
{
    struct value *const values = liveness->memory->values;
    for (uint32_t i = liveness->net->layer_count; i-- > 0;) {
        if (!fusion_is_head(liveness->memory->fusion, i))
            continue;
        const uint32_t from = liveness->groups[i].inputs[0], to = liveness->groups[i].output;
        if (!may_grow(liveness, i, from))
            continue;
        values[from].widest = values[to].widest;
        values[from].bytes = values[to].bytes;
    }
}

/* ---- forward ---- */

static enum held held_by(const struct liveness *liveness, uint32_t head)
{
    const struct value_use *const use = &liveness->uses[head];
    if (!value_memory_needs_grad(liveness->memory, head) || use->out_until == PASS_FORWARD)
        return HELD_NOT;
    return use->out_sign ? HELD_SIGN : HELD_VALUES;
}

/* Training: is the head the only reader of the value? Evaluation: is it the last reader, and reads it once? */
static bool is_last_reader(const struct liveness *liveness, uint32_t head, uint32_t value)
{
    uint32_t reads = 0;
    if (liveness->memory->training)
        return liveness->memory->fusion->readers[value] == 1;
    for (uint32_t i = head; i < liveness->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(liveness->memory->fusion, i) && k < liveness->groups[i].input_count; k++)
            reads += liveness->groups[i].inputs[k] == value;
    return reads == 1;
}

static bool may_overwrite(const struct liveness *liveness, uint32_t head, uint32_t value)
{
    const struct value_use *const use = &liveness->uses[head];
    const struct value *const values = liveness->memory->values;
    const enum held held = liveness->held[value];
    return use->in_place && is_last_reader(liveness, head, value) && !liveness->is_shared[value] &&
           values[value].bytes == values[liveness->groups[head].output].bytes &&
           (held == HELD_NOT || (held == HELD_SIGN && use->keeps_sign));
}

/* The result takes over the buffer of an input. */
static void take_over(struct liveness *liveness, uint32_t head, uint32_t from)
{
    const struct group *const group = &liveness->groups[head];
    const uint32_t to = group->output;
    const bool has_others = liveness->is_shared[from] || liveness->memory->fusion->readers[from] > 1;
    const bool stays = liveness->uses[head].is_identity || value_memory_grows(liveness->memory, head);
    liveness->memory->values[to].buffer = liveness->memory->values[from].buffer;
    liveness->is_shared[to] = stays && has_others;
    liveness->is_shared[from] = liveness->is_shared[from] || stays;
    const enum held own = held_by(liveness, head);
    liveness->held[to] = own > liveness->held[from] ? own : liveness->held[from];
}

static int open_result(struct liveness *liveness, uint32_t head)
{
    const struct group *const group = &liveness->groups[head];
    struct value *const value = &liveness->memory->values[group->output];
    if (liveness->memory->fusion->readers[group->output] == 0)
        return 0;
    const struct value_use *const use = &liveness->uses[head];
    if (use->out_absent)
        return 0;
    const bool stays = use->is_identity || value_memory_grows(liveness->memory, head);
    const uint32_t from = group->inputs[stays ? 0 : use->in_place_input];
    if (stays || may_overwrite(liveness, head, from)) {
        take_over(liveness, head, from);
        return 0;
    }
    liveness->held[group->output] = held_by(liveness, head);
    return value_memory_buffer(liveness->memory, value->bytes, &value->buffer);
}

static void use_values(struct liveness *liveness, uint32_t head)
{
    struct value_memory *const memory = liveness->memory;
    const struct group *const group = &liveness->groups[head];
    const struct value_use *const use = &liveness->uses[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        value_memory_use(memory, memory->values[group->inputs[k]].buffer, time_forward(head));
    value_memory_use(memory, memory->values[group->output].buffer, time_forward(head));
    if (!value_memory_needs_grad(memory, head))
        return;
    for (uint32_t k = 0; k < group->input_count; k++)
        value_memory_use(memory, memory->values[group->inputs[k]].buffer,
                         time_of(memory, head, k == 0 ? use->in_until : use->others_until));
    value_memory_use(memory, memory->values[group->output].buffer, time_of(memory, head, use->out_until));
}

static int plan_forward(struct liveness *liveness)
{
    struct value_memory *const memory = liveness->memory;
    const bool has_image = memory->fusion->readers[0] > 0;
    int rc = has_image ? value_memory_buffer(memory, memory->values[0].bytes, &memory->values[0].buffer) : 0;
    if (rc == 0)
        value_memory_use(memory, memory->values[0].buffer, time_forward(0));
    for (uint32_t i = 0; i < liveness->net->layer_count && rc == 0; i++) {
        if (!fusion_is_head(memory->fusion, i))
            continue;
        rc = open_result(liveness, i);
        if (rc == 0)
            use_values(liveness, i);
    }
    return rc;
}

/* ---- backward ---- */

/* Does the layer want the gradient of its output, whatever its inputs? */
static bool wants_gradient(const struct layer *layer)
{
    return layer_is_trained(layer) || (layer->kind == LAYER_RECEIVE && !layer->is_frozen);
}

/* A value has a gradient when its layer wants it or one of its inputs has a gradient. */
static void find_gradients(struct liveness *liveness)
{
    struct value *const values = liveness->memory->values;
    for (uint32_t i = 0; i < liveness->net->layer_count; i++) {
        const struct group *const group = &liveness->groups[i];
        if (group->head != i)
            continue;
        bool has_gradient = wants_gradient(&liveness->net->layers[i]);
        for (uint32_t k = 0; k < group->input_count; k++)
            has_gradient = has_gradient || values[group->inputs[k]].has_gradient;
        values[group->output].has_gradient = has_gradient;
    }
}

static bool shares_gradient(const struct value_memory *memory, uint32_t value)
{
    for (uint32_t v = 0; v <= memory->fusion->net->layer_count; v++)
        if (v != value && memory->values[v].widest == memory->values[value].widest)
            return true;
    return false;
}

/* Is input k of the head the last read of the value in backward order? */
static bool is_last_flow(const struct liveness *liveness, uint32_t head, uint32_t k)
{
    const uint32_t value = liveness->groups[head].inputs[k];
    for (uint32_t i = 0; i <= head; i++)
        for (uint32_t j = 0; fusion_is_head(liveness->memory->fusion, i) && j < liveness->groups[i].input_count; j++)
            if (liveness->groups[i].inputs[j] == value && (i < head || j > k))
                return false;
    return true;
}

/* Can the group mask the gradient of its first input, so that the group that computed the value need not do it? The
 * value is still there if backward reads it anyway. */
static bool may_mask(const struct liveness *liveness, uint32_t head)
{
    const uint32_t value = liveness->groups[head].inputs[0];
    const uint32_t maker = value != 0 ? liveness->groups[value - 1].head : FUSION_LEFT_OUT;
    return liveness->uses[head].in_until != PASS_FORWARD && maker != FUSION_LEFT_OUT && liveness->uses[maker].takes_masked &&
           is_last_flow(liveness, head, 0);
}

/* The group writes the sum of its gradient and those before it to a new buffer. */
static int open_apart(struct liveness *liveness, uint32_t head)
{
    struct value_memory *const memory = liveness->memory;
    struct flow *const flow = &memory->flows[head][0];
    struct value *const value = &memory->values[liveness->groups[head].inputs[0]];
    flow->addend = value->gradient;
    const int rc = value_memory_buffer(memory, value->bytes, &flow->buffer);
    value->gradient = flow->buffer;
    return rc;
}

/* The first group in backward order that computes a gradient of the value writes it; the others add to it. */
static int open_flow(struct liveness *liveness, uint32_t head, uint32_t k)
{
    struct value_memory *const memory = liveness->memory;
    const struct group *const group = &liveness->groups[head];
    const struct value_use *const use = &liveness->uses[head];
    struct value *const value = &memory->values[group->inputs[k]];
    const uint32_t above = memory->values[group->output].gradient;
    struct flow *const flow = &memory->flows[head][k];
    if (!value->has_gradient)
        return 0;
    const bool is_apart = use->adds_apart && k == 0 && !shares_gradient(memory, group->inputs[0]);
    flow->masks = value->is_masked = is_apart && may_mask(liveness, head);
    if (is_apart && value->gradient != BUFFER_NONE)
        return open_apart(liveness, head);
    if (value->gradient == BUFFER_NONE) {
        const bool is_last = k + 1 == group->input_count;
        const bool shares = use->is_identity || (k == 0 && value_memory_grows(memory, head)) ||
                            (use->gradient_in_place && is_last && above != BUFFER_NONE &&
                             value->bytes == memory->values[group->output].bytes);
        value->gradient = above;
        const int rc = shares ? 0 : value_memory_buffer(memory, value->bytes, &value->gradient);
        flow->buffer = value->gradient;
        return rc;
    }
    flow->adds = use->adds && !use->is_identity;
    flow->buffer = flow->adds ? value->gradient : above;
    flow->sum = flow->adds ? BUFFER_NONE : value->gradient;
    return flow->adds || use->is_identity ? 0 : value_memory_buffer(memory, value->bytes, &flow->buffer);
}

static void use_gradients(struct liveness *liveness, uint32_t head)
{
    struct value_memory *const memory = liveness->memory;
    const struct group *const group = &liveness->groups[head];
    const uint32_t above = memory->values[group->output].gradient;
    const uint32_t added = time_inputs(memory, head);
    const uint32_t written = liveness->uses[head].gradient_early ? time_forward(head) : added;
    value_memory_use(memory, above, time_parameters(memory, head));
    value_memory_use(memory, above, time_inputs(memory, head));
    for (uint32_t k = 0; k < group->input_count; k++) {
        const struct flow *const flow = &memory->flows[head][k];
        value_memory_use(memory, flow->buffer, written);
        value_memory_use(memory, flow->addend, added);
        if (flow->masks)
            value_memory_use(memory, memory->values[group->inputs[k]].buffer, added);
        if (flow->sum == BUFFER_NONE)
            continue;
        value_memory_use(memory, flow->buffer, added);
        value_memory_use(memory, flow->sum, added);
    }
}

static int plan_backward(struct liveness *liveness)
{
    int rc = 0;
    for (uint32_t i = liveness->net->layer_count; i-- > 0 && rc == 0;) {
        if (!fusion_is_head(liveness->memory->fusion, i))
            continue;
        for (uint32_t k = 0; k < liveness->groups[i].input_count && rc == 0; k++)
            rc = open_flow(liveness, i, k);
        if (rc == 0)
            use_gradients(liveness, i);
    }
    return rc;
}

bool value_memory_needs_grad(const struct value_memory *memory, uint32_t head)
{
    return fusion_is_head(memory->fusion, head) && memory->values[memory->fusion->groups[head].output].has_gradient;
}

/* ---- offsets: the largest buffer first, each at the lowest offset that is free while it is in use ---- */

static size_t rounded(size_t bytes)
{
    return (bytes + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
}

static bool is_ever_used(const struct lifetime *buffer)
{
    return buffer->first <= buffer->last && buffer->bytes > 0;
}

static bool overlap_in_time(const struct lifetime *a, const struct lifetime *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int compare_sizes(const void *left, const void *right)
{
    const struct lifetime *a = *(struct lifetime *const *)left, *b = *(struct lifetime *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b;
}

static int compare_offsets(const void *left, const void *right)
{
    const struct lifetime *a = *(struct lifetime *const *)left, *b = *(struct lifetime *const *)right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* `neighbours` are the buffers in use at the same time, by offset. */
static size_t lowest_offset(size_t bytes, struct lifetime *const *neighbours, uint32_t count)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (offset + bytes <= neighbours[i]->offset)
            break;
        const size_t end = neighbours[i]->offset + rounded(neighbours[i]->bytes);
        if (end > offset)
            offset = end;
    }
    return offset;
}

size_t lifetime_place(struct lifetime *buffers, uint32_t count)
{
    struct lifetime **order = calloc((size_t)count * 2 + 1, sizeof(*order));
    if (order == NULL)
        return 0;
    struct lifetime **neighbours = order + count;
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_ever_used(&buffers[i]))
            order[used++] = &buffers[i];
    qsort(order, used, sizeof(*order), compare_sizes);
    size_t total = 0;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t neighbour_count = 0;
        for (uint32_t j = 0; j < i; j++)
            if (overlap_in_time(order[i], order[j]))
                neighbours[neighbour_count++] = order[j];
        qsort(neighbours, neighbour_count, sizeof(*neighbours), compare_offsets);
        const size_t bytes = rounded(order[i]->bytes);
        order[i]->offset = lowest_offset(bytes, neighbours, neighbour_count);
        if (order[i]->offset + bytes > total)
            total = order[i]->offset + bytes;
    }
    free(order);
    return total;
}

int value_memory_place(struct value_memory *memory)
{
    memory->bytes = lifetime_place(memory->buffers, memory->buffer_count);
    return memory->bytes > 0 ? 0 : -ENOMEM;
}

/* ---- the whole ---- */

static int plan_all(struct liveness *liveness)
{
    const uint32_t layer_count = liveness->net->layer_count;
    liveness->held = calloc((size_t)layer_count + 1, sizeof(*liveness->held));
    liveness->is_shared = calloc((size_t)layer_count + 1, sizeof(*liveness->is_shared));
    if (liveness->held == NULL || liveness->is_shared == NULL)
        return -ENOMEM;
    if (liveness->memory->training)
        find_gradients(liveness);
    find_fronts(liveness);
    const int rc = plan_forward(liveness);
    return rc == 0 && liveness->memory->training ? plan_backward(liveness) : rc;
}

static int alloc_plan(struct value_memory *memory, const size_t *bytes)
{
    const uint32_t layer_count = memory->fusion->net->layer_count;
    memory->values = calloc((size_t)layer_count + 1, sizeof(*memory->values));
    memory->flows = calloc(layer_count, sizeof(*memory->flows));
    if (memory->values == NULL || memory->flows == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v <= layer_count; v++)
        memory->values[v] =
            (struct value){ .bytes = bytes[v], .widest = v, .buffer = BUFFER_NONE, .gradient = BUFFER_NONE };
    for (uint32_t i = 0; i < layer_count; i++)
        for (uint32_t k = 0; k < GROUP_INPUTS_MAX; k++)
            memory->flows[i][k] = (struct flow){ .buffer = BUFFER_NONE, .addend = BUFFER_NONE, .sum = BUFFER_NONE };
    return 0;
}

int value_memory_open(struct value_memory *memory, const struct fusion *fusion, bool training, const size_t *bytes,
                    const struct value_use *uses)
{
    *memory = (struct value_memory){ .fusion = fusion, .training = training };
    struct liveness liveness = { .memory = memory, .net = fusion->net, .groups = fusion->groups, .uses = uses };
    int rc = alloc_plan(memory, bytes);
    if (rc == 0)
        rc = plan_all(&liveness);
    free(liveness.held);
    free(liveness.is_shared);
    if (rc != 0)
        value_memory_close(memory);
    return rc;
}

void value_memory_close(struct value_memory *memory)
{
    free(memory->values);
    free(memory->flows);
    free(memory->buffers);
    *memory = (struct value_memory){ 0 };
}

static bool is_used_at(const struct value_memory *memory, size_t offset, uint32_t time)
{
    for (uint32_t b = 0; b < memory->buffer_count; b++) {
        const struct lifetime *const life = &memory->buffers[b];
        if (life->first <= time && time <= life->last && offset >= life->offset && offset - life->offset < life->bytes)
            return true;
    }
    return false;
}

size_t value_memory_idle(const struct value_memory *memory, uint32_t time, size_t from, size_t *end_out)
{
    while (from < memory->bytes && is_used_at(memory, from, time))
        from += LIFETIME_ALIGN;
    size_t end = from;
    while (end < memory->bytes && !is_used_at(memory, end, time))
        end += LIFETIME_ALIGN;
    *end_out = end;
    return from;
}
