/* A tower: arenas, backend and plans of one replica, used by its trainer's thread. */
#include "compute/tower.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/update/average.h"
#include "compute/update/halves.h"
#include "compute/update/piece_sums.h"
#include "compute/update/skip.h"
#include "compute/update/tower_start.h"
#include "compute/update/update_cut.h"
#include "compute/update/zeros.h"

#define PLANS_MAX (2 * TOWER_COUNTS)    /* training and evaluation */

struct tower {
    struct tower_spec spec;
    struct backend *backend;
    struct arenas arenas;
    float *weights, *gradients, *statistics, *states[TOWER_STATES_MAX];
    float *zeros;               /* ZERO_FLOATS: what the gradients of no samples are copied from */
    uint16_t *halves;           /* gradients as bf16, NULL: not wanted */
    struct piece_sums sums;
    struct average average;
    struct param_groups cut;
    struct skip skip;
    void *squares;              /* their sums, NULL where updates need none */
    struct plan *plans[PLANS_MAX];
    uint32_t plan_count;
    struct plan *last;          /* of the last forward, NULL when its slice was empty */
    void (*ready)(void *arg, size_t floats);    /* during tower_backward */
    void *ready_arg;
};

static int alloc_floats(struct tower *tower, size_t count, float **floats_out)
{
    void *memory;
    struct device *const device = tower->spec.device;
    const int rc = device->ops->alloc(device, count * sizeof(float), &memory);
    if (rc == 0)
        *floats_out = memory;
    return rc;
}

static int alloc_sums(struct tower *tower)
{
    struct device *const device = tower->spec.device;
    const size_t bytes = param_groups_bytes(&tower->cut);
    if (bytes == 0)
        return 0;
    const int rc = device->ops->alloc(device, bytes, &tower->squares);
    if (rc == 0)
        param_groups_bind(&tower->cut, tower->squares);
    return rc;
}

/* What only training writes. */
static int alloc_gradients(struct tower *tower)
{
    const struct arena *const arena = &tower->arenas.trained;
    int rc = alloc_floats(tower, arena->count, &tower->gradients);
    if (rc == 0)
        rc = alloc_floats(tower, ZERO_FLOATS, &tower->zeros);
    if (rc == 0 && tower->spec.piece_max > 0)
        rc = alloc_floats(tower, arena->updated, &tower->sums.floats);
    for (uint32_t i = 0; i < tower_state_count(&tower->spec) && rc == 0; i++)
        rc = alloc_floats(tower, arena->updated, &tower->states[i]);
    if (rc == 0 && tower->skip.is_on && tower->skip.count > 0)
        rc = alloc_floats(tower, tower->skip.count, &tower->skip.kept);
    if (rc == 0)
        rc = halves_open(&tower->halves, tower);
    if (rc == 0)
        rc = average_open(&tower->average, tower);
    return rc == 0 ? alloc_sums(tower) : rc;
}

static int alloc_arenas(struct tower *tower)
{
    int rc = alloc_floats(tower, tower->arenas.trained.count, &tower->weights);
    if (rc == 0 && tower->arenas.statistics.count > 0)
        rc = alloc_floats(tower, tower->arenas.statistics.count, &tower->statistics);
    return rc == 0 && !tower->spec.evaluates_only ? alloc_gradients(tower) : rc;
}

static int lay_out(struct tower *tower)
{
    size_t *const counts = calloc(tower->spec.net->parameter_count + 1, sizeof(*counts));
    if (counts == NULL)
        return -ENOMEM;
    int rc = tower->spec.backend->stored_sizes(tower->backend, counts);
    if (rc == 0)
        rc = arenas_init(&tower->arenas, tower->spec.net, counts);
    if (rc == 0)
        tower->spec.backend->lay_out(tower->backend, &tower->arenas);
    free(counts);
    return rc;
}

static struct plan *find_plan(const struct tower *tower, uint32_t count, bool training)
{
    for (uint32_t i = 0; i < tower->plan_count; i++) {
        const struct plan_base *const base = (const struct plan_base *)tower->plans[i];
        if (base->count == count && base->training == training)
            return tower->plans[i];
    }
    return NULL;
}

