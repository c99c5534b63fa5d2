/* Planning values forward, gradients backward. Called when a backend makes a plan. */
#include "compute/plan/values.h"

#include <errno.h>
#include <stdlib.h>

/* What keeps a buffer's contents from being overwritten. */
enum held { HELD_NOT,
            HELD_SIGN,
            HELD_VALUES };

/* While a plan is made. */
struct work {
    struct value_plan *plan;
    const struct net *net;
    const struct group *groups;
    const struct value_use *uses;
    enum held *held; /* by value */
    bool *is_lent;   /* by value: its buffer has further readers under another number */
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

int value_plan_place(struct value_plan *plan)
{
    plan->bytes = lifetime_plan(plan->buffers, plan->buffer_count);
    return plan->bytes > 0 ? 0 : -ENOMEM;
}

static uint32_t time_of(const struct value_plan *plan, uint32_t head, enum value_phase phase)
{
    return phase == PHASE_FORWARD      ? time_forward(head)
           : phase == PHASE_PARAMETERS ? time_parameters(plan, head)
                                       : time_inputs(plan, head);
}

/* ---- values that grow ---- */

static bool takes_fronts(const struct work *work, uint32_t head)
{
    return work->uses[head].reads_fronts && (work->uses[head].adds || !work->plan->training);
}

/* The value has grown itself or is where growing begins, and `head`, the last to read it, and once, can go on; all
 * who read it take a front. */
static bool may_grow(const struct work *work, uint32_t head, uint32_t value)
{
    const uint32_t maker = value != 0 ? work->groups[value - 1].head : FUSION_LEFT_OUT;
    if (!work->uses[head].grows || maker == FUSION_LEFT_OUT || !work->uses[maker].grows)
        return false;
    for (uint32_t i = maker + 1; i < work->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(work->plan->fusion, i) && k < work->groups[i].input_count; k++)
            if (work->groups[i].inputs[k] == value && (!takes_fronts(work, i) || i > head || (i == head && k > 0)))
                return false;
    return true;
}

/* From the last: what a result is the front of is known before its input's. */
static void find_fronts(struct work *work)
{
    struct value *const values = work->plan->values;
    for (uint32_t i = work->net->layer_count; i-- > 0;) {
        if (!fusion_is_head(work->plan->fusion, i))
            continue;
        const uint32_t from = work->groups[i].inputs[0], to = work->groups[i].output;
        if (!may_grow(work, i, from))
            continue;
        values[from].widest = values[to].widest;
        values[from].bytes = values[to].bytes;
    }
}

/* ---- forward ---- */

static enum held held_by(const struct work *work, uint32_t head)
{
    const struct value_use *const use = &work->uses[head];
    if (!value_plan_needs_grad(work->plan, head) || use->out_until == PHASE_FORWARD)
        return HELD_NOT;
    return use->out_sign ? HELD_SIGN : HELD_VALUES;
}

/* Does the head alone read the value, or, in evaluation, is it the last that does, and reads it once? */
static bool is_last_reader(const struct work *work, uint32_t head, uint32_t value)
{
    uint32_t reads = 0;
    if (work->plan->training)
        return work->plan->fusion->readers[value] == 1;
    for (uint32_t i = head; i < work->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(work->plan->fusion, i) && k < work->groups[i].input_count; k++)
            reads += work->groups[i].inputs[k] == value;
    return reads == 1;
}

static bool may_overwrite(const struct work *work, uint32_t head, uint32_t value)
{
    const struct value_use *const use = &work->uses[head];
    const struct value *const values = work->plan->values;
    const enum held held = work->held[value];
    return use->in_place && is_last_reader(work, head, value) && !work->is_lent[value] &&
           values[value].bytes == values[work->groups[head].output].bytes &&
           (held == HELD_NOT || (held == HELD_SIGN && use->keeps_sign));
}

/* An input's buffer goes on as the result's. */
static void pass_on(struct work *work, uint32_t head, uint32_t from)
{
    const struct group *const group = &work->groups[head];
    const uint32_t to = group->output;
    const bool has_others = work->is_lent[from] || work->plan->fusion->readers[from] > 1;
    const bool stays = work->uses[head].is_identity || value_plan_grows(work->plan, head);
    work->plan->values[to].buffer = work->plan->values[from].buffer;
    work->is_lent[to] = stays && has_others;
    work->is_lent[from] = work->is_lent[from] || stays;
    const enum held own = held_by(work, head);
    work->held[to] = own > work->held[from] ? own : work->held[from];
}

static int open_result(struct work *work, uint32_t head)
{
    const struct group *const group = &work->groups[head];
    struct value *const value = &work->plan->values[group->output];
    if (work->plan->fusion->readers[group->output] == 0)
        return 0;
    const struct value_use *const use = &work->uses[head];
    const bool stays = use->is_identity || value_plan_grows(work->plan, head);
    const uint32_t from = group->inputs[stays ? 0 : use->in_place_input];
    if (stays || may_overwrite(work, head, from)) {
        pass_on(work, head, from);
        return 0;
    }
    work->held[group->output] = held_by(work, head);
    return value_plan_buffer(work->plan, value->bytes, &value->buffer);
}

static void use_values(struct work *work, uint32_t head)
{
    struct value_plan *const plan = work->plan;
    const struct group *const group = &work->groups[head];
    const struct value_use *const use = &work->uses[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        value_plan_use(plan, plan->values[group->inputs[k]].buffer, time_forward(head));
    value_plan_use(plan, plan->values[group->output].buffer, time_forward(head));
    if (!value_plan_needs_grad(plan, head))
        return;
    value_plan_use(plan, plan->values[group->inputs[0]].buffer, time_of(plan, head, use->in_until));
    value_plan_use(plan, plan->values[group->output].buffer, time_of(plan, head, use->out_until));
}

static int plan_forward(struct work *work)
{
    struct value_plan *const plan = work->plan;
    int rc = value_plan_buffer(plan, plan->values[0].bytes, &plan->values[0].buffer);
    if (rc == 0)
        value_plan_use(plan, plan->values[0].buffer, time_forward(0));
    for (uint32_t i = 0; i < work->net->layer_count && rc == 0; i++) {
        if (!fusion_is_head(plan->fusion, i))
            continue;
        rc = open_result(work, i);
        if (rc == 0)
            use_values(work, i);
    }
    return rc;
}

/* ---- backward ---- */

/* A value has a gradient when what makes it is trained or reads something that has one. */
static void find_gradients(struct work *work)
{
    struct value *const values = work->plan->values;
    for (uint32_t i = 0; i < work->net->layer_count; i++) {
        const struct group *const group = &work->groups[i];
        if (group->head != i)
            continue;
        bool has_gradient = layer_is_trained(&work->net->layers[i]);
        for (uint32_t k = 0; k < group->input_count; k++)
            has_gradient = has_gradient || values[group->inputs[k]].has_gradient;
        values[group->output].has_gradient = has_gradient;
    }
}

/* The first group that gives a gradient to the value writes it; the others add. */
static int open_flow(struct work *work, uint32_t head, uint32_t k)
{
    struct value_plan *const plan = work->plan;
    const struct group *const group = &work->groups[head];
    const struct value_use *const use = &work->uses[head];
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

static void use_gradients(struct work *work, uint32_t head)
{
    struct value_plan *const plan = work->plan;
    const struct group *const group = &work->groups[head];
    const uint32_t above = plan->values[group->output].gradient;
    const uint32_t added = time_inputs(plan, head);
    const uint32_t written = work->uses[head].gradient_early ? time_forward(head) : added;
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

static int plan_backward(struct work *work)
{
    int rc = 0;
    for (uint32_t i = work->net->layer_count; i-- > 0 && rc == 0;) {
        if (!fusion_is_head(work->plan->fusion, i))
            continue;
        for (uint32_t k = 0; k < work->groups[i].input_count && rc == 0; k++)
            rc = open_flow(work, i, k);
        if (rc == 0)
            use_gradients(work, i);
    }
    return rc;
}

bool value_plan_needs_grad(const struct value_plan *plan, uint32_t head)
{
    return fusion_is_head(plan->fusion, head) && plan->values[plan->fusion->groups[head].output].has_gradient;
}

/* ---- the whole ---- */

static int plan_all(struct work *work)
{
    const uint32_t layer_count = work->net->layer_count;
    work->held = calloc((size_t)layer_count + 1, sizeof(*work->held));
    work->is_lent = calloc((size_t)layer_count + 1, sizeof(*work->is_lent));
    if (work->held == NULL || work->is_lent == NULL)
        return -ENOMEM;
    if (work->plan->training)
        find_gradients(work);
    find_fronts(work);
    const int rc = plan_forward(work);
    return rc == 0 && work->plan->training ? plan_backward(work) : rc;
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
    struct work work = { .plan = plan, .net = fusion->net, .groups = fusion->groups, .uses = uses };
    int rc = alloc_plan(plan, bytes);
    if (rc == 0)
        rc = plan_all(&work);
    free(work.held);
    free(work.is_lent);
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

static bool is_held_at(const struct value_plan *plan, size_t offset, uint32_t time)
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
    while (from < plan->bytes && is_held_at(plan, from, time))
        from += LIFETIME_ALIGN;
    size_t end = from;
    while (end < plan->bytes && !is_held_at(plan, end, time))
        end += LIFETIME_ALIGN;
    *end_out = end;
    return from;
}
