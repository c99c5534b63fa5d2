/* A tower: arenas, backend and plans of one replica. Used from the thread of its trainer. */
#include "compute/tower.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/init.h"
#include "stage/heartbeat.h"
#include "stage/log.h"

#define ZERO_FLOATS 16384u
#define ROUND_FLOATS 1048576u   /* rounded at once */
#define SUMS_MAX 8u             /* levels of a tree of TOWER_SLICES_MAX microbatches */

struct tower {
    struct tower_spec spec;
    struct backend *backend;
    struct arenas arenas;
    float *weights, *gradients, *statistics, *states[TOWER_STATES_MAX];
    float *zeros;               /* ZERO_FLOATS zeros, which are copied to the gradients of an empty local batch */
    uint16_t *bf16_grads;       /* NULL: gradients are not reduced as bf16 */
    uint16_t *rounded;          /* memory in which sums of slices are rounded to bf16; NULL: they are not */
    float *average_weights, *average_statistics;        /* NULL: none is kept */
    bool shows_average;         /* the average is swapped with the trained weights and statistics */

    /* The gradients of all microbatches of a batch but the last are summed in arenas of their own. The sums are added
     * to the gradients of the last one as these become ready, so that they are reduced while its backward continues.
     * With slices, sums[n] holds the sum of 2^n microbatches if bit n of `summed` is set; without slices, sums[0] holds
     * the sum of all. */
    float *gradient_sums[SUMS_MAX];
    float *statistics_sums[SUMS_MAX];   /* sums of the statistics, in the same way */
    uint32_t summed;            /* microbatches of this batch whose gradients are in gradient_sums */
    size_t sums_added;          /* the number of gradients at the start of the arena to which the sums have been
                                 * added */
    int sums_rc;                /* error of the first addition that failed */

    /* Steps whose reduced gradients are not finite are skipped (spec.backend_spec.skips_nonfinite): nothing is updated,
     * and the running statistics, which forward has moved, are restored. Backends on devices decide that on the device
     * (backend.h: check, restore_if_nonfinite, update); for backends on host memory it is decided here. */
    float *kept_statistics;     /* the statistics before the step; every slice starts from them */
    bool is_nonfinite;          /* on the host: a gradient of this step is not finite */
    bool was_skipped;           /* on the host: the step whose result is requested next was skipped */
    bool skips_update;          /* on the host: the update of this step was skipped */

    struct param_groups groups;
    void *squares;              /* memory of their sums, NULL where updates need none */
    struct plan **plans;
    uint32_t plan_count;
    struct plan *last;          /* plan of the last forward, NULL when its local batch was empty */
    struct plan *ran;           /* plan of the last microbatch of this batch that was not empty */

    /* With parts. All microbatches are forwarded before backward of the first, each with a plan and memory of its
     * own. */
    struct net *share, *train_share;    /* NULL: the tower computes the whole net; train_share: of spec.train_net */
    struct head head;
    struct head_run *head_run;
    struct plan *forwarded[TOWER_SLICES_MAX];   /* by microbatch: the plan of its forward, NULL if it was empty */
    struct local_batch local;           /* of that forward */
    void (*ready)(void *arg, size_t floats);    /* during tower_backward */
    void *ready_arg;
    bool is_ready;              /* ready was called for all gradients that it covers */
};

static size_t updated_count(const struct tower *tower)
{
    return tower->arenas.trained.updated;
}

/* The number of gradients that are summed over microbatches and towers. */
static size_t shared_count(const struct tower *tower)
{
    return tower->arenas.trained.shared;
}

bool tower_has_parts(const struct tower *tower)
{
    return tower->share != NULL;
}

const struct net *tower_net(const struct tower *tower)
{
    return tower->share != NULL ? tower->share : tower->spec.net;
}

/* For the watchdog: with host memory this thread computes by itself. */
static void begin_work(const struct tower *tower, const char *what)
{
    if (tower->spec.backend->host_memory)
        heartbeat_begin_work(what, NULL, 0);
}

static int end_work(const struct tower *tower, int rc)
{
    if (tower->spec.backend->host_memory)
        heartbeat_end();
    return rc;
}

static bool keeps_average(const struct tower *tower)
{
    return tower->spec.average_decay > 0;
}

static bool skips_nonfinite(const struct tower *tower)
{
    return tower->spec.backend_spec.skips_nonfinite;
}

/* Do updates need norms over the parts of all towers? */
static bool has_part_norms(const struct tower *tower)
{
    return tower->groups.norms.parts > 0;
}

static bool has_class_weights(const struct tower *tower)
{
    return tower->spec.backend_spec.class_weights != NULL;
}

bool tower_has_slices(const struct tower *tower)
{
    return tower->spec.slices.all > 0;
}

/* Are the statistics before the step kept until its end? */
static bool keeps_statistics(const struct tower *tower)
{
    return skips_nonfinite(tower) || tower_has_slices(tower);
}

/* The number of arenas for sums of microbatches. */
static uint32_t sum_levels(const struct tower *tower)
{
    uint32_t levels = 0;
    if (!tower_has_slices(tower))
        return tower->spec.microbatch_max > 0 ? 1 : 0;
    while ((tower->spec.slices.count - 1) >> levels > 0)
        levels++;
    return levels;
}

/* The number of gradients that are rounded to bf16 at once; 0: sums in this tower are not rounded. */
static size_t rounded_count(const struct tower *tower)
{
    const size_t shared = shared_count(tower);
    if (!tower->spec.has_bf16_grads || !tower_has_slices(tower))
        return 0;
    return shared < ROUND_FLOATS ? shared : ROUND_FLOATS;
}

static int copy_on_device(struct tower *tower, float *to, const float *from, size_t count)
{
    return tower->spec.device->ops->copy(tower->spec.compute, to, from, count * sizeof(float), COPY_ON_DEVICE);
}

/* ---- opening ---- */

static int open_share(struct tower *tower, const struct net *whole, struct net **share_out)
{
    const struct part_range own = { tower->spec.parts.first, tower->spec.parts.count };
    return whole != NULL ? share_open(share_out, whole, &tower->head, own) : 0;
}

