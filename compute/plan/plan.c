/* Making and running plans: the part that all backends share. Used from the tower's thread. */
#include "compute/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backend.h"
#include "stage/heartbeat.h"
#include "stage/log.h"

#define OPERATIONS_PER_MS 10000u       /* an assumed speed below that of any tower */
#define OPERATIONS_OF_VALUE 20u         /* assumed per value, for normalisation, pooling and similar layers */

static struct plan *plan_of(struct plan_base *base)
{
    return (struct plan *)base;
}

static const struct layer_ops *row_of(const struct plan_base *base, uint32_t head)
{
    return base->ops->layers[base->net->layers[head].kind];
}

/* ---- making ---- */

/* Is the value read or written by the layers of the plan? */
static bool is_in_range(const struct plan_base *base, uint32_t value)
{
    return value == 0 ? base->range.first == 0 : value > base->range.first && value <= base->range.end;
}

/* Find the bytes of all values. A plan has a few buffers of the size of each value; their sum must not overflow. */
static int find_bytes(struct plan_base *base, size_t *bytes)
{
    const size_t most = SIZE_MAX / 16 / (base->net->layer_count + 1);
    for (uint32_t v = 0; v <= base->net->layer_count; v++) {
        if (!is_in_range(base, v))
            continue;
        bytes[v] = base->ops->value_bytes(plan_of(base), v);
        if (bytes[v] == 0 || bytes[v] > most)
            return -EOVERFLOW;
    }
    return 0;
}

/* The value of the embedding, which is kept to the end of an evaluation; 0, the image: there is none. */
static uint32_t kept_value(const struct plan_base *base)
{
    const uint32_t layer = base->keeps_embedding && !base->training ? net_embedding_layer(base->net) : NET_INPUT;
    return layer != NET_INPUT ? plan_input(base, layer, 0) : 0;
}

/* No layer may overwrite the value. */
static void keep_value(const struct plan_base *base, uint32_t value, struct value_use *uses)
{
    for (uint32_t i = 0; i < base->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(&base->fusion, i) && k < plan_group(base, i)->input_count; k++)
            if (plan_input(base, i, k) == value)
                uses[i].in_place = false;
}

static int open_values(struct plan_base *base)
{
    const uint32_t layer_count = base->net->layer_count;
    size_t *const bytes = calloc((size_t)layer_count + 1, sizeof(*bytes));
    struct value_use *const uses = calloc(layer_count, sizeof(*uses));
    int rc = bytes != NULL && uses != NULL ? find_bytes(base, bytes) : -ENOMEM;
    for (uint32_t i = 0; i < layer_count && rc == 0; i++) {
        if (!fusion_is_head(&base->fusion, i))
            continue;
        uses[i] = row_of(base, i)->uses;
        if (row_of(base, i)->use != NULL)
            row_of(base, i)->use(plan_of(base), i, &uses[i]);
    }
    const uint32_t kept = rc == 0 ? kept_value(base) : 0;
    if (kept != 0)
        keep_value(base, kept, uses);
    if (rc == 0)
        rc = value_memory_open(&base->values, &base->fusion, base->training, bytes, uses);
    if (rc == 0 && kept != 0)
        value_memory_use(&base->values, base->values.values[kept].buffer, time_forward(layer_count - 1));
    free(bytes);
    free(uses);
    return rc;
}

/* The buffer of the answers of an evaluation. */
static int open_answers(struct plan_base *base)
{
    base->answers = BUFFER_NONE;
    if (base->training)
        return 0;
    const int rc = value_memory_buffer(&base->values, base->count * sizeof(struct answer), &base->answers);
    if (rc == 0)
        value_memory_use_always(&base->values, base->answers);
    return rc;
}

static int plan_one(struct plan_base *base, uint32_t head)
{
    const struct layer_ops *const row = row_of(base, head);
    if (row->state_bytes != 0) {
        base->states[head] = calloc(1, row->state_bytes);
        if (base->states[head] == NULL)
            return -ENOMEM;
    }
    return row->plan != NULL ? row->plan(plan_of(base), head) : 0;
}

static int plan_layers(struct plan_base *base)
{
    base->states = calloc(base->net->layer_count, sizeof(*base->states));
    int rc = base->states != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < base->net->layer_count && rc == 0; i++)
        if (fusion_is_head(&base->fusion, i))
            rc = plan_one(base, i);
    return rc;
}