static int open_plans(struct tower *tower, const uint32_t counts[TOWER_COUNTS], bool training)
{
    int rc = 0;
    for (uint32_t i = 0; i < TOWER_COUNTS && rc == 0; i++) {
        if (counts[i] == 0 || find_plan(tower, counts[i], training) != NULL)
            continue;
        rc = tower->spec.backend->plan(tower->backend, counts[i], training, &tower->plans[tower->plan_count]);
        if (rc == 0)
            tower->plan_count++;
    }
    return rc;
}

static int open_all(struct tower *tower)
{
    const struct tower_spec *const spec = &tower->spec;
    int rc = spec->backend->open(&tower->backend, &spec->backend_spec);
    if (rc == 0)
        rc = lay_out(tower);
    tower->skip = (struct skip){ .is_on = spec->backend_spec.skips_nonfinite, .spec = &spec->backend_spec,
                                 .ops = spec->backend, .backend = tower->backend,
                                 .statistics = &tower->statistics, .count = tower->arenas.statistics.count };
    if (rc == 0)
        rc = param_groups_init(&tower->cut, spec->net, &tower->arenas.trained, &spec->optimizer);
    if (rc == 0)
        rc = open_plans(tower, spec->train_counts, true);
    if (rc == 0)
        rc = open_plans(tower, spec->evaluate_counts, false);
    return rc;
}

int tower_open(struct tower **tower_out, const struct tower_spec *spec)
{
    struct tower *const tower = calloc(1, sizeof(*tower));
    if (tower == NULL)
        return -ENOMEM;
    tower->spec = *spec;
    tower->spec.backend_spec.net = spec->net;
    tower->spec.backend_spec.device = spec->device;
    tower->spec.backend_spec.compute = spec->compute;
    const int rc = open_all(tower);
    if (rc != 0) {
        tower_close(tower);
        return rc;
    }
    *tower_out = tower;
    return 0;
}

struct tower_needs tower_needs(const struct tower *tower)
{
    const size_t trained = tower->arenas.trained.count, updated = tower->arenas.trained.updated;
    const size_t states = tower_state_count(&tower->spec) * updated;
    const size_t sums = tower->spec.piece_max > 0 ? updated : 0;
    const size_t more = (trained + sums + states + ZERO_FLOATS) * sizeof(float) + param_groups_bytes(&tower->cut) +
                        halves_bytes(tower) + average_bytes(tower);
    const uint32_t copies = tower->spec.backend_spec.skips_nonfinite ? 2 : 1;
    const size_t always = (trained + copies * tower->arenas.statistics.count) * sizeof(float);
    struct tower_needs needs = { .arenas = always + (tower->spec.evaluates_only ? 0 : more),
                                 .initial = tower_start_bytes(tower) };
    tower->spec.backend->needs(tower->backend, &needs.backend);
    return needs;
}

int tower_allocate(struct tower *tower)
{
    int rc = alloc_arenas(tower);
    const struct backend_memory memory = { tower->weights, tower->gradients, tower->statistics };
    if (rc == 0)
        rc = tower->spec.backend->bind(tower->backend, &memory);
    if (rc == 0 && !tower->spec.evaluates_only)
        rc = tower_start(tower);
    return rc == 0 ? tower->spec.backend->allocate(tower->backend) : rc;
}

void tower_close(struct tower *tower)
{
    if (tower == NULL)
        return;
    struct device *const device = tower->spec.device;
    /* A tower that was cancelled while it opened may have copies under way. */
    device->ops->stream_drain(tower->spec.compute);
    for (uint32_t i = 0; i < tower->plan_count; i++)
        tower->spec.backend->plan_close(tower->plans[i]);
    if (tower->backend != NULL)
        tower->spec.backend->close(tower->backend);
    void *const memory[] = { tower->weights, tower->gradients, tower->halves, tower->zeros, tower->sums.floats,
                             tower->statistics, tower->states[0], tower->states[1], tower->states[2], tower->skip.kept,
                             tower->average.weights, tower->average.statistics, tower->squares };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i] != NULL)
            device->ops->free(device, memory[i]);
    arenas_release(&tower->arenas);
    param_groups_release(&tower->cut);
    free(tower);
}