/* With parts, and a backend that computes them: open the shares of the nets. */
static int open_shares(struct tower *tower)
{
    const struct tower_spec *const spec = &tower->spec;
    struct unsupported_reason reason;
    if (spec->parts.all == 0 || spec->backend->part_result == NULL)
        return 0;
    int rc = head_find(&tower->head, spec->net, spec->parts.all, &reason);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: %s", reason.what, reason.why);
    if (rc == 0)
        rc = open_share(tower, spec->net, &tower->share);
    return rc == 0 ? open_share(tower, spec->train_net, &tower->train_share) : rc;
}

static int lay_out(struct tower *tower)
{
    const struct net *const net = tower_net(tower);
    size_t *const counts = calloc(net->parameter_count + 1, sizeof(*counts));
    if (counts == NULL)
        return -ENOMEM;
    int rc = tower->spec.backend->stored_sizes(tower->backend, counts);
    if (rc == 0)
        rc = arenas_init(&tower->arenas, net, counts, has_class_weights(tower) ? ARENA_LEAD : 0);
    if (rc == 0)
        tower->spec.backend->lay_out(tower->backend, &tower->arenas);
    free(counts);
    return rc;
}

/* Microbatches that have plans of their own; the others of a batch share one. */
static uint32_t blocks(const struct tower *tower)
{
    return tower_has_parts(tower) ? tower->spec.slices.count : 1;
}

static struct plan *find_plan(const struct tower *tower, uint32_t count, bool training, uint32_t microbatch)
{
    const uint32_t block = tower_has_parts(tower) ? microbatch : 0;
    for (uint32_t i = 0; i < tower->plan_count; i++) {
        const struct plan_base *const base = (const struct plan_base *)tower->plans[i];
        if (base->count == count && base->training == training && base->block == block)
            return tower->plans[i];
    }
    return NULL;
}

static int open_plan(struct tower *tower, uint32_t count, bool training, uint32_t block)
{
    const struct plan_spec plan = {
        .count = count, .training = training, .block = block,
        .range = tower_has_parts(tower) ? share_trunk(&tower->head) : (struct layer_range){ 0, 0 },
    };
    if (count == 0 || find_plan(tower, count, training, block) != NULL)
        return 0;
    const int rc = tower->spec.backend->plan(tower->backend, &plan, &tower->plans[tower->plan_count]);
    if (rc == 0)
        tower->plan_count++;
    return rc;
}

static int open_plans(struct tower *tower, const uint32_t counts[TOWER_COUNTS], bool training)
{
    int rc = 0;
    for (uint32_t i = 0; i < TOWER_COUNTS; i++)
        for (uint32_t block = 0; block < blocks(tower) && rc == 0; block++)
            rc = open_plan(tower, counts[i], training, block);
    return rc;
}

static bool has_counts(const uint32_t counts[TOWER_COUNTS])
{
    bool has = false;
    for (uint32_t i = 0; i < TOWER_COUNTS; i++)
        has = has || counts[i] > 0;
    return has;
}

static int open_head(struct tower *tower)
{
    const struct tower_spec *const spec = &tower->spec;
    if (!tower_has_parts(tower))
        return 0;
    const struct head_spec head = {
        .head = &tower->head,
        .own = { spec->parts.first, spec->parts.count },
        .slices = spec->slices.all,
        .slice_max = batch_part_find(spec->parts.batch, spec->slices.pairs, spec->slices.all, 0).count,
        .first_block = blocks(tower),
        .norm_floats = param_groups_part_floats(&tower->groups),
        .trains = !spec->evaluates_only,
        .evaluates = spec->parts.evaluates || has_counts(spec->evaluate_counts),
        .device = spec->device,
        .compute = spec->compute,
        .ops = spec->backend,
        .backend = tower->backend,
    };
    return head_open(&tower->head_run, &head);
}

static int open_all(struct tower *tower)
{
    const struct tower_spec *const spec = &tower->spec;
    int rc = open_shares(tower);
    tower->spec.backend_spec.net = tower_net(tower);
    tower->spec.backend_spec.train_net = tower->train_share != NULL ? tower->train_share : spec->train_net;
    if (rc == 0)
        rc = spec->backend->open(&tower->backend, &spec->backend_spec);
    if (rc == 0)
        rc = lay_out(tower);
    if (rc == 0)
        rc = param_groups_init(&tower->groups, tower_net(tower), &tower->arenas.trained, &spec->optimizer);
    if (rc == 0 && tower_has_parts(tower))
        rc = param_groups_divide(&tower->groups, tower->share, &tower->arenas.trained, spec->parts.all,
                                 (struct part_range){ spec->parts.first, spec->parts.count }, skips_nonfinite(tower));
    if (rc == 0) {
        tower->plans = calloc(2 * TOWER_COUNTS * blocks(tower), sizeof(struct plan *));
        rc = tower->plans == NULL ? -ENOMEM : open_plans(tower, spec->train_counts, true);
    }
    if (rc == 0)
        rc = open_plans(tower, spec->evaluate_counts, false);
    return rc == 0 ? open_head(tower) : rc;
}

int tower_open(struct tower **tower_out, const struct tower_spec *spec)
{
    struct tower *const tower = calloc(1, sizeof(*tower));
    if (tower == NULL)
        return -ENOMEM;
    tower->spec = *spec;
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

void tower_close(struct tower *tower)
{
    if (tower == NULL)
        return;
    struct device *const device = tower->spec.device;
    /* A tower that was cancelled while it opened may have copies in flight. */
    device->ops->stream_drain(tower->spec.compute);
    for (uint32_t i = 0; i < tower->plan_count; i++)
        tower->spec.backend->plan_close(tower->plans[i]);
    free(tower->plans);
    head_close(tower->head_run);
    if (tower->backend != NULL)
        tower->spec.backend->close(tower->backend);
    void *const memory[] = { tower->weights, tower->gradients, tower->bf16_grads, tower->rounded, tower->zeros,
                             tower->statistics, tower->states[0], tower->states[1], tower->states[2], tower->kept_statistics,
                             tower->average_weights, tower->average_statistics, tower->squares };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i] != NULL)
            device->ops->free(device, memory[i]);
    for (uint32_t i = 0; i < 2 * SUMS_MAX; i++) {
        float *const sums = i < SUMS_MAX ? tower->gradient_sums[i] : tower->statistics_sums[i - SUMS_MAX];
        if (sums != NULL)
            device->ops->free(device, sums);
    }
    arenas_release(&tower->arenas);
    param_groups_release(&tower->groups);
    net_close(tower->share);
    net_close(tower->train_share);
    free(tower);
}

/* ---- memory: tower_needs counts it, alloc_arenas allocates it ---- */