/* Has the backend a row for every kind of layer of the net? -ENOTSUP (logged): it has none for a kind. */
static int check_rows(const struct plan_base *base)
{
    for (uint32_t i = base->range.first; i < base->range.end; i++)
        if (row_of(base, i) == NULL) {
            const struct layer *const layer = &base->net->layers[i];
            log_message(LOG_ERROR, "layer %s: this backend has no %s", layer->name, layer_word(layer));
            return -ENOTSUP;
        }
    return 0;
}

/* ---- the blocks of a backend's pool ---- */

size_t backend_pool_bytes(const struct backend_base *base)
{
    return base->block_count > 0 ? base->block_ends[base->block_count - 1] : 0;
}

void backend_base_release(struct backend_base *base)
{
    free(base->block_ends);
    base->block_ends = NULL;
    base->block_count = 0;
}

static int add_blocks(struct backend_base *base, uint32_t count)
{
    const size_t end = backend_pool_bytes(base);
    if (count <= base->block_count)
        return 0;
    size_t *const ends = realloc(base->block_ends, count * sizeof(*ends));
    if (ends == NULL)
        return -ENOMEM;
    for (uint32_t i = base->block_count; i < count; i++)
        ends[i] = end;
    base->block_ends = ends;
    base->block_count = count;
    return 0;
}

int plan_base_claim(const struct plan_base *plan)
{
    struct backend_base *const base = (struct backend_base *)plan->backend;
    const int rc = add_blocks(base, plan->block + 1);
    if (rc != 0)
        return rc;
    const size_t begin = plan->block > 0 ? base->block_ends[plan->block - 1] : 0;
    const size_t bytes = base->block_ends[plan->block] - begin;
    for (uint32_t i = plan->block; i < base->block_count && plan->values.bytes > bytes; i++)
        base->block_ends[i] += plan->values.bytes - bytes;
    return 0;
}

void plan_base_use(struct plan_base *base, const struct plan_spec *spec)
{
    base->count = spec->count;
    base->training = spec->training;
    base->range = spec->range.end > 0 ? spec->range : all_layers(base->net);
    base->block = spec->block;
}

int plan_base_open(struct plan_base *base)
{
    int rc = check_rows(base);
    if (rc == 0)
        rc = fusion_open(&base->fusion, base->net, base->range, base->ops->rules, base->ops->rule_count,
                         base->training);
    if (rc == 0)
        rc = open_values(base);
    if (rc == 0)
        rc = open_answers(base);
    if (rc == 0 && base->ops->begin != NULL)
        rc = base->ops->begin(plan_of(base));
    if (rc == 0)
        rc = plan_layers(base);
    return rc == 0 ? value_memory_place(&base->values) : rc;
}

void plan_base_close(struct plan_base *base)
{
    for (uint32_t i = 0; base->states != NULL && i < base->net->layer_count; i++) {
        if (base->states[i] != NULL && row_of(base, i)->release != NULL)
            row_of(base, i)->release(plan_of(base), i);
        free(base->states[i]);
    }
    free(base->states);
    base->states = NULL;
    value_memory_close(&base->values);
    fusion_close(&base->fusion);
}

void plan_use(struct plan *plan, uint32_t buffer, uint32_t head, enum pass first, enum pass last)
{
    struct value_memory *const values = &((struct plan_base *)plan)->values;
    const uint32_t times[] = {
        [PASS_FORWARD] = time_forward(head),
        [PASS_PARAMETERS] = time_parameters(values, head),
        [PASS_INPUTS] = time_inputs(values, head),
    };
    value_memory_use(values, buffer, times[first]);
    value_memory_use(values, buffer, times[last]);
}

int plan_scratch(struct plan *plan, uint32_t head, size_t bytes, enum pass first, enum pass last,
                 uint32_t *buffer_out)
{
    const int rc = value_memory_buffer(&((struct plan_base *)plan)->values, bytes, buffer_out);
    if (rc == 0)
        plan_use(plan, *buffer_out, head, first, last);
    return rc;
}

bool plan_has_inputs(const struct plan_base *base, uint32_t head)
{
    for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
        if (plan_flow(base, head, k)->buffer != BUFFER_NONE)
            return true;
    return false;
}

