/* Planning values forward and gradients backward. Called when a backend makes a plan. */
#include "compute/plan/values.h"

#include <errno.h>
#include <stdlib.h>

/* What backward still reads of a value, which must not be overwritten. */
enum held { HELD_NOT, HELD_SIGN, HELD_VALUES };

/* The state of planning. */
struct planning {
    struct value_plan *plan;
    const struct net *net;
    const struct group *groups;
    const struct value_use *uses;
    enum held *held;            /* by value */
    bool *is_shared;            /* by value: another value in the same buffer has readers, too */
};

/* ---- buffers ---- */

int value_plan_buffer(struct value_plan *plan, size_t bytes, uint32_t *buffer_out)
{
    if (plan->buffer_count == plan->buffer_room) {
        const uint32_t room = plan->buffer_room * 2 + 16;
        struct lifetime *const buffers = realloc(plan->buffers, room * sizeof(*buffers));
        if (buffers == NULL)
            return -ENOMEM;
        plan->buffers = buffers;
        plan->buffer_room = room;
    }
    plan->buffers[plan->buffer_count] = (struct lifetime){ .bytes = bytes, .first = UINT32_MAX };
    *buffer_out = plan->buffer_count++;
    return 0;
}

void value_plan_use(struct value_plan *plan, uint32_t buffer, uint32_t time)
{
    if (buffer == BUFFER_NONE)
        return;
    struct lifetime *const life = &plan->buffers[buffer];
    if (time < life->first)
        life->first = time;
    if (time > life->last)
        life->last = time;
}

void value_plan_use_always(struct value_plan *plan, uint32_t buffer)
{
    value_plan_use(plan, buffer, 0);
    value_plan_use(plan, buffer, time_inputs(plan, 0));
}

static uint32_t time_of(const struct value_plan *plan, uint32_t head, enum value_phase phase)
{
    return phase == PHASE_FORWARD      ? time_forward(head)
           : phase == PHASE_PARAMETERS ? time_parameters(plan, head)
                                       : time_inputs(plan, head);
}

/* ---- values that grow (a concatenation whose first input is the front of its result) ---- */

static bool takes_fronts(const struct planning *planning, uint32_t head)
{
    return planning->uses[head].reads_fronts && (planning->uses[head].adds || !planning->plan->training);
}

/* Can `head` make its result around `value`, its first input? The maker of the value must be able to grow it, too; all
 * readers must accept fronts, and `head` must be the last reader and read it once. */
static bool may_grow(const struct planning *planning, uint32_t head, uint32_t value)
{
    const uint32_t maker = value != 0 ? planning->groups[value - 1].head : FUSION_LEFT_OUT;
    if (!planning->uses[head].grows || maker == FUSION_LEFT_OUT || !planning->uses[maker].grows)
        return false;
    for (uint32_t i = maker + 1; i < planning->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(planning->plan->fusion, i) && k < planning->groups[i].input_count; k++)
            if (planning->groups[i].inputs[k] == value &&
                (!takes_fronts(planning, i) || i > head || (i == head && k > 0)))
                return false;
    return true;
}

/* From the last layer to the first, so that the widest value of a result is known before that of its input. */
static void find_fronts(struct planning *planning)
{
    struct value *const values = planning->plan->values;
    for (uint32_t i = planning->net->layer_count; i-- > 0;) {
        if (!fusion_is_head(planning->plan->fusion, i))
            continue;
        const uint32_t from = planning->groups[i].inputs[0], to = planning->groups[i].output;
        if (!may_grow(planning, i, from))
            continue;
        values[from].widest = values[to].widest;
        values[from].bytes = values[to].bytes;
    }
}

/* ---- forward ---- */

static enum held held_by(const struct planning *planning, uint32_t head)
{
    const struct value_use *const use = &planning->uses[head];
    if (!value_plan_needs_grad(planning->plan, head) || use->out_until == PHASE_FORWARD)
        return HELD_NOT;
    return use->out_sign ? HELD_SIGN : HELD_VALUES;
}

/* Training: is the head the only reader of the value? Evaluation: is it the last reader, and reads it once? */
static bool is_last_reader(const struct planning *planning, uint32_t head, uint32_t value)
{
    uint32_t reads = 0;
    if (planning->plan->training)
        return planning->plan->fusion->readers[value] == 1;
    for (uint32_t i = head; i < planning->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(planning->plan->fusion, i) && k < planning->groups[i].input_count; k++)
            reads += planning->groups[i].inputs[k] == value;
    return reads == 1;
}

static bool may_overwrite(const struct planning *planning, uint32_t head, uint32_t value)
{
    const struct value_use *const use = &planning->uses[head];
    const struct value *const values = planning->plan->values;
    const enum held held = planning->held[value];
    return use->in_place && is_last_reader(planning, head, value) && !planning->is_shared[value] &&
           values[value].bytes == values[planning->groups[head].output].bytes &&
           (held == HELD_NOT || (held == HELD_SIGN && use->keeps_sign));
}