/* Can the initial values of a parameter be made in the memory of the gradients? */
static bool fits_gradients(const struct tower *tower)
{
    return tower->spec.device->ops->host_memory && !tower->spec.evaluates_only &&
           net_most_numbers(tower_net(tower)) <= tower->arenas.trained.count;
}

struct tower_needs tower_needs(const struct tower *tower)
{
    const struct tower_spec *const spec = &tower->spec;
    const size_t trained = tower->arenas.trained.count, updated = updated_count(tower);
    const size_t statistics = tower->arenas.statistics.count;
    const size_t states = tower_state_count(spec) * updated;
    const size_t sums = sum_levels(tower) * (shared_count(tower) + (tower_has_slices(tower) ? statistics : 0));
    const size_t average = keeps_average(tower) ? updated + statistics : 0;
    const size_t bf16_grads = (spec->has_bf16_grads ? updated : 0) + rounded_count(tower);
    const size_t always = (trained + (keeps_statistics(tower) ? 2 : 1) * statistics) * sizeof(float);
    const size_t training = (trained + sums + states + average + ZERO_FLOATS) * sizeof(float) +
                            bf16_grads * sizeof(uint16_t) + param_groups_bytes(&tower->groups);
    struct tower_needs needs = {
        .arenas = always + (spec->evaluates_only ? 0 : training) +
                  (tower_has_parts(tower) ? head_bytes(tower->head_run) : 0),
        .initial = fits_gradients(tower) ? 0 : net_most_numbers(tower_net(tower)) * sizeof(float),
    };
    spec->backend->needs(tower->backend, &needs.backend);
    return needs;
}

static int alloc_floats(struct tower *tower, size_t count, float **floats_out)
{
    struct device *const device = tower->spec.device;
    void *memory;
    const int rc = device->ops->alloc(device, count * sizeof(float), &memory);
    if (rc == 0)
        *floats_out = memory;
    return rc;
}

/* Leaves the pointer NULL if count is 0. */
static int alloc_floats_if_any(struct tower *tower, size_t count, float **floats_out)
{
    return count > 0 ? alloc_floats(tower, count, floats_out) : 0;
}

static int alloc_bf16_grads(struct tower *tower)
{
    struct device *const device = tower->spec.device;
    void *memory = NULL;
    const size_t count = tower->spec.has_bf16_grads ? updated_count(tower) : 0;
    const int rc = count > 0 ? device->ops->alloc(device, count * sizeof(uint16_t), &memory) : 0;
    if (rc == 0)
        tower->bf16_grads = memory;
    return rc;
}

static int alloc_rounded(struct tower *tower)
{
    struct device *const device = tower->spec.device;
    const size_t bytes = rounded_count(tower) * sizeof(uint16_t);
    void *memory = NULL;
    const int rc = bytes > 0 ? device->ops->alloc(device, bytes, &memory) : 0;
    if (rc == 0)
        tower->rounded = memory;
    return rc;
}

static int alloc_squares(struct tower *tower)
{
    struct device *const device = tower->spec.device;
    const size_t bytes = param_groups_bytes(&tower->groups);
    if (bytes == 0)
        return 0;
    const int rc = device->ops->alloc(device, bytes, &tower->squares);
    if (rc == 0)
        param_groups_bind(&tower->groups, tower->squares);
    return rc;
}

static int alloc_average(struct tower *tower)
{
    if (!keeps_average(tower))
        return 0;
    const int rc = alloc_floats_if_any(tower, updated_count(tower), &tower->average_weights);
    return rc == 0 ? alloc_floats_if_any(tower, tower->arenas.statistics.count, &tower->average_statistics) : rc;
}

/* Allocate the memory that only training uses. */
static int alloc_gradients(struct tower *tower)
{
    const size_t updated = updated_count(tower);
    int rc = alloc_floats(tower, tower->arenas.trained.count, &tower->gradients);
    if (rc == 0)
        rc = alloc_floats(tower, ZERO_FLOATS, &tower->zeros);
    for (uint32_t i = 0; i < sum_levels(tower) && rc == 0; i++) {
        rc = alloc_floats_if_any(tower, shared_count(tower), &tower->gradient_sums[i]);
        if (rc == 0 && tower_has_slices(tower))
            rc = alloc_floats_if_any(tower, tower->arenas.statistics.count, &tower->statistics_sums[i]);
    }
    for (uint32_t i = 0; i < tower_state_count(&tower->spec) && rc == 0; i++)
        rc = alloc_floats(tower, updated, &tower->states[i]);
    if (rc == 0 && keeps_statistics(tower))
        rc = alloc_floats_if_any(tower, tower->arenas.statistics.count, &tower->kept_statistics);
    if (rc == 0)
        rc = alloc_bf16_grads(tower);
    if (rc == 0)
        rc = alloc_rounded(tower);
    if (rc == 0)
        rc = alloc_average(tower);
    return rc == 0 ? alloc_squares(tower) : rc;
}

static int alloc_arenas(struct tower *tower)
{
    int rc = alloc_floats(tower, tower->arenas.trained.count, &tower->weights);
    if (rc == 0)
        rc = alloc_floats_if_any(tower, tower->arenas.statistics.count, &tower->statistics);
    return rc == 0 && !tower->spec.evaluates_only ? alloc_gradients(tower) : rc;
}

/* ---- initial values: one parameter at a time, in plain form first ---- */

static float *stored_at(const struct tower *tower, uint32_t parameter)
{
    const size_t offset = tower_arena_of(tower, parameter)->ranges[parameter].offset;
    return (tower_net(tower)->parameters[parameter].is_trained ? tower->weights : tower->statistics) + offset;
}

static int set_weights(struct tower *tower, float *plain)
{
    const struct tower_spec *const spec = &tower->spec;
    const struct net *const net = tower_net(tower);
    const uint32_t threads = spec->backend->has_teams ? spec->backend_spec.threads : 1;
    int rc = 0;
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++)
        if (tower_arena_of(tower, i)->ranges[i].count > 0) {
            init_parameter(net, i, spec->seed, threads, plain);
            rc = spec->backend->pack(tower->backend, i, plain, stored_at(tower, i));
        }
    return rc;
}

static int set_state(struct tower *tower, uint32_t state, const float *plain)
{
    const struct net *const net = tower_net(tower);
    int rc = 0;
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++)
        if (parameter_is_updated(&net->parameters[i]))
            rc = tower->spec.backend->pack(tower->backend, i, plain,
                                           tower->states[state] + tower->arenas.trained.ranges[i].offset);
    return rc;
}