uint32_t plan_norm_before(const struct plan_base *base, uint32_t head)
{
    const struct value *const values = base->values.values;
    const uint32_t widest = values[plan_input(base, head, 0)].widest;
    for (uint32_t i = head; i-- > 0;)
        if (fusion_is_head(&base->fusion, i) && base->net->layers[i].kind == LAYER_BATCH_NORM &&
            values[plan_input(base, i, 0)].widest == widest)
            return i;
    return NET_INPUT;
}

/* ---- running ---- */

static int poison_range(struct plan_base *base, size_t offset, size_t bytes)
{
    if (base->ops->poison != NULL)
        return base->ops->poison(plan_of(base), offset, bytes);
    memset((char *)base->poisoned + offset, PLAN_POISON, bytes);
    return 0;
}

static int poison(struct plan_base *base, uint32_t time)
{
    if (base->poisoned == NULL)
        return 0;
    const struct value_memory *const values = &base->values;
    size_t end, at = value_memory_idle(values, time, 0, &end);
    int rc = 0;
    for (; at < values->bytes && rc == 0; at = value_memory_idle(values, time, end, &end))
        rc = poison_range(base, at, end - at);
    return rc;
}

/* Does the calling thread compute itself, instead of queueing work on a device? */
static bool is_watched(const struct plan_base *base)
{
    return ((const struct backend_base *)base->backend)->ops->host_memory;
}

/* For the watchdog. Until every layer has run once its time is unknown; it is then estimated for the slowest tower that
 * still makes progress. */
static void begin_layer(const struct plan_base *base, uint32_t head)
{
    const struct layer *const layer = &base->net->layers[head];
    const uint64_t operations = layer->macs + (uint64_t)OPERATIONS_OF_VALUE * shape_count(layer->out);
    if (is_watched(base))
        heartbeat_begin_work("computing a layer", layer->name,
                             base->has_run ? 0 : base->count * operations / OPERATIONS_PER_MS);
}

static int end_layer(const struct plan_base *base, int rc)
{
    if (is_watched(base))
        heartbeat_end();
    return rc;
}

int plan_base_forward(struct plan_base *base)
{
    int rc = 0;
    for (uint32_t i = 0; i < base->net->layer_count && rc == 0; i++) {
        if (!fusion_is_head(&base->fusion, i))
            continue;
        begin_layer(base, i);
        rc = end_layer(base, row_of(base, i)->forward(plan_of(base), i));
        if (rc == 0)
            rc = poison(base, time_forward(i));
    }
    base->has_run = base->has_run || !base->training;
    return rc;
}

/* Add the gradients that the group could not add itself. */
static int add_sums(struct plan_base *base, uint32_t head)
{
    int rc = 0;
    for (uint32_t k = 0; k < plan_group(base, head)->input_count && rc == 0; k++) {
        const struct flow *const flow = plan_flow(base, head, k);
        if (flow->sum != BUFFER_NONE)
            rc = base->ops->add(plan_of(base), plan_input(base, head, k), flow->buffer, flow->sum);
    }
    return rc;
}

int plan_base_backward_one(struct plan_base *base, uint32_t head, void (*layer_done)(void *arg, uint32_t layer),
                           void *arg)
{
    const struct layer_ops *const row = row_of(base, head);
    begin_layer(base, head);
    int rc = end_layer(base, row->backward_parameters != NULL ? row->backward_parameters(plan_of(base), head) : 0);
    if (rc == 0)
        rc = poison(base, time_parameters(&base->values, head));
    if (rc == 0 && layer_done != NULL && layer_is_trained(&base->net->layers[head]))
        layer_done(arg, head);
    begin_layer(base, head);
    if (rc == 0 && row->backward_inputs != NULL && plan_has_inputs(base, head))
        rc = row->backward_inputs(plan_of(base), head);
    rc = end_layer(base, rc == 0 ? add_sums(base, head) : rc);
    return rc == 0 ? poison(base, time_inputs(&base->values, head)) : rc;
}

int plan_base_backward(struct plan_base *base, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    int rc = 0;
    for (uint32_t i = base->net->layer_count; i-- > 0 && rc == 0;)
        if (value_memory_needs_grad(&base->values, i))
            rc = plan_base_backward_one(base, i, layer_done, arg);
    base->has_run = true;
    return rc;
}