uint32_t tower_pieces(const struct tower *tower, uint32_t count)
{
    const uint32_t most = tower->spec.piece_max;
    return most == 0 || count == 0 ? 1 : count / most + (count % most != 0);
}

int tower_forward(struct tower *tower, struct slot *slot, uint32_t piece, bool training)
{
    struct stream *const compute = tower->spec.compute;
    const uint32_t first = piece * tower->spec.piece_max, left = slot->span.count - first;
    const bool is_last = piece + 1 == tower_pieces(tower, slot->span.count);
    tower->last = NULL;
    const int kept = training && piece == 0 ? skip_begin(&tower->skip) : 0;
    if (kept != 0 || slot->span.count == 0)
        return kept != 0 ? kept : stream_record(compute, slot->free);
    struct plan *const plan = find_plan(tower, is_last ? left : tower->spec.piece_max, training);
    if (plan == NULL)
        return -EINVAL;
    const struct backend_input input = {
        .pixels = slot->pixels + first * shape_count(tower->spec.net->input),
        .labels = slot->labels + first,
        .mixes = training && slot->mixes != NULL ? slot->mixes + first : NULL,
        .first_position = slot->span.first_position + first, .epoch = slot->span.epoch,
    };
    int rc = tower->spec.backend->input(plan, &input);
    if (rc == 0 && is_last)
        rc = stream_record(compute, slot->free);
    if (rc == 0)
        rc = tower->spec.backend->forward(plan);
    tower->last = rc == 0 ? plan : NULL;
    return rc;
}

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg, (void)layer;
}

int tower_accumulate(struct tower *tower)
{
    const int rc = tower->spec.backend->backward(tower->last, ignore_layer, NULL);
    return rc == 0 ? piece_sums_take(&tower->sums, tower) : rc;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct tower *const tower = arg;
    const size_t floats = arena_ready(&tower->arenas.trained, tower->spec.net, layer);
    piece_sums_add(&tower->sums, tower, floats);
    tower->ready(tower->ready_arg, floats);
}

int tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg)
{
    tower->ready = ready;
    tower->ready_arg = arg;
    tower->average.is_left_out = false;
    if (tower->last != NULL) {
        const int rc = tower->spec.backend->backward(tower->last, layer_done, tower);
        const int added = piece_sums_end(&tower->sums);
        return rc != 0 ? rc : added;
    }
    const int rc = zeros_spread(tower->spec.compute, tower->zeros, tower->gradients, tower->arenas.trained.updated);
    if (rc == 0)
        ready(arg, tower->arenas.trained.updated);
    return rc;
}

/* The limit is one of means, the gradients are sums. */
static int limit_gradients(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    const double limit = tower->spec.optimizer.clip_value / (double)step->gradient_scale;
    if (limit == 0)
        return 0;
    return tower->spec.backend->clip_value(tower->backend, tower_applied(tower) + offset, count, (float)limit);
}

int tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    const struct backend_ops *const backend = tower->spec.backend;
    struct param_groups *const cut = &tower->cut;
    const struct optimizer_range whole = { .weights = tower->weights, .gradients = tower_applied(tower),
                                           .states = { tower->states[0], tower->states[1] } };
    const int ended = skip_end(&tower->skip, &tower->average.is_left_out);
    if (ended != 0 || tower->average.is_left_out)
        return ended;
    cut->scale = step->gradient_scale;
    param_groups_select(cut, &whole, offset, offset + count);
    int rc = limit_gradients(tower, offset, count, step);
    if (rc == 0 && cut->squares_count > 0)
        rc = backend->squares(tower->backend, cut->squares, cut->squares_count);
    return rc != 0 ? rc : backend->update(tower->backend, &tower->spec.optimizer, step, cut->ranges, cut->range_count);
}

bool tower_updates_at_once(const struct tower *tower)
{
    return tower->cut.clips || tower->skip.is_on ||
           (tower->spec.backend->check != NULL && tower->spec.backend_spec.precision == PRECISION_FP16);
}

int tower_check(struct tower *tower, size_t offset, size_t count)
{
    return skip_check(&tower->skip, tower_applied(tower) + offset, count);
}