/* Set the initial values of the states. Device memory is 0 when it is allocated, so only other values are set. */
static int set_states(struct tower *tower, float *plain, size_t most)
{
    const enum optimizer_kind kind = tower->spec.optimizer.kind;
    int rc = 0;
    for (uint32_t state = 0; state < optimizer_state_count(kind) && rc == 0; state++) {
        const float start = optimizer_state_start(kind, state);
        for (size_t i = 0; i < most; i++)
            plain[i] = start;
        if (start != 0.0f)
            rc = set_state(tower, state, plain);
    }
    return rc;
}

static int set_initial_values(struct tower *tower)
{
    const size_t most = net_most_numbers(tower_net(tower));
    const bool in_gradients = fits_gradients(tower);
    float *const plain = in_gradients ? tower->gradients : malloc(most * sizeof(*plain));
    if (plain == NULL)
        return -ENOMEM;
    int rc = set_weights(tower, plain);
    if (rc == 0)
        rc = set_states(tower, plain, most);
    if (in_gradients)
        memset(plain, 0, most * sizeof(*plain));        /* backward leaves the padding of a gradient as it is: 0 */
    else
        free(plain);
    return rc;
}

/* Allocate the memory that towers exchange, and connect the trunk's plans with it. */
static int connect_head(struct tower *tower)
{
    const int rc = head_allocate(tower->head_run);
    if (rc == 0)
        param_groups_bind_exchange(&tower->groups, head_norms(tower->head_run));
    for (uint32_t i = 0; i < tower->plan_count && rc == 0; i++) {
        struct plan_base *const base = (struct plan_base *)tower->plans[i];
        base->outside = head_outside(tower->head_run, tower->spec.slices.first + base->block);
    }
    return rc;
}

int tower_allocate(struct tower *tower)
{
    int rc = alloc_arenas(tower);
    const struct backend_memory memory = { tower->weights, tower->gradients, tower->statistics };
    if (rc == 0)
        rc = tower->spec.backend->bind(tower->backend, &memory);
    if (rc == 0 && !tower->spec.evaluates_only)
        rc = set_initial_values(tower);
    if (rc == 0 && tower_has_parts(tower))
        rc = connect_head(tower);
    return rc == 0 ? tower->spec.backend->allocate(tower->backend) : rc;
}

/* ---- sums of microbatches ---- */

static int add_floats(struct tower *tower, float *floats, const float *more, size_t count)
{
    return tower->spec.backend->axpby(tower->backend, floats, more, count, 1, 0);
}

/* Round gradients to bf16 where the sums of slices are. */
static int round_gradients(struct tower *tower, float *floats, size_t count)
{
    const struct backend_ops *const backend = tower->spec.backend;
    int rc = 0;
    for (size_t at = 0; at < count && tower->rounded != NULL && rc == 0; at += ROUND_FLOATS) {
        const size_t some = count - at < ROUND_FLOATS ? count - at : ROUND_FLOATS;
        rc = backend->to_bf16(tower->backend, floats + at, tower->rounded, some);
        if (rc == 0)
            rc = backend->from_bf16(tower->backend, tower->rounded, floats + at, some);
    }
    return rc;
}

static int add_gradients(struct tower *tower, float *floats, const float *more, size_t count)
{
    const int rc = add_floats(tower, floats, more, count);
    return rc == 0 ? round_gradients(tower, floats, count) : rc;
}

/* Add the floats of microbatch `number` (from 0), which is not the last of its batch, to the sums. Without slices there
 * is one sum. With slices the sums form a binary tree: the floats complete as many pairs as `number` has 1 bits at its
 * end, and each pair covers twice as many microbatches as the one before. The floats are overwritten. `add` adds
 * two sums. */
static int keep_sum(struct tower *tower, float *sums[SUMS_MAX], float *floats, size_t count, uint32_t number,
                    int (*add)(struct tower *tower, float *floats, const float *more, size_t count))
{
    uint32_t level = 0;
    int rc = 0;
    if (number == 0 || (tower_has_slices(tower) && number % 2 == 0))
        return copy_on_device(tower, sums[0], floats, count);
    for (; tower_has_slices(tower) && number >> (level + 1) & 1 && rc == 0; level++)
        rc = add(tower, floats, sums[level], count);
    if (rc == 0)
        rc = add(tower, sums[level], floats, count);
    if (tower_has_slices(tower)) {
        float *const sum = sums[level];
        sums[level] = sums[level + 1];
        sums[level + 1] = sum;
    }
    return rc;
}

/* Add the sums of the microbatches before to floats [from, end) of the last microbatch, whose number is `number`. */
static int end_sum(struct tower *tower, float *const sums[SUMS_MAX], float *floats, size_t from, size_t end,
                   uint32_t number, int (*add)(struct tower *tower, float *floats, const float *more, size_t count))
{
    const uint32_t held = tower_has_slices(tower) ? number : number > 0;     /* bit n: sums[n] holds a sum */
    int rc = 0;
    for (uint32_t level = 0; held >> level > 0 && rc == 0; level++)
        if (held >> level & 1)
            rc = add(tower, floats + from, sums[level] + from, end - from);
    return rc;
}

/* Copies zeros, because devices have no operation that clears memory on a stream. */
static int clear_gradients(struct tower *tower)
{
    const size_t count = shared_count(tower);
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += ZERO_FLOATS)
        rc = copy_on_device(tower, tower->gradients + at, tower->zeros,
                            count - at < ZERO_FLOATS ? count - at : ZERO_FLOATS);
    return rc;
}

/* ---- forward ---- */

/* With spec.in_pieces: microbatch `number` of `count` samples; its count is 0 behind the last one. */
static struct batch_part find_piece(const struct tower *tower, uint32_t count, uint32_t number)
{
    const uint32_t *size = tower->spec.evaluate_counts;
    struct batch_part part = { .first = 0, .count = 0 };
    for (uint32_t i = 0; i <= number; i++) {
        part.first += part.count;
        if (part.first == count)
            return (struct batch_part){ count, 0 };
        while (*size > count - part.first)
            size++;
        part.count = *size;
    }
    return part;
}

static uint32_t count_pieces(const struct tower *tower, uint32_t count)
{
    uint32_t pieces = 1;
    while (find_piece(tower, count, pieces).count > 0)
        pieces++;
    return pieces;
}