/* The result takes over the buffer of an input. */
static void take_over(struct planning *planning, uint32_t head, uint32_t from)
{
    const struct group *const group = &planning->groups[head];
    const uint32_t to = group->output;
    const bool has_others = planning->is_shared[from] || planning->plan->fusion->readers[from] > 1;
    const bool stays = planning->uses[head].is_identity || value_plan_grows(planning->plan, head);
    planning->plan->values[to].buffer = planning->plan->values[from].buffer;
    planning->is_shared[to] = stays && has_others;
    planning->is_shared[from] = planning->is_shared[from] || stays;
    const enum held own = held_by(planning, head);
    planning->held[to] = own > planning->held[from] ? own : planning->held[from];
}

static int open_result(struct planning *planning, uint32_t head)
{
    const struct group *const group = &planning->groups[head];
    struct value *const value = &planning->plan->values[group->output];
    if (planning->plan->fusion->readers[group->output] == 0)
        return 0;
    const struct value_use *const use = &planning->uses[head];
    const bool stays = use->is_identity || value_plan_grows(planning->plan, head);
    const uint32_t from = group->inputs[stays ? 0 : use->in_place_input];
    if (stays || may_overwrite(planning, head, from)) {
        take_over(planning, head, from);
        return 0;
    }
    planning->held[group->output] = held_by(planning, head);
    return value_plan_buffer(planning->plan, value->bytes, &value->buffer);
}