int tower_defer(struct tower *tower)
{
    return tower->spec.device->ops->copy(tower->spec.compute, tower_applied(tower), tower->gradients,
                                         tower->arenas.trained.updated * sizeof(float), COPY_ON_DEVICE);
}

int tower_scale(struct tower *tower, float *floats, size_t count, float factor)
{
    return tower->spec.backend->scale(tower->backend, floats, count, factor);
}

int tower_weights_changed(struct tower *tower, size_t offset, size_t count)
{
    const struct backend_ops *const backend = tower->spec.backend;
    return backend->weights_changed != NULL ? backend->weights_changed(tower->backend, offset, count) : 0;
}

int tower_set_segments(struct tower *tower, const size_t *ends, uint32_t count)
{
    const struct backend_ops *const backend = tower->spec.backend;
    if (backend->segment == NULL)
        return 0;
    bool *const is_end = calloc(tower->spec.net->layer_count, sizeof(*is_end));
    if (is_end == NULL)
        return -ENOMEM;
    arena_segment_ends(&tower->arenas.trained, tower->spec.net, ends, count, is_end);
    const int rc = backend->segment(tower->backend, is_end);
    free(is_end);
    return rc;
}

int tower_result(struct tower *tower, struct backend_result *result_out)
{
    *result_out = (struct backend_result){ .loss_scale = 1 };
    const int rc = tower->last != NULL ? tower->spec.backend->result(tower->last, result_out) : 0;
    result_out->is_skipped |= skip_was_broken(&tower->skip);
    return rc;
}

int tower_logits(struct tower *tower, float *logits_out)
{
    return tower->last != NULL ? tower->spec.backend->logits(tower->last, logits_out) : 0;
}

const struct arena *tower_arena(const struct tower *tower)
{
    return &tower->arenas.trained;
}

const struct arena *tower_arena_of(const struct tower *tower, uint32_t parameter)
{
    return arenas_of(&tower->arenas, tower->spec.net, parameter);
}

float *tower_gradients(struct tower *tower)
{
    return tower->gradients;
}

float *tower_applied(struct tower *tower)
{
    return tower->spec.defers ? tower->states[tower_state_count(&tower->spec) - 1] : tower->gradients;
}

uint16_t *tower_bf16_grads(struct tower *tower)
{
    return tower->halves;
}

uint32_t tower_state_count(const struct tower_spec *spec)
{
    return optimizer_state_count(spec->optimizer.kind) + (spec->defers ? 1 : 0);
}

float *tower_weights(struct tower *tower)
{
    return tower->weights;
}

float *tower_state(struct tower *tower, uint32_t state)
{
    return tower->states[state];
}

struct average *tower_average(struct tower *tower)
{
    return &tower->average;
}

const struct param_groups *tower_param_groups(const struct tower *tower)
{
    return &tower->cut;
}

const struct tower_spec *tower_spec(const struct tower *tower)
{
    return &tower->spec;
}

struct backend *tower_backend(struct tower *tower)
{
    return tower->backend;
}

float *tower_statistics(struct tower *tower)
{
    return tower->statistics;
}

size_t tower_statistics_count(const struct tower *tower)
{
    return tower->arenas.statistics.count;
}

static float *stored_at(const struct tower *tower, uint32_t parameter)
{
    const struct net *const net = tower->spec.net;
    const size_t offset = tower_arena_of(tower, parameter)->ranges[parameter].offset;
    return (net->parameters[parameter].is_trained ? tower->weights : tower->statistics) + offset;
}

int tower_read(struct tower *tower, uint32_t parameter, float *plain_out)
{
    return tower->spec.backend->unpack(tower->backend, parameter, stored_at(tower, parameter), plain_out);
}

int tower_write(struct tower *tower, uint32_t parameter, const float *plain)
{
    return tower->spec.backend->pack(tower->backend, parameter, plain, stored_at(tower, parameter));
}

void tower_describe(const struct tower *tower, void (*write)(void *arg, const char *line), void *arg)
{
    if (tower->plan_count > 0)
        tower->spec.backend->plan_describe(tower->plans[0], write, arg);
}