uint32_t tower_microbatches(const struct tower *tower, uint32_t count)
{
    const uint32_t most = tower->spec.microbatch_max;
    if (tower_has_slices(tower))
        return tower->spec.slices.count;
    if (tower->spec.in_pieces)
        return count_pieces(tower, count);
    return most == 0 || count == 0 ? 1 : count / most + (count % most != 0);
}

uint32_t tower_microbatches_most(const struct tower *tower, uint32_t most)
{
    const uint32_t *const sizes = tower->spec.evaluate_counts;
    uint32_t pieces = 1;
    if (!tower->spec.in_pieces)
        return tower_microbatches(tower, most);
    for (uint32_t i = 1; i < TOWER_COUNTS && sizes[i] > 0; i++)
        pieces += (sizes[i - 1] - 1) / sizes[i];
    return pieces;
}

struct batch_part tower_microbatch(const struct tower *tower, const struct local_batch *local, uint32_t microbatch)
{
    const struct tower_slices *const slices = &tower->spec.slices;
    const uint32_t most = tower->spec.microbatch_max, batch = local->global_count;
    if (tower->spec.in_pieces)
        return find_piece(tower, local->count, microbatch);
    if (!tower_has_slices(tower)) {
        const uint32_t first = microbatch * most, left = local->count - first;
        return (struct batch_part){ first, most > 0 && left > most ? most : left };
    }
    const struct batch_part begin = batch_part_find(batch, slices->pairs, slices->all, slices->first);
    struct batch_part part = batch_part_find(batch, slices->pairs, slices->all, slices->first + microbatch);
    part.first -= begin.first;
    return part;
}

static int copy_statistics(struct tower *tower, float *to, const float *from)
{
    const size_t count = tower->arenas.statistics.count;
    if (!tower->spec.backend->host_memory)
        return count > 0 ? copy_on_device(tower, to, from, count) : 0;
    if (count > 0)
        memcpy(to, from, count * sizeof(float));
    return 0;
}

/* Multiply the statistics that a slice has moved by its samples and add them to the sum over slices, because their mean
 * is weighted by samples. */
static int sum_statistics(struct tower *tower, uint32_t microbatch, uint32_t samples)
{
    float *const statistics = tower->statistics;
    const size_t count = tower->arenas.statistics.count;
    if (count == 0)
        return 0;
    const int rc = tower_scale(tower, statistics, count, (float)samples);
    if (rc != 0)
        return rc;
    return microbatch + 1 < tower->spec.slices.count
               ? keep_sum(tower, tower->statistics_sums, statistics, count, microbatch, add_floats)
               : end_sum(tower, tower->statistics_sums, statistics, 0, count, microbatch, add_floats);
}

/* Keep the statistics before the step, in case it is skipped, and let every slice start from them. */
static int begin_statistics(struct tower *tower, uint32_t microbatch)
{
    if (microbatch > 0)
        return tower_has_slices(tower) ? copy_statistics(tower, tower->statistics, tower->kept_statistics) : 0;
    return keeps_statistics(tower) ? copy_statistics(tower, tower->kept_statistics, tower->statistics) : 0;
}

static int run_forward(struct tower *tower, const struct slot *slot, const struct batch_part *part, bool training,
                       uint32_t microbatch)
{
    const bool is_last = microbatch + 1 == tower_microbatches(tower, slot->local.count);
    struct plan *const plan = find_plan(tower, part->count, training, microbatch);
    if (plan == NULL)
        return -EINVAL;
    const struct backend_input input = {
        .pixels = slot->pixels + part->first * shape_count(backend_net(&tower->spec.backend_spec, training)->input),
        .labels = slot->labels + part->first,
        .mixes = training && slot->mixes != NULL ? slot->mixes + part->first : NULL,
        .first_position = slot->local.first_position + part->first, .epoch = slot->local.epoch,
    };
    begin_work(tower, "converting its input");
    int rc = end_work(tower, tower->spec.backend->input(plan, &input));
    if (rc == 0 && is_last)
        rc = stream_record(tower->spec.compute, slot->free);
    if (rc == 0)
        rc = tower->spec.backend->forward(plan);
    tower->last = rc == 0 ? plan : NULL;
    tower->ran = tower->last;
    return rc;
}

/* With parts: the head and backward follow when all microbatches are forwarded. */
static int end_forward(struct tower *tower, const struct slot *slot, uint32_t microbatch, uint32_t count)
{
    tower->forwarded[microbatch] = tower->last;
    tower->local = slot->local;
    return head_send_nothing(tower->head_run, tower->spec.slices.first + microbatch, count);
}

int tower_forward(struct tower *tower, struct slot *slot, uint32_t microbatch, bool training)
{
    const struct batch_part part = tower_microbatch(tower, &slot->local, microbatch);
    const bool is_last = microbatch + 1 == tower_microbatches(tower, slot->local.count);
    tower->last = NULL;
    if (microbatch == 0)
        tower->ran = NULL;
    int rc = training ? begin_statistics(tower, microbatch) : 0;
    if (rc == 0 && part.count > 0)
        rc = run_forward(tower, slot, &part, training, microbatch);
    else if (rc == 0 && is_last)
        rc = stream_record(tower->spec.compute, slot->free);
    if (rc == 0 && tower_has_parts(tower))
        rc = end_forward(tower, slot, microbatch, part.count);
    return rc == 0 && training && tower_has_slices(tower) ? sum_statistics(tower, microbatch, part.count) : rc;
}

/* ---- the head ---- */

/* The first row of the head that has samples of the microbatch. */
static uint32_t first_row(const struct tower *tower, uint32_t microbatch)
{
    return head_row(tower->head_run, tower->spec.slices.first + microbatch);
}

const struct head *tower_head(const struct tower *tower)
{
    return tower_has_parts(tower) ? &tower->head : NULL;
}

uint32_t tower_exchanges(const struct tower *tower, struct head_exchange exchanges_out[HEAD_EXCHANGES_MAX])
{
    return tower_has_parts(tower) ? head_exchanges(tower->head_run, exchanges_out) : 0;
}

size_t tower_outside(const struct tower *tower, float **floats_out)
{
    if (!tower_has_parts(tower))
        return 0;
    *floats_out = head_region(tower->head_run);
    return head_region_count(tower->head_run);
}