static void use_values(struct planning *planning, uint32_t head)
{
    struct value_plan *const plan = planning->plan;
    const struct group *const group = &planning->groups[head];
    const struct value_use *const use = &planning->uses[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        value_plan_use(plan, plan->values[group->inputs[k]].buffer, time_forward(head));
    value_plan_use(plan, plan->values[group->output].buffer, time_forward(head));
    if (!value_plan_needs_grad(plan, head))
        return;
    value_plan_use(plan, plan->values[group->inputs[0]].buffer, time_of(plan, head, use->in_until));
    value_plan_use(plan, plan->values[group->output].buffer, time_of(plan, head, use->out_until));
}

static int plan_forward(struct planning *planning)
{
    struct value_plan *const plan = planning->plan;
    int rc = value_plan_buffer(plan, plan->values[0].bytes, &plan->values[0].buffer);
    if (rc == 0)
        value_plan_use(plan, plan->values[0].buffer, time_forward(0));
    for (uint32_t i = 0; i < planning->net->layer_count && rc == 0; i++) {
        if (!fusion_is_head(plan->fusion, i))
            continue;
        rc = open_result(planning, i);
        if (rc == 0)
            use_values(planning, i);
    }
    return rc;
}

/* ---- backward ---- */

/* A value has a gradient when its layer is trained or one of its inputs has a gradient. */
static void find_gradients(struct planning *planning)
{
    struct value *const values = planning->plan->values;
    for (uint32_t i = 0; i < planning->net->layer_count; i++) {
        const struct group *const group = &planning->groups[i];
        if (group->head != i)
            continue;
        bool has_gradient = layer_is_trained(&planning->net->layers[i]);
        for (uint32_t k = 0; k < group->input_count; k++)
            has_gradient = has_gradient || values[group->inputs[k]].has_gradient;
        values[group->output].has_gradient = has_gradient;
    }
}

/* The first group in backward order that computes a gradient of the value writes it; the others add to it. */
static int open_flow(struct planning *planning, uint32_t head, uint32_t k)
{
    struct value_plan *const plan = planning->plan;
    const struct group *const group = &planning->groups[head];
    const struct value_use *const use = &planning->uses[head];
    struct value *const value = &plan->values[group->inputs[k]];
    const uint32_t above = plan->values[group->output].gradient;
    struct flow *const flow = &plan->flows[head][k];
    if (!value->has_gradient)
        return 0;
    if (value->gradient == BUFFER_NONE) {
        const bool is_last = k + 1 == group->input_count;
        const bool shares = use->is_identity || (k == 0 && value_plan_grows(plan, head)) ||
                            (use->gradient_in_place && is_last && above != BUFFER_NONE &&
                             value->bytes == plan->values[group->output].bytes);
        value->gradient = above;
        const int rc = shares ? 0 : value_plan_buffer(plan, value->bytes, &value->gradient);
        flow->buffer = value->gradient;
        return rc;
    }
    flow->adds = use->adds && !use->is_identity;
    flow->buffer = flow->adds ? value->gradient : above;
    flow->sum = flow->adds ? BUFFER_NONE : value->gradient;
    return flow->adds || use->is_identity ? 0 : value_plan_buffer(plan, value->bytes, &flow->buffer);
}

static void use_gradients(struct planning *planning, uint32_t head)
{
    struct value_plan *const plan = planning->plan;
    const struct group *const group = &planning->groups[head];
    const uint32_t above = plan->values[group->output].gradient;
    const uint32_t added = time_inputs(plan, head);
    const uint32_t written = planning->uses[head].gradient_early ? time_forward(head) : added;
    value_plan_use(plan, above, time_parameters(plan, head));
    value_plan_use(plan, above, time_inputs(plan, head));
    for (uint32_t k = 0; k < group->input_count; k++) {
        const struct flow *const flow = &plan->flows[head][k];
        value_plan_use(plan, flow->buffer, written);
        if (flow->sum == BUFFER_NONE)
            continue;
        value_plan_use(plan, flow->buffer, added);
        value_plan_use(plan, flow->sum, added);
    }
}

static int plan_backward(struct planning *planning)
{
    int rc = 0;
    for (uint32_t i = planning->net->layer_count; i-- > 0 && rc == 0;) {
        if (!fusion_is_head(planning->plan->fusion, i))
            continue;
        for (uint32_t k = 0; k < planning->groups[i].input_count && rc == 0; k++)
            rc = open_flow(planning, i, k);
        if (rc == 0)
            use_gradients(planning, i);
    }
    return rc;
}

bool value_plan_needs_grad(const struct value_plan *plan, uint32_t head)
{
    return fusion_is_head(plan->fusion, head) && plan->values[plan->fusion->groups[head].output].has_gradient;
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

size_t lifetime_plan(struct lifetime *buffers, uint32_t count)
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

int value_plan_place(struct value_plan *plan)
{
    plan->bytes = lifetime_plan(plan->buffers, plan->buffer_count);
    return plan->bytes > 0 ? 0 : -ENOMEM;
}

/* ---- the whole ---- */

static int plan_all(struct planning *planning)
{
    const uint32_t layer_count = planning->net->layer_count;
    planning->held = calloc((size_t)layer_count + 1, sizeof(*planning->held));
    planning->is_shared = calloc((size_t)layer_count + 1, sizeof(*planning->is_shared));
    if (planning->held == NULL || planning->is_shared == NULL)
        return -ENOMEM;
    if (planning->plan->training)
        find_gradients(planning);
    find_fronts(planning);
    const int rc = plan_forward(planning);
    return rc == 0 && planning->plan->training ? plan_backward(planning) : rc;
}

static int alloc_plan(struct value_plan *plan, const size_t *bytes)
{
    const uint32_t layer_count = plan->fusion->net->layer_count;
    plan->values = calloc((size_t)layer_count + 1, sizeof(*plan->values));
    plan->flows = calloc(layer_count, sizeof(*plan->flows));
    if (plan->values == NULL || plan->flows == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v <= layer_count; v++)
        plan->values[v] =
            (struct value){ .bytes = bytes[v], .widest = v, .buffer = BUFFER_NONE, .gradient = BUFFER_NONE };
    for (uint32_t i = 0; i < layer_count; i++)
        for (uint32_t k = 0; k < GROUP_INPUTS_MAX; k++)
            plan->flows[i][k] = (struct flow){ .buffer = BUFFER_NONE, .sum = BUFFER_NONE };
    return 0;
}

int value_plan_open(struct value_plan *plan, const struct fusion *fusion, bool training, const size_t *bytes,
                    const struct value_use *uses)
{
    *plan = (struct value_plan){ .fusion = fusion, .training = training };
    struct planning planning = { .plan = plan, .net = fusion->net, .groups = fusion->groups, .uses = uses };
    int rc = alloc_plan(plan, bytes);
    if (rc == 0)
        rc = plan_all(&planning);
    free(planning.held);
    free(planning.is_shared);
    if (rc != 0)
        value_plan_close(plan);
    return rc;
}

void value_plan_close(struct value_plan *plan)
{
    free(plan->values);
    free(plan->flows);
    free(plan->buffers);
    *plan = (struct value_plan){ 0 };
}

static bool is_used_at(const struct value_plan *plan, size_t offset, uint32_t time)
{
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const struct lifetime *const life = &plan->buffers[b];
        if (life->first <= time && time <= life->last && offset >= life->offset && offset - life->offset < life->bytes)
            return true;
    }
    return false;
}

size_t value_plan_idle(const struct value_plan *plan, uint32_t time, size_t from, size_t *end_out)
{
    while (from < plan->bytes && is_used_at(plan, from, time))
        from += LIFETIME_ALIGN;
    size_t end = from;
    while (end < plan->bytes && !is_used_at(plan, end, time))
        end += LIFETIME_ALIGN;
    *end_out = end;
    return from;
}