/* Rows are numbered for dropout as if all batches of the epoch before had all rows. */
static uint64_t row_position(const struct tower *tower, const struct local_batch *local)
{
    const struct tower_slices *const slices = &tower->spec.slices;
    const uint32_t before = batch_part_find(local->global_count, slices->pairs, slices->all, slices->first).first;
    const uint64_t batch = (local->first_position - before) / tower->spec.parts.batch;
    return batch * head_row(tower->head_run, slices->all);
}

int tower_head_forward(struct tower *tower, const struct local_batch *local, uint32_t stage, bool training)
{
    const struct head_batch batch = { training, row_position(tower, local), local->epoch };
    return head_forward(tower->head_run, stage, &batch);
}

int tower_head_backward(struct tower *tower, uint32_t stage)
{
    return head_backward(tower->head_run, stage);
}

/* ---- backward ---- */

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg, (void)layer;
}

/* With parts: backward of the next microbatch follows. Its sum of class weights comes from the head. */
static int begin_backward(struct tower *tower)
{
    const uint32_t microbatch = tower->summed;
    if (!tower_has_parts(tower))
        return 0;
    tower->last = tower->forwarded[microbatch];
    if (tower->last == NULL || !has_class_weights(tower))
        return 0;
    return tower->spec.backend->part_weigh(head_loss_plan(tower->head_run, true), first_row(tower, microbatch),
                                           tower_microbatch(tower, &tower->local, microbatch).count);
}

int tower_accumulate(struct tower *tower)
{
    int rc = begin_backward(tower);
    if (rc == 0)
        rc = tower->last != NULL ? tower->spec.backend->backward(tower->last, ignore_layer, NULL)
                                 : clear_gradients(tower);
    if (rc == 0)
        rc = round_gradients(tower, tower->gradients, shared_count(tower));
    if (rc != 0)
        return rc;
    return keep_sum(tower, tower->gradient_sums, tower->gradients, shared_count(tower), tower->summed++,
                    add_gradients);
}

/* The first `floats` gradients of the last microbatch are queued: queue the addition of the sums to them. */
static void add_sums(struct tower *tower, size_t floats)
{
    const size_t from = tower->sums_added;
    if (tower->summed == 0 || floats <= from)
        return;
    int rc = round_gradients(tower, tower->gradients + from, floats - from);
    if (rc == 0)
        rc = end_sum(tower, tower->gradient_sums, tower->gradients, from, floats, tower->summed, add_gradients);
    if (tower->sums_rc == 0)
        tower->sums_rc = rc;
    tower->sums_added = floats;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct tower *const tower = arg;
    const size_t floats = arena_ready(&tower->arenas.trained, tower_net(tower), layer);
    add_sums(tower, floats);
    tower->ready(tower->ready_arg, floats);
    tower->is_ready = floats == shared_count(tower);
}

/* Reset the sums for the next batch. 0, or the error of adding the sums of this batch. */
static int end_sums(struct tower *tower)
{
    const int rc = tower->sums_rc;
    tower->summed = 0;
    tower->sums_added = 0;
    tower->sums_rc = 0;
    return rc;
}

int tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg)
{
    tower->ready = ready;
    tower->ready_arg = arg;
    tower->is_ready = false;
    tower->skips_update = false;
    int rc = begin_backward(tower);
    if (rc == 0)
        rc = tower->last != NULL ? tower->spec.backend->backward(tower->last, layer_done, tower)
                                 : clear_gradients(tower);
    /* No layer is done without samples, and none of a trunk that is frozen. */
    if (rc == 0 && !tower->is_ready) {
        add_sums(tower, shared_count(tower));
        ready(arg, shared_count(tower));
    }
    const int added = end_sums(tower);
    return rc != 0 ? rc : added;
}

int tower_set_segments(struct tower *tower, const size_t *ends, uint32_t count)
{
    const struct backend_ops *const backend = tower->spec.backend;
    if (backend->segment == NULL)
        return 0;
    bool *const is_end = calloc(tower_net(tower)->layer_count, sizeof(*is_end));
    if (is_end == NULL)
        return -ENOMEM;
    arena_segment_ends(&tower->arenas.trained, tower_net(tower), ends, count, is_end);
    const int rc = backend->segment(tower->backend, is_end);
    free(is_end);
    return rc;
}

int tower_grads_to_bf16(struct tower *tower, size_t offset, size_t count)
{
    return tower->bf16_grads == NULL ? 0 : tower->spec.backend->to_bf16(tower->backend, tower_applied(tower) + offset,
                                                                        tower->bf16_grads + offset, count);
}

int tower_grads_from_bf16(struct tower *tower, size_t offset, size_t count)
{
    return tower->bf16_grads == NULL ? 0 : tower->spec.backend->from_bf16(tower->backend, tower->bf16_grads + offset,
                                                                          tower_applied(tower) + offset, count);
}

/* ---- update ---- */

bool tower_updates_at_once(const struct tower *tower)
{
    return tower->groups.clips || skips_nonfinite(tower) || has_part_norms(tower) ||
           (tower->spec.backend->check != NULL && tower->spec.backend_spec.precision == PRECISION_FP16);
}

/* The part of a range of gradients that belongs to parameters. */
static void leave_out_lead(const struct tower *tower, size_t *offset, size_t *count)
{
    const size_t lead = *offset < tower->arenas.trained.lead ? tower->arenas.trained.lead - *offset : 0;
    const size_t left_out = lead < *count ? lead : *count;
    *offset += left_out;
    *count -= left_out;
}

int tower_weigh(struct tower *tower, size_t offset, size_t count, uint32_t samples)
{
    const struct backend_ops *const backend = tower->spec.backend;
    float *const gradients = tower_applied(tower);
    if (!has_class_weights(tower))
        return 0;
    leave_out_lead(tower, &offset, &count);
    if (count == 0)
        return 0;
    if (backend->divide != NULL)
        return backend->divide(tower->backend, gradients + offset, count, (float)samples, gradients);
    return tower_scale(tower, gradients + offset, count, gradients[0] == 0 ? 0 : (float)samples / gradients[0]);
}

int tower_check(struct tower *tower, size_t offset, size_t count)
{
    const float *const gradients = tower_applied(tower) + offset;
    if (tower->spec.backend->check != NULL)
        return tower->spec.backend->check(tower->backend, gradients, count);
    if (skips_nonfinite(tower) && floats_find_nonfinite(gradients, count) != count)
        tower->is_nonfinite = true;
    return 0;
}

/* All gradients are checked: restore the statistics where one was not finite. On the host this decides whether the
 * update is skipped (tower->skips_update); on a device the update is queued in any case and decides there. */
static int decide_skip(struct tower *tower)
{
    const struct backend_ops *const backend = tower->spec.backend;
    const size_t count = tower->arenas.statistics.count;
    tower->skips_update = false;
    if (!skips_nonfinite(tower))
        return 0;
    if (backend->check != NULL)
        return count == 0 ? 0 : backend->restore_if_nonfinite(tower->backend, tower->statistics,
                                                              tower->kept_statistics, count);
    if (tower->is_nonfinite && count > 0)
        memcpy(tower->statistics, tower->kept_statistics, count * sizeof(float));
    tower->skips_update = tower->was_skipped = tower->is_nonfinite;
    tower->is_nonfinite = false;
    return 0;
}

/* Clip the gradients. The configured limit is for mean gradients, but these gradients are sums. */
static int clip_gradients(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    const double limit = tower->spec.optimizer.clip_value / (double)step->gradient_scale;
    if (limit == 0)
        return 0;
    return tower->spec.backend->clip_value(tower->backend, tower_applied(tower) + offset, count, (float)limit);
}

/* Find the ranges of an update, clip their gradients, and sum the squares that the update needs. */
static int prepare_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    struct param_groups *const groups = &tower->groups;
    const struct optimizer_range arena = { .weights = tower->weights, .gradients = tower_applied(tower),
                                           .states = { tower->states[0], tower->states[1] } };
    groups->scale = step->gradient_scale;
    param_groups_select(groups, &arena, offset, offset + count);
    const int rc = clip_gradients(tower, offset, count, step);
    return rc == 0 && groups->squares_count > 0
               ? tower->spec.backend->squares(tower->backend, groups->squares, groups->squares_count)
               : rc;
}

int tower_put_norms(struct tower *tower, const struct optimizer_step *step)
{
    const struct backend_ops *const backend = tower->spec.backend;
    const struct part_norms *const norms = &tower->groups.norms;
    size_t offset = 0, count = updated_count(tower);
    if (!has_part_norms(tower))
        return 0;
    leave_out_lead(tower, &offset, &count);
    const int rc = prepare_update(tower, offset, count, step);
    if (rc != 0 || backend->put_norms != NULL)
        return rc != 0 ? rc : backend->put_norms(tower->backend, norms);
    for (uint32_t i = 0; i < norms->count * part_norms_numbers(norms); i++)
        part_norms_put(norms, i, tower->is_nonfinite);
    return 0;
}

/* After the exchange: the norms over all parts, and whether any of them has a gradient that is not finite. */
static int add_norms(struct tower *tower)
{
    const struct backend_ops *const backend = tower->spec.backend;
    const struct part_norms *const norms = &tower->groups.norms;
    if (!has_part_norms(tower))
        return 0;
    if (backend->add_norms != NULL)
        return backend->add_norms(tower->backend, norms);
    for (uint32_t sum = 0; sum < norms->sums; sum++)
        part_norms_add(norms, sum);
    part_norms_add_gradients(norms);
    tower->is_nonfinite = part_norms_nonfinite(norms);
    return 0;
}

int tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    const struct param_groups *const groups = &tower->groups;
    int rc = add_norms(tower);
    if (rc == 0)
        rc = decide_skip(tower);
    if (rc != 0 || tower->skips_update)
        return rc;
    leave_out_lead(tower, &offset, &count);
    if (count == 0)
        return 0;
    rc = has_part_norms(tower) ? 0 : prepare_update(tower, offset, count, step);
    if (rc != 0)
        return rc;
    begin_work(tower, "updating weights");
    return end_work(tower, tower->spec.backend->update(tower->backend, &tower->spec.optimizer, step, groups->ranges,
                                                       groups->range_count));
}

int tower_defer(struct tower *tower)
{
    return copy_on_device(tower, tower_applied(tower), tower->gradients, updated_count(tower));
}

int tower_divide_statistics(struct tower *tower, uint32_t batch_samples)
{
    const size_t count = tower->arenas.statistics.count;
    if (!tower_has_slices(tower) || count == 0)
        return 0;
    return tower_scale(tower, tower->statistics, count, 1.0f / (float)batch_samples);
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

/* ---- the moving average ---- */

static int move_average(struct tower *tower, float *average, const float *floats, size_t count, uint64_t step)
{
    const struct backend_ops *const backend = tower->spec.backend;
    const float share = (float)(1 - tower->spec.average_decay);
    if (count == 0)
        return 0;
    if (step == 0)
        return copy_on_device(tower, average, floats, count);
    return backend->ema_update != NULL ? backend->ema_update(tower->backend, average, floats, count, share)
                                       : backend->axpby(tower->backend, average, floats, count, share, 1);
}

int tower_update_average(struct tower *tower, uint64_t step)
{
    if (!keeps_average(tower) || (tower->skips_update && step > 0))
        return 0;
    assert(!tower->shows_average);
    const int rc = move_average(tower, tower->average_weights, tower->weights, updated_count(tower), step);
    return rc == 0 ? move_average(tower, tower->average_statistics, tower->statistics,
                                  tower->arenas.statistics.count, step)
                   : rc;
}

/* Swap through the memory of the gradients, in several parts if there are more statistics than gradients. */
static int swap_floats(struct tower *tower, float *a, float *b, size_t count)
{
    float *const between = tower->gradients;
    const size_t most = tower->arenas.trained.count;
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += most) {
        const size_t some = count - at < most ? count - at : most;
        rc = copy_on_device(tower, between, a + at, some);
        if (rc == 0)
            rc = copy_on_device(tower, a + at, b + at, some);
        if (rc == 0)
            rc = copy_on_device(tower, b + at, between, some);
    }
    return rc;
}

int tower_show_average(struct tower *tower, bool is_shown)
{
    if (!keeps_average(tower) || tower->shows_average == is_shown)
        return 0;
    tower->shows_average = is_shown;
    int rc = swap_floats(tower, tower->weights, tower->average_weights, updated_count(tower));
    if (rc == 0)
        rc = swap_floats(tower, tower->statistics, tower->average_statistics, tower->arenas.statistics.count);
    return rc == 0 ? tower_weights_changed(tower, 0, updated_count(tower)) : rc;
}

bool tower_shows_average(const struct tower *tower)
{
    return tower->shows_average;
}

float *tower_average_weights(struct tower *tower)
{
    return tower->average_weights;
}

float *tower_average_statistics(struct tower *tower)
{
    return tower->average_statistics;
}

/* ---- results ---- */

/* On the host: the last result of the step is requested. */
static void take_skipped(struct tower *tower, struct backend_result *result)
{
    result->is_skipped |= tower->was_skipped;
    tower->was_skipped = false;
}

int tower_result(struct tower *tower, struct backend_result *result_out)
{
    *result_out = (struct backend_result){ .loss_scale = 1 };
    const int rc = tower->ran != NULL ? tower->spec.backend->result(tower->ran, result_out) : 0;
    take_skipped(tower, result_out);
    return rc;
}

int tower_head_result(struct tower *tower, const struct local_batch *local, uint32_t microbatch,
                      struct backend_result *result_out)
{
    struct plan *const plan = head_loss_plan(tower->head_run, local->phase == PHASE_TRAIN);
    const uint32_t count = tower_microbatch(tower, local, microbatch).count;
    const int rc = tower->spec.backend->part_result(plan, first_row(tower, microbatch), count, result_out);
    if (microbatch + 1 == tower_microbatches(tower, local->count))
        take_skipped(tower, result_out);
    return rc;
}

bool tower_has_trunk_losses(const struct tower *tower)
{
    for (uint32_t i = 0; tower_has_parts(tower) && i < tower->head.first; i++)
        if (tower->spec.net->layers[i].kind == LAYER_AUXILIARY_LOSS)
            return true;
    return false;
}

int tower_trunk_result(struct tower *tower, uint32_t microbatch, struct backend_result *result_out)
{
    return tower->spec.backend->result(tower->forwarded[microbatch], result_out);
}

int tower_head_answers(struct tower *tower, const struct local_batch *local, uint32_t microbatch,
                       struct answer *answers_out)
{
    struct plan *const plan = head_loss_plan(tower->head_run, local->phase == PHASE_TRAIN);
    const uint32_t count = tower_microbatch(tower, local, microbatch).count;
    return count > 0 ? tower->spec.backend->part_answers(plan, first_row(tower, microbatch), count, answers_out) : 0;
}

int tower_answers(struct tower *tower, struct answer *answers_out)
{
    return tower->last != NULL ? tower->spec.backend->answers(tower->last, answers_out) : 0;
}

int tower_logits(struct tower *tower, float *logits_out)
{
    const uint32_t loss = tower->spec.net->layer_count - 1;
    return tower->last != NULL ? tower->spec.backend->values(tower->last, loss, logits_out) : 0;
}

int tower_embeddings(struct tower *tower, float *embeddings_out)
{
    const uint32_t layer = net_embedding_layer(tower->spec.net);
    return tower->last != NULL ? tower->spec.backend->values(tower->last, layer, embeddings_out) : 0;
}

/* ---- arenas ---- */

const struct arena *tower_arena(const struct tower *tower)
{
    return &tower->arenas.trained;
}

const struct arena *tower_arena_of(const struct tower *tower, uint32_t parameter)
{
    return arenas_of(&tower->arenas, tower_net(tower), parameter);
}

float *tower_weights(struct tower *tower)
{
    return tower->weights;
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
    return tower->bf16_grads;
}

float *tower_statistics(struct tower *tower)
{
    return tower->statistics;
}

size_t tower_statistics_count(const struct tower *tower)
{
    return tower->arenas.statistics.count;
}

uint32_t tower_state_count(const struct tower_spec *spec)
{
    return optimizer_state_count(spec->optimizer.kind) + (spec->defers ? 1 : 0);
}

float *tower_state(struct tower *tower, uint32_t state)
{
    return tower->states[state];
}

/* ---- the rest ---- */

const struct param_groups *tower_param_groups(const struct tower *tower)
{
    return &tower->groups;
}

const struct tower_spec *tower_spec(const struct tower *tower)
{
    return &tower->spec;
}

struct backend *tower_backend(struct tower *tower)
{
    return tower->backend;
}

uint32_t tower_piece(const struct tower *tower, uint32_t whole, uint32_t after)
{
    const struct net *const net = tower_net(tower);
    if (net->share == NULL)
        return after == NET_NO_PARAMETER ? whole : NET_NO_PARAMETER;
    for (uint32_t i = after == NET_NO_PARAMETER ? 0 : after + 1; i < net->parameter_count; i++)
        if (net->share->parameters[i] == whole)
            return i;
    return NET_NO_PARAMETER;
}

size_t tower_piece_first(const struct tower *tower, uint32_t piece)
{
    const struct net *const net = tower_net(tower);
    return net->share != NULL ? net->share->firsts[piece] : 0;
}

uint32_t tower_part(const struct tower *tower, uint32_t whole, uint32_t part)
{
    const struct net *const net = tower_net(tower);
    uint32_t i = tower_piece(tower, whole, NET_NO_PARAMETER);
    while (i != NET_NO_PARAMETER && parameter_is_part(net, i) && net->share->parts[net->parameters[i].layer] != part)
        i = tower_piece(tower, whole, i);
    return i;
}

int tower_read_piece(struct tower *tower, uint32_t piece, float *plain_out)
{
    return tower->spec.backend->unpack(tower->backend, piece, stored_at(tower, piece), plain_out);
}

int tower_read(struct tower *tower, uint32_t parameter, float *plain_out)
{
    uint32_t i = NET_NO_PARAMETER;
    int rc = 0;
    while (rc == 0 && (i = tower_piece(tower, parameter, i)) != NET_NO_PARAMETER)
        rc = tower_read_piece(tower, i, plain_out + tower_piece_first(tower, i));
    return rc;
}

int tower_write(struct tower *tower, uint32_t parameter, const float *plain)
{
    uint32_t i = NET_NO_PARAMETER;
    int rc = 0;
    while (rc == 0 && (i = tower_piece(tower, parameter, i)) != NET_NO_PARAMETER)
        rc = tower->spec.backend->pack(tower->backend, i, plain + tower_piece_first(tower, i), stored_at(tower, i));
    return rc;
}

void tower_describe(const struct tower *tower, void (*write)(void *arg, const char *line), void *arg)
{
    if (tower->plan_count > 0)
        tower->spec.backend->plan_describe(tower->plans[0], write, arg);
    if (tower_has_parts(tower))
        head_describe(tower->head_run, write, arg);
}
