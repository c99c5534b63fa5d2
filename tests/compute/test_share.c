/* Tests of shares of a net (compute/share.h) on every backend: several towers in one process, whose memory outside of
 * the plans is one and the same, so that what towers would gather is there already, and whose sums are made here.
 * Together they compute what the whole net computes, and any number of them leaves the same bits. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/init.h"
#include "compute/mixing.h"
#include "compute/share.h"
#include "stage/random.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { SLICES = 4, SLICE_MAX = 4, ROWS = SLICES * SLICE_MAX, PARTS_MAX = 4, STAGES_MAX = 3 };

#ifdef __SANITIZE_THREAD__
enum { NETS = 4 };
#else
enum { NETS = 16 };
#endif

/* ---- nets ---- */

struct draws { struct random_key key; uint64_t next; };

static uint32_t draw(struct draws *draws, uint32_t below)
{
    return (uint32_t)(random_u64(draws->key, draws->next++) % below);
}

/* The layers before the dense layers: none, or a convolution with others after it. Features may be pixels. */
static uint32_t trunk_append(struct net *net, struct draws *draws, uint32_t from)
{
    static const uint32_t filters[] = { 3, 8, 17 };
    const struct window window = window_square(3, 1, PADDING_SAME);
    const uint32_t layers = draw(draws, 5), channels = filters[draw(draws, 3)];
    if (layers > 0)
        from = (uint32_t)net_conv2d(net, "conv1", from, channels, window, true);
    if (layers > 1)
        from = (uint32_t)net_relu(net, "relu1", from);
    if (layers > 1 && draw(draws, 3) == 0)
        net_auxiliary_loss(net, "auxiliary_loss", (uint32_t)net_dense(net, "auxiliary", from, net->classes, true), 0.25f);
    if (layers > 3)
        from = (uint32_t)net_add(net, "sum", from, (uint32_t)net_conv2d(net, "conv2", from, channels, window, false));
    if (layers > 2)
        from = draw(draws, 2) == 0 ? (uint32_t)net_max_pool(net, "pool", from, window_square(2, 2, PADDING_VALID))
                                   : (uint32_t)net_global_average(net, "mean", from);
    return from;
}

/* The dense layer `name`, with or without bias, and what may follow it. */
static uint32_t dense_append(struct net *net, struct draws *draws, const char *name, uint32_t from, uint32_t units,
                             float dropout)
{
    char after[2][32];
    snprintf(after[0], sizeof(after[0]), "%s_relu", name);
    snprintf(after[1], sizeof(after[1]), "%s_dropout", name);
    from = (uint32_t)net_dense(net, name, from, units, draw(draws, 3) > 0);
    if (draw(draws, 4) > 0)
        from = (uint32_t)net_relu(net, after[0], from);
    if (draw(draws, 2) == 0)
        from = (uint32_t)net_dropout(net, after[1], from, dropout);
    return from;
}

/* A net with 1, 2 or 3 dense layers, whose units PARTS_MAX divides. The caller closes it. */
static struct net *net_make(uint32_t seed, float dropout)
{
    struct draws draws = { .key = random_key(seed, RANDOM_DRAW, 1) };
    const struct shape input = { 1 + 2 * draw(&draws, 2), 3 + draw(&draws, 4), 3 + draw(&draws, 4) };
    char name[24];
    snprintf(name, sizeof(name), "head %u", seed);
    struct net *const net = network_net_begin(name, input, PARTS_MAX * (1 + draw(&draws, 4)));
    uint32_t from = trunk_append(net, &draws, NET_INPUT);
    for (uint32_t stage = 0; stage < seed % STAGES_MAX; stage++)
        from = dense_append(net, &draws, stage == 0 ? "fc1" : "fc2", from, PARTS_MAX * (1 + draw(&draws, 9)), dropout);
    from = (uint32_t)net_dense(net, "classes", from, net->classes, draw(&draws, 3) > 0);
    net_softmax_loss(net, "loss", from);
    net_finish(net);
    assert_string_equal(net_error(net), "");
    return net;
}

/* ---- towers ---- */

struct tower {
    struct network network;
    struct net *net;
    struct part_range own;
    struct plan *trunks[SLICES];                        /* NULL: the slice is another tower's, or empty */
    struct plan *stages[STAGES_MAX][PARTS_MAX];         /* by own part */
};

struct setting {
    const char *backend;
    const struct net *net;      /* whole */
    uint32_t parts, towers, threads;
    enum layout layout;
    enum precision precision;
    float smoothing;
    const float *class_weights;
    bool evaluates;
    const float *biases;        /* not NULL: biases of the last dense layer, whose weights are 0: the logits */
    enum graph_use graph;
};

/* Samples first .. first + counts[s] - 1 are slice s, where first is the sum of the counts before. */
struct sliced_batch { struct backend_input input; uint32_t counts[SLICES]; };

struct shares {
    struct setting setting;
    struct sliced_batch batch;
    struct head head;
    struct tower towers[PARTS_MAX];
    /* Memory outside: what stage k reads, and the gradient of that by part; the labels and statistics. */
    float *numbers[STAGES_MAX + 1], *gradients[STAGES_MAX][PARTS_MAX];
    struct mixed_label *labels;
    struct part_stats *stats;
};

/* What a step computes: results of slices, answers of all rows, gradients of the whole net in plain form. */
struct outcome {
    struct backend_result results[SLICES];
    struct answer answers[ROWS];
    float weight_sum;
    float *gradients[NET_PARAMETERS_MAX];
};

static void outcome_release(struct outcome *outcome)
{
    for (uint32_t p = 0; p < NET_PARAMETERS_MAX; p++)
        free(outcome->gradients[p]);
}

static uint32_t slice_first(const struct sliced_batch *batch, uint32_t slice)
{
    uint32_t first = 0;
    for (uint32_t s = 0; s < slice; s++)
        first += batch->counts[s];
    return first;
}

static struct tower *tower_of_slice(struct shares *shares, uint32_t slice)
{
    return &shares->towers[slice / (SLICES / shares->setting.towers)];
}

static struct tower *tower_of_part(struct shares *shares, uint32_t part)
{
    return &shares->towers[part / (shares->setting.parts / shares->setting.towers)];
}

static struct plan *stage_plan(struct shares *shares, uint32_t stage, uint32_t part)
{
    const struct tower *const tower = tower_of_part(shares, part);
    return tower->stages[stage][part - tower->own.first];
}

/* ---- opening ---- */

static struct backend_spec spec_of(const struct setting *setting)
{
    return (struct backend_spec){ .threads = setting->threads, .layout = setting->layout, .local_max = SLICE_MAX,
                                  .precision = setting->precision, .graph = setting->graph, .poison = true,
                                  .label_smoothing = setting->smoothing, .class_weights = setting->class_weights };
}

static struct plan *plan_make(const struct tower *tower, struct plan_spec spec)
{
    struct plan *plan;
    assert_int_equal(tower->network.ops->plan(tower->network.backend, &spec, &plan), 0);
    return plan;
}

/* The plans of a tower, each in a block of its own: those of its slices, of its parts of every stage. */
static void plans_make(struct shares *shares, struct tower *tower)
{
    const bool training = !shares->setting.evaluates;
    uint32_t block = 0;
    for (uint32_t s = 0; s < SLICES; s++)
        if (tower_of_slice(shares, s) == tower && shares->batch.counts[s] > 0)
            tower->trunks[s] = plan_make(tower, (struct plan_spec){ shares->batch.counts[s], training,
                                                                    share_trunk(&shares->head), block++ });
    for (uint32_t k = 0; k < shares->head.stage_count; k++)
        for (uint32_t p = 0; p < tower->own.count; p++)
            tower->stages[k][p] = plan_make(
                tower, (struct plan_spec){ ROWS, training, share_stage(&shares->head, tower->own, k, p), block++ });
    assert_int_equal(tower->network.ops->allocate(tower->network.backend), 0);
}

/* The weights of the whole net. */
static void weights_copy(struct tower *tower, struct network *whole)
{
    const struct net_share *const from = tower->net->share;
    for (uint32_t p = 0; p < tower->net->parameter_count; p++) {
        float *const plain = network_numbers(whole, from->parameters[p]);
        network_write(&tower->network, network_arena(&tower->network, p), p, plain + from->firsts[p]);
        free(plain);
    }
}

static void tower_make(struct shares *shares, uint32_t index, struct network *whole)
{
    const struct setting *const setting = &shares->setting;
    struct tower *const tower = &shares->towers[index];
    tower->own = head_own_parts(setting->parts, setting->towers, index);
    assert_int_equal(share_open(&tower->net, setting->net, &shares->head, tower->own), 0);
    network_open_settings(&tower->network, setting->backend, tower->net, spec_of(setting));
    weights_copy(tower, whole);
    plans_make(shares, tower);
}

static size_t stage_numbers(const struct head *head, uint32_t stage)
{
    return (size_t)ROWS * head->stages[stage].inputs;
}

static void memory_make(struct shares *shares)
{
    struct stream *const stream = shares->towers[0].network.compute;
    for (uint32_t k = 0; k < shares->head.stage_count; k++) {
        shares->numbers[k] = device_memory_make(stream, NULL, stage_numbers(&shares->head, k) * sizeof(float));
        for (uint32_t p = 0; p < shares->setting.parts && shares->head.stages[k].sends_gradient; p++)
            shares->gradients[k][p] = device_memory_make(stream, NULL,
                                                         stage_numbers(&shares->head, k) * sizeof(float));
    }
    shares->labels = device_memory_make(stream, NULL, ROWS * sizeof(*shares->labels));
    shares->stats = device_memory_make(stream, NULL, ROWS * shares->setting.parts * sizeof(*shares->stats));
}

static struct outside *outside_of(struct plan *plan)
{
    return &((struct plan_base *)(void *)plan)->outside;
}

static void plans_connect(struct shares *shares)
{
    const struct head *const head = &shares->head;
    for (uint32_t s = 0; s < SLICES; s++)
        if (shares->batch.counts[s] > 0)
            *outside_of(tower_of_slice(shares, s)->trunks[s]) = (struct outside){
                .sent = shares->numbers[0] + (size_t)s * SLICE_MAX * head->features,
                .labels = shares->labels + s * SLICE_MAX,
            };
    for (uint32_t k = 0; k < head->stage_count; k++)
        for (uint32_t p = 0; p < head->parts; p++) {
            const bool is_last = k + 1 == head->stage_count;
            *outside_of(stage_plan(shares, k, p)) = (struct outside){
                .received = shares->numbers[k], .received_gradient = shares->gradients[k][p],
                .received_parts = k == 0 ? 1 : head->parts,
                .sent = is_last ? NULL : shares->numbers[k + 1] + p * (stage_numbers(head, k + 1) / head->parts),
                .labels = is_last ? shares->labels : NULL, .stats = is_last ? shares->stats : NULL,
                .part = p, .stat_parts = head->parts,
            };
        }
}

static void shares_open(struct shares *shares, const struct setting *setting, const struct sliced_batch *batch,
                        struct network *whole)
{
    struct unsupported_reason reason;
    *shares = (struct shares){ .setting = *setting, .batch = *batch };
    assert_int_equal(head_find(&shares->head, setting->net, setting->parts, &reason), 0);
    for (uint32_t t = 0; t < setting->towers; t++)
        tower_make(shares, t, whole);
    memory_make(shares);
    plans_connect(shares);
}

static void tower_close(struct tower *tower)
{
    for (uint32_t s = 0; s < SLICES; s++)
        tower->network.ops->plan_close(tower->trunks[s]);
    for (uint32_t k = 0; k < STAGES_MAX; k++)
        for (uint32_t p = 0; p < PARTS_MAX; p++)
            tower->network.ops->plan_close(tower->stages[k][p]);
    network_close(&tower->network);
    net_close(tower->net);
}

static void shares_close(struct shares *shares)
{
    struct device *const device = shares->towers[0].network.device;
    for (uint32_t k = 0; k < STAGES_MAX; k++) {
        device->ops->free(device, shares->numbers[k]);
        for (uint32_t p = 0; p < PARTS_MAX; p++)
            device->ops->free(device, shares->gradients[k][p]);
    }
    device->ops->free(device, shares->labels);
    device->ops->free(device, shares->stats);
    for (uint32_t t = 0; t < shares->setting.towers; t++)
        tower_close(&shares->towers[t]);
}

/* ---- a step ---- */

static void wait_all(struct shares *shares)
{
    for (uint32_t t = 0; t < shares->setting.towers; t++)
        device_memory_wait(shares->towers[t].network.compute);
}

/* The rows of a slice from `count` on have no samples. */
static void fill_rows(struct shares *shares, uint32_t slice)
{
    const struct network *const network = &tower_of_slice(shares, slice)->network;
    const size_t features = shares->head.features, first = slice * SLICE_MAX + shares->batch.counts[slice];
    const uint32_t rows = SLICE_MAX - shares->batch.counts[slice];
    assert_int_equal(network->ops->send_nothing(network->backend, shares->numbers[0] + first * features,
                                                rows * features, shares->labels + first, rows),
                     0);
}

static void forward_slice(struct shares *shares, uint32_t slice)
{
    struct tower *const tower = tower_of_slice(shares, slice);
    struct network *const network = &tower->network;
    const struct backend_input *const input = &shares->batch.input;
    const uint32_t first = slice_first(&shares->batch, slice), count = shares->batch.counts[slice];
    const size_t image = shape_count(tower->net->input);
    struct device *const device = network->device;
    struct mix *mixes = NULL;
    if (count == 0)
        return;
    device_memory_write(network->compute, network->pixels, input->pixels + first * image, count * image);
    device_memory_write(network->compute, network->labels, input->labels + first, count * sizeof(*input->labels));
    if (input->mixes != NULL)
        mixes = device_memory_make(network->compute, input->mixes + first, count * sizeof(*mixes));
    const struct backend_input own = { .pixels = network->pixels, .labels = network->labels, .mixes = mixes,
                                       .first_position = input->first_position + first, .epoch = input->epoch };
    assert_int_equal(network->ops->input(tower->trunks[slice], &own), 0);
    assert_int_equal(network->ops->forward(tower->trunks[slice]), 0);
    device_memory_wait(network->compute);
    device->ops->free(device, mixes);
}

static void forward_all(struct shares *shares)
{
    const struct backend_input input = { .first_position = shares->batch.input.first_position,
                                         .epoch = shares->batch.input.epoch };
    for (uint32_t s = 0; s < SLICES; s++) {
        forward_slice(shares, s);
        if (shares->batch.counts[s] < SLICE_MAX)
            fill_rows(shares, s);
    }
    for (uint32_t k = 0; k < shares->head.stage_count; k++) {
        wait_all(shares);
        for (uint32_t p = 0; p < shares->head.parts; p++) {
            const struct backend_ops *const ops = tower_of_part(shares, p)->network.ops;
            assert_int_equal(ops->input(stage_plan(shares, k, p), &input), 0);
            assert_int_equal(ops->forward(stage_plan(shares, k, p)), 0);
        }
    }
    wait_all(shares);
}

/* Adds terms in pairs into the first (stage/pairwise.h). */
static void sum_in_pairs(float *const *terms, uint32_t count, size_t numbers)
{
    for (uint32_t step = 1; step < count; step *= 2)
        for (uint32_t i = 0; i + step < count; i += 2 * step)
            for (size_t n = 0; n < numbers; n++)
                terms[i][n] += terms[i + step][n];
}

/* The gradient of what a stage reads: the sum over parts, to where the stage before, or the trunk, reads it. */
static void sum_gradients(struct shares *shares, uint32_t stage)
{
    const size_t numbers = stage_numbers(&shares->head, stage), bytes = numbers * sizeof(float);
    struct stream *const stream = shares->towers[0].network.compute;
    float *terms[PARTS_MAX] = { NULL };
    for (uint32_t p = 0; p < shares->head.parts; p++) {
        terms[p] = malloc(bytes);
        assert_non_null(terms[p]);
        device_memory_read(stream, terms[p], shares->gradients[stage][p], bytes);
    }
    sum_in_pairs(terms, shares->head.parts, numbers);
    device_memory_write(stream, shares->numbers[stage], terms[0], bytes);
    for (uint32_t p = 0; p < shares->head.parts; p++)
        free(terms[p]);
}

static void ignore_layer(void *arg, uint32_t layer)
{
    (void)arg;
    (void)layer;
}

static void backward_stages(struct shares *shares)
{
    for (uint32_t k = shares->head.stage_count; k-- > 0;) {
        for (uint32_t p = 0; p < shares->head.parts; p++)
            assert_int_equal(
                tower_of_part(shares, p)->network.ops->backward(stage_plan(shares, k, p), ignore_layer, NULL), 0);
        wait_all(shares);
        if (shares->head.stages[k].sends_gradient)
            sum_gradients(shares, k);
    }
}

/* Is it a gradient of the trunk, or of the head? */
static bool is_gradient_of(const struct net *net, uint32_t parameter, bool head)
{
    return parameter_is_updated(&net->parameters[parameter]) && parameter_is_part(net, parameter) == head;
}

/* Reads the gradients of a slice: terms[whole parameter]. */
static void read_trunk(struct tower *tower, float **terms)
{
    for (uint32_t p = 0; p < tower->net->parameter_count; p++)
        if (is_gradient_of(tower->net, p, false))
            terms[tower->net->share->parameters[p]] = network_gradient(&tower->network, p);
}

/* The sum over slices, where an empty one adds zeros. Frees the terms but for the sum. */
static float *sum_slices(const struct shares *shares, uint32_t parameter, float *terms[SLICES][NET_PARAMETERS_MAX])
{
    const size_t count = shares->setting.net->parameters[parameter].count;
    float *slices[SLICES];
    for (uint32_t s = 0; s < SLICES; s++) {
        slices[s] = terms[s][parameter] != NULL ? terms[s][parameter] : calloc(count, sizeof(float));
        assert_non_null(slices[s]);
    }
    sum_in_pairs(slices, SLICES, count);
    for (uint32_t s = 1; s < SLICES; s++)
        free(slices[s]);
    return slices[0];
}

static void backward_trunks(struct shares *shares, struct outcome *outcome)
{
    static float *terms[SLICES][NET_PARAMETERS_MAX];
    memset(terms, 0, sizeof(terms));
    for (uint32_t s = 0; s < SLICES; s++) {
        struct tower *const tower = tower_of_slice(shares, s);
        if (tower->trunks[s] == NULL)
            continue;
        assert_int_equal(tower->network.ops->backward(tower->trunks[s], ignore_layer, NULL), 0);
        device_memory_wait(tower->network.compute);
        read_trunk(tower, terms[s]);
    }
    for (uint32_t p = 0; p < shares->setting.net->parameter_count; p++)
        if (terms[0][p] != NULL)
            outcome->gradients[p] = sum_slices(shares, p, terms);
}

/* Puts a tower's parts of the gradients of the head where they are in those of the whole net. */
static void read_head(const struct net *whole, struct tower *tower, struct outcome *outcome)
{
    const struct net_share *const from = tower->net->share;
    for (uint32_t p = 0; p < tower->net->parameter_count; p++) {
        const uint32_t of = from->parameters[p];
        if (!is_gradient_of(tower->net, p, true))
            continue;
        if (outcome->gradients[of] == NULL)
            outcome->gradients[of] = calloc(whole->parameters[of].count, sizeof(float));
        assert_non_null(outcome->gradients[of]);
        float *const part = network_gradient(&tower->network, p);
        memcpy(outcome->gradients[of] + from->firsts[p], part, tower->net->parameters[p].count * sizeof(*part));
        free(part);
    }
}

/* The auxiliary losses of a slice, which are computed with the trunk. */
static double trunk_loss(struct shares *shares, uint32_t slice)
{
    struct tower *const tower = tower_of_slice(shares, slice);
    bool has_loss = false;
    for (uint32_t i = 0; i < shares->head.first; i++)
        has_loss = has_loss || shares->setting.net->layers[i].kind == LAYER_AUXILIARY_LOSS;
    if (!has_loss || shares->setting.evaluates || tower->trunks[slice] == NULL)
        return 0;
    assert_int_equal(tower->network.ops->result(tower->trunks[slice], tower->network.result), 0);
    device_memory_wait(tower->network.compute);
    return tower->network.result->loss_sum;
}

/* The results of each slice, from a plan of the tower that has the slice. */
static void read_results(struct shares *shares, struct outcome *outcome)
{
    for (uint32_t s = 0; s < SLICES; s++) {
        struct tower *const tower = tower_of_slice(shares, s);
        struct network *const network = &tower->network;
        struct plan *const plan = tower->stages[shares->head.stage_count - 1][0];
        void *answers;
        assert_int_equal(
            network->device->ops->alloc_pinned(network->device, SLICE_MAX * sizeof(struct answer), &answers), 0);
        assert_int_equal(network->ops->part_result(plan, s * SLICE_MAX, shares->batch.counts[s], network->result), 0);
        assert_int_equal(network->ops->part_answers(plan, s * SLICE_MAX, SLICE_MAX, answers), 0);
        device_memory_wait(network->compute);
        outcome->results[s] = *network->result;
        outcome->results[s].loss_sum += trunk_loss(shares, s);
        memcpy(outcome->answers + s * SLICE_MAX, answers, SLICE_MAX * sizeof(struct answer));
        network->device->ops->free_pinned(network->device, answers);
        if (shares->setting.class_weights == NULL || shares->setting.evaluates)
            continue;
        float sum;
        assert_int_equal(network->ops->part_weigh(plan, s * SLICE_MAX, shares->batch.counts[s]), 0);
        device_memory_read(network->compute, &sum, network->gradients, sizeof(sum));
        outcome->weight_sum += sum;
    }
}

static void shares_run(struct shares *shares, struct outcome *outcome)
{
    *outcome = (struct outcome){ .weight_sum = 0 };
    forward_all(shares);
    read_results(shares, outcome);
    if (shares->setting.evaluates)
        return;
    backward_stages(shares);
    backward_trunks(shares, outcome);
    for (uint32_t t = 0; t < shares->setting.towers; t++)
        read_head(shares->setting.net, &shares->towers[t], outcome);
}

/* ---- the whole net on the reference backend ---- */

static void last_layer_set(struct network *whole, const float *biases)
{
    const struct layer *const last = &whole->net->layers[whole->net->layer_count - 2];
    const uint32_t weight = last->parameters[PARAMETER_WEIGHT], bias = last->parameters[PARAMETER_BIAS];
    float *const zeros = calloc(whole->net->parameters[weight].count, sizeof(*zeros));
    assert_non_null(zeros);
    network_write(whole, whole->weights, weight, zeros);
    network_write(whole, whole->weights, bias, biases);
    free(zeros);
}

/* Open the net that everything is compared with; all weights come from it. */
static void whole_open(struct network *whole, const struct setting *setting)
{
    struct backend_spec spec = spec_of(setting);
    spec.local_max = ROWS;
    spec.layout = LAYOUT_AUTO;
    spec.precision = PRECISION_FP32;
    network_open_settings(whole, "reference", setting->net, spec);
    network_draw_weights(whole, 5);
    if (setting->biases != NULL)
        last_layer_set(whole, setting->biases);
}

static uint32_t count_of(const struct sliced_batch *batch)
{
    return slice_first(batch, SLICES);
}

/* One result, in results[0]; answers of row 0 on. */
static void whole_run(struct network *whole, const struct setting *setting, const struct sliced_batch *batch,
                      struct outcome *outcome)
{
    struct plan *const plan = network_plan(whole, count_of(batch), !setting->evaluates);
    *outcome = (struct outcome){ .weight_sum = 0 };
    assert_int_equal(whole->ops->input(plan, &batch->input), 0);
    assert_int_equal(whole->ops->forward(plan), 0);
    assert_int_equal(whole->ops->result(plan, &outcome->results[0]), 0);
    if (setting->evaluates) {
        assert_int_equal(whole->ops->answers(plan, outcome->answers), 0);
        device_memory_wait(whole->compute);
        return;
    }
    if (setting->class_weights != NULL)
        device_memory_read(whole->compute, &outcome->weight_sum, whole->gradients, sizeof(outcome->weight_sum));
    assert_int_equal(whole->ops->backward(plan, ignore_layer, NULL), 0);
    for (uint32_t p = 0; p < whole->net->parameter_count; p++)
        if (parameter_is_updated(&whole->net->parameters[p]))
            outcome->gradients[p] = network_gradient(whole, p);
}

/* ---- comparing ---- */

/* The loss and number of correct answers of all slices. */
static struct backend_result result_sum(const struct outcome *outcome)
{
    struct backend_result sum = { .loss_sum = 0 };
    for (uint32_t s = 0; s < SLICES; s++) {
        sum.loss_sum += outcome->results[s].loss_sum;
        sum.correct += outcome->results[s].correct;
        sum.counted += outcome->results[s].counted;
        sum.weight_sum += outcome->results[s].weight_sum;
    }
    return sum;
}

static void assert_near(const struct network *whole, const struct outcome *outcome, const struct outcome *expected)
{
    const struct backend_result sum = result_sum(outcome);
    network_assert_same_result(sum, expected->results[0]);
    assert_true(fabs(sum.weight_sum - expected->results[0].weight_sum) <= 1e-5 * sum.weight_sum);
    assert_true(fabsf(outcome->weight_sum - expected->weight_sum) <= 1e-5f * expected->weight_sum);
    for (uint32_t p = 0; p < whole->net->parameter_count; p++) {
        assert_int_equal(outcome->gradients[p] == NULL, expected->gradients[p] == NULL);
        if (expected->gradients[p] != NULL)
            network_assert_near(whole, p, outcome->gradients[p], expected->gradients[p], 1e-4);
    }
}

static void assert_answers(const struct shares *shares, const struct outcome *outcome, const struct outcome *expected)
{
    uint32_t sample = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        const bool is_filled = row % SLICE_MAX >= shares->batch.counts[row / SLICE_MAX];
        const struct answer *const answer = &outcome->answers[row];
        if (is_filled) {
            assert_int_equal(answer->label, BATCH_NO_LABEL);
            continue;
        }
        assert_int_equal(answer->label, expected->answers[sample].label);
        assert_int_equal(answer->predicted, expected->answers[sample].predicted);
        sample++;
    }
}

static void assert_same_result(const struct backend_result *a, const struct backend_result *b)
{
    assert_memory_equal(&a->loss_sum, &b->loss_sum, sizeof(a->loss_sum));
    assert_memory_equal(&a->weight_sum, &b->weight_sum, sizeof(a->weight_sum));
    assert_int_equal(a->correct, b->correct);
    assert_int_equal(a->counted, b->counted);
}

static void assert_same_bits(const struct net *net, const struct outcome *a, const struct outcome *b)
{
    for (uint32_t s = 0; s < SLICES; s++)
        assert_same_result(&a->results[s], &b->results[s]);
    assert_memory_equal(a->answers, b->answers, sizeof(a->answers));
    assert_memory_equal(&a->weight_sum, &b->weight_sum, sizeof(a->weight_sum));
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (a->gradients[p] != NULL)
            assert_memory_equal(a->gradients[p], b->gradients[p], net->parameters[p].count * sizeof(float));
}

static bool computes_shares(const char *backend)
{
    if (backend_find(backend)->part_result != NULL)
        return true;
    print_message("backend %s does not compute shares\n", backend);
    return false;
}

/* Simulated devices are slow, and check a quarter of the nets. */
static uint32_t nets_of(const char *backend, uint32_t nets)
{
    return backend_find(backend)->host_memory ? nets : (nets + 3) / 4;
}

/* Compares 1, 2, .. `parts` towers with each other, bit for bit, and, unless `expected` is NULL, with the whole net. */
static void check_towers(struct setting setting, const struct sliced_batch *batch, struct network *whole,
                         const struct outcome *expected)
{
    struct outcome first, other;
    struct shares shares;
    for (setting.towers = 1; setting.towers <= setting.parts; setting.towers *= 2) {
        struct outcome *const outcome = setting.towers == 1 ? &first : &other;
        shares_open(&shares, &setting, batch, whole);
        shares_run(&shares, outcome);
        if (setting.towers == 1 && expected != NULL)
            assert_near(whole, &first, expected);
        if (setting.towers == 1 && expected != NULL && setting.evaluates)
            assert_answers(&shares, &first, expected);
        if (setting.towers > 1) {
            assert_same_bits(setting.net, &first, &other);
            outcome_release(&other);
        }
        shares_close(&shares);
    }
    outcome_release(&first);
}

static void check_parts(struct setting setting, const struct sliced_batch *batch)
{
    struct network whole;
    struct outcome expected;
    whole_open(&whole, &setting);
    whole_run(&whole, &setting, batch, &expected);
    for (setting.parts = 1; setting.parts <= PARTS_MAX; setting.parts *= 2)
        check_towers(setting, batch, &whole, &expected);
    outcome_release(&expected);
    network_close(&whole);
}

static struct sliced_batch batch_make(const struct net *net, const uint32_t *counts, uint64_t seed)
{
    struct sliced_batch batch = { .input = network_input(net, ROWS, seed) };
    memcpy(batch.counts, counts, sizeof(batch.counts));
    return batch;
}

/* Of a last batch: slices that are not full, or empty. */
static const uint32_t counts[][SLICES] = {
    { 4, 4, 4, 4 }, { 4, 3, 2, 1 }, { 4, 4, 3, 0 }, { 1, 0, 0, 0 }, { 3, 3, 3, 3 },
};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

/* ---- against the whole net, and towers against each other ---- */

static const enum layout layouts[] = { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_NCHW };        /* of oneDNN */

/* Checks nets drawn from the seeds from `first` on, with what the setting says. */
static void check_nets(struct setting setting, uint32_t first, uint32_t nets,
                       void (*change)(struct sliced_batch *batch))
{
    if (!computes_shares(setting.backend))
        return;
    for (uint32_t seed = first; seed < first + nets_of(setting.backend, nets); seed++) {
        struct net *const net = net_make(seed, 0);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        setting.net = net;
        if (strcmp(setting.backend, "onednn") == 0)
            setting.layout = layouts[seed % 3];
        if (change != NULL)
            change(&batch);
        check_parts(setting, &batch);
        network_input_release(&batch.input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(shares_compute_what_the_whole_net_computes)
{
    check_nets((struct setting){ .backend = backend }, 0, NETS, NULL);
}

TEST_ON_EACH_BACKEND(shares_evaluate_as_the_whole_net_does)
{
    check_nets((struct setting){ .backend = backend, .evaluates = true }, 100, NETS / 2, NULL);
}

TEST_ON_EACH_BACKEND(an_evaluation_has_no_label_smoothing_and_no_class_weights)
{
    static const float weights[PARTS_MAX * 4] = { 0, 3 };
    check_nets((struct setting){ .backend = backend, .evaluates = true, .smoothing = 0.25f, .class_weights = weights },
               110, 3, NULL);
}

TEST_ON_EACH_BACKEND(labels_are_smoothed_over_all_parts)
{
    check_nets((struct setting){ .backend = backend, .smoothing = 0.1f }, 200, NETS / 4, NULL);
}

TEST_ON_EACH_BACKEND(class_weights_are_those_of_the_whole_net)
{
    static const float weights[PARTS_MAX * 4] = { 0.25f, 3, 0, 1.5f, 1, 2, 0.5f, 1, 1, 0, 4, 0.125f, 1, 1, 1, 2 };
    struct setting setting = { .backend = backend, .class_weights = weights };
    check_nets(setting, 300, NETS / 4, NULL);
    setting.smoothing = 0.3f;
    check_nets(setting, 310, NETS / 4, NULL);
}

static void mix_samples(struct sliced_batch *batch)
{
    static struct mix mixes[ROWS];
    for (uint32_t n = 0; n < ROWS; n++)
        mixes[n] = (struct mix){ .share = n < 2 ? 1 : 0.0625f * (float)n };
    mixes[5] = (struct mix){ 0.75f, 0, 0, 1, 2 };
    batch->input.mixes = mixes;
    memcpy(batch->counts, counts[2], sizeof(batch->counts));    /* partners are in the same slice */
}

TEST_ON_EACH_BACKEND(labels_of_mixed_samples_may_be_in_two_parts)
{
    static const float weights[PARTS_MAX * 4] = { 0.25f, 3, 0, 1.5f, 1, 2, 0.5f, 1, 1, 0, 4, 0.125f, 1, 1, 1, 2 };
    struct setting setting = { .backend = backend };
    check_nets(setting, 400, 3, mix_samples);
    setting.smoothing = 0.2f;
    setting.class_weights = weights;
    check_nets(setting, 410, 3, mix_samples);
}

static void take_labels(struct sliced_batch *batch)
{
    for (uint32_t n = 0; n < ROWS; n += 3)
        ((int32_t *)(uintptr_t)batch->input.labels)[n] = BATCH_NO_LABEL;
}

TEST_ON_EACH_BACKEND(samples_without_a_label_count_for_nothing)
{
    check_nets((struct setting){ .backend = backend, .smoothing = 0.1f }, 500, 5, take_labels);
    check_nets((struct setting){ .backend = backend, .evaluates = true }, 510, 5, take_labels);
}

TEST_ON_EACH_BACKEND(towers_may_have_several_threads)
{
    check_nets((struct setting){ .backend = backend, .threads = 2 }, 600, 5, NULL);
}

/* Rounding of values, by precision, is the same in any number of towers. */
static void check_precision(const char *backend, enum precision precision)
{
    static const double tolerances[PRECISION_FP16] = { 1e-5, 1e-2, 5e-2 };
    for (uint32_t seed = 651; seed < 651 + nets_of(backend, 6); seed++) {
        struct net *const net = net_make(seed, 0);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        struct setting setting = { .backend = backend, .net = net, .parts = PARTS_MAX, .towers = 2,
                                   .precision = precision };
        struct network whole;
        struct shares shares;
        struct outcome outcome, expected;
        whole_open(&whole, &setting);
        whole_run(&whole, &setting, &batch, &expected);
        shares_open(&shares, &setting, &batch, &whole);
        shares_run(&shares, &outcome);
        const double loss = result_sum(&outcome).loss_sum, exact = expected.results[0].loss_sum;
        assert_true(fabs(loss - exact) <= tolerances[precision] * exact);
        shares_close(&shares);
        outcome_release(&outcome);
        outcome_release(&expected);
        check_towers(setting, &batch, &whole, NULL);
        network_close(&whole);
        network_input_release(&batch.input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(every_precision_gives_the_same_bits_in_any_number_of_towers)
{
    if (!computes_shares(backend))
        return;
    /* fp16 is refused with parts. */
    for (enum precision precision = PRECISION_FP32; precision < PRECISION_FP16; precision++) {
        struct unsupported_reason reason;
        const struct backend_spec spec = { .precision = precision };
        if (backend_find(backend)->supports(&spec, &reason) == 0)
            check_precision(backend, precision);
    }
}

/* ---- what is drawn, frozen, or broken ---- */

TEST_ON_EACH_BACKEND(dropout_does_not_depend_on_the_number_of_towers)
{
    if (!computes_shares(backend))
        return;
    for (uint32_t seed = 701; seed < 701 + nets_of(backend, 8); seed++) {
        struct net *const net = net_make(seed, 0.4f);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        const struct setting setting = { .backend = backend, .net = net, .parts = PARTS_MAX };
        struct network whole;
        whole_open(&whole, &setting);
        check_towers(setting, &batch, &whole, NULL);
        network_close(&whole);
        network_input_release(&batch.input);
        net_close(net);
    }
}

/* With one segment for each plan. */
static void shares_record(struct shares *shares)
{
    for (uint32_t t = 0; t < shares->setting.towers; t++) {
        const struct network *const network = &shares->towers[t].network;
        bool *const ends = calloc(network->net->layer_count, sizeof(*ends));
        assert_non_null(ends);
        assert_int_equal(network->ops->segment(network->backend, ends), 0);
        free(ends);
    }
}

static void check_recorded(struct setting setting, const struct sliced_batch *batch)
{
    struct network whole;
    struct shares shares;
    struct outcome outcomes[3];
    whole_open(&whole, &setting);
    shares_open(&shares, &setting, batch, &whole);
    shares_run(&shares, &outcomes[0]);
    shares_close(&shares);
    setting.graph = GRAPH_ON;
    shares_open(&shares, &setting, batch, &whole);
    shares_record(&shares);
    for (int step = 1; step <= 2; step++) {
        shares_run(&shares, &outcomes[step]);
        assert_same_bits(setting.net, &outcomes[0], &outcomes[step]);
    }
    shares_close(&shares);
    for (int step = 0; step <= 2; step++)
        outcome_release(&outcomes[step]);
    network_close(&whole);
}

TEST_ON_EACH_BACKEND(recorded_steps_leave_the_same_bits)
{
    if (!computes_shares(backend) || backend_find(backend)->segment == NULL)
        return;
    for (uint32_t seed = 750; seed < 753; seed++) {
        struct net *const net = net_make(seed, 0.3f);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        const struct setting setting = { .backend = backend, .net = net, .parts = PARTS_MAX, .towers = 2,
                                         .graph = GRAPH_OFF };
        check_recorded(setting, &batch);
        network_input_release(&batch.input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(a_frozen_trunk_gets_no_gradients)
{
    if (!computes_shares(backend))
        return;
    for (uint32_t seed = 800; seed < 800 + nets_of(backend, 6); seed++) {
        struct net *const net = net_make(seed, 0);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        struct head head;
        assert_int_equal(head_find(&head, net, 1, &(struct unsupported_reason){ 0 }), 0);
        for (uint32_t p = 0; p < net->parameter_count; p++)
            if (net->parameters[p].layer < head.first)
                net_freeze(net, p);
        check_parts((struct setting){ .backend = backend, .net = net }, &batch);
        assert_int_equal(head_find(&head, net, 1, &(struct unsupported_reason){ 0 }), 0);
        assert_false(head.stages[0].sends_gradient);
        network_input_release(&batch.input);
        net_close(net);
    }
}

/* Frozen: every second parameter, or all but those of the last layer, or all but the first. */
static bool is_frozen(const struct net *net, uint32_t parameter, uint32_t seed)
{
    const uint32_t last = net->layer_count - 2;
    return seed % 3 == 0   ? parameter % 2 == seed / 3 % 2 && parameter > 0
           : seed % 3 == 1 ? net->parameters[parameter].layer < last
                           : parameter > 0;
}

TEST_ON_EACH_BACKEND(parameters_of_the_head_may_be_frozen)
{
    if (!computes_shares(backend))
        return;
    for (uint32_t seed = 820; seed < 820 + 3 * nets_of(backend, 4); seed++) {
        struct net *const net = net_make(seed, 0);
        struct sliced_batch batch = batch_make(net, counts[seed % COUNTS], seed);
        for (uint32_t p = 0; p < net->parameter_count; p++)
            if (is_frozen(net, p, seed))
                net_freeze(net, p);
        check_parts((struct setting){ .backend = backend, .net = net }, &batch);
        network_input_release(&batch.input);
        net_close(net);
    }
}

/* ---- given logits ---- */

/* The caller frees the logits. */
static float *logits_make(uint32_t classes)
{
    float *const logits = malloc(classes * sizeof(*logits));
    assert_non_null(logits);
    for (uint32_t c = 0; c < classes; c++)
        logits[c] = 6 * test_uniform(random_key(5, RANDOM_DRAW, 9), c) - 3;
    return logits;
}

/* A net whose logits are the biases. */
static struct net *bias_net(uint32_t classes)
{
    return network_net_end(network_net_begin("biases", (struct shape){ 3, 2, 2 }, classes), NET_INPUT);
}

static const float *many_weights(uint32_t classes)
{
    static float weights[8192];
    for (uint32_t c = 0; c < classes; c++)
        weights[c] = c % 7 == 3 ? 0 : 0.25f * (float)(c % 11);
    return weights;
}

/* Each part has many classes, but not a multiple of a vector's length. Several logits are the largest; the first of
 * them is the answer. */
TEST_ON_EACH_BACKEND(many_classes_are_searched_for_the_first_largest)
{
    enum { CLASSES = 4 * 1303 };
    static const uint32_t largest[] = { 0, 511, 512, 1302, 1303, 3000, CLASSES - 1 };
    if (!computes_shares(backend))
        return;
    struct net *const net = bias_net(CLASSES);
    for (uint32_t i = 0; i < nets_of(backend, sizeof(largest) / sizeof(largest[0])); i++) {
        struct sliced_batch batch = batch_make(net, counts[i % COUNTS], i);
        struct setting setting = { .backend = backend, .net = net, .evaluates = i % 2 == 0,
                                   .biases = logits_make(CLASSES), .smoothing = i % 3 == 0 ? 0 : 0.1f,
                                   .class_weights = i < 5 ? NULL : many_weights(CLASSES) };
        float *const logits = (float *)(uintptr_t)setting.biases;
        for (uint32_t k = i; k < sizeof(largest) / sizeof(largest[0]); k++)
            logits[largest[k]] = 4.5f;
        ((int32_t *)(uintptr_t)batch.input.labels)[0] = (int32_t)largest[i];
        check_parts(setting, &batch);
        free(logits);
        network_input_release(&batch.input);
    }
    net_close(net);
}

/* Logits that are all -inf in one part rule its classes out. */
TEST_ON_EACH_BACKEND(a_part_may_have_no_finite_logit)
{
    enum { CLASSES = 20 };
    if (!computes_shares(backend))
        return;
    struct net *const net = bias_net(CLASSES);
    struct sliced_batch batch = batch_make(net, counts[1], 3);
    float *const logits = logits_make(CLASSES);
    for (uint32_t c = 5; c < 10; c++)
        logits[c] = -INFINITY;
    for (uint32_t n = 0; n < ROWS; n++)
        ((int32_t *)(uintptr_t)batch.input.labels)[n] = (int32_t)(10 + n % 10);
    check_parts((struct setting){ .backend = backend, .net = net, .biases = logits }, &batch);
    free(logits);
    network_input_release(&batch.input);
    net_close(net);
}

/* One sample, so that the gradient of the biases is that of its logits. */
TEST_ON_EACH_BACKEND(threads_change_no_bits_of_the_loss)
{
    enum { CLASSES = 4 * 203 };
    if (!computes_shares(backend))
        return;
    struct net *const net = bias_net(CLASSES);
    for (uint32_t i = 0; i < 2; i++) {
        struct sliced_batch batch = batch_make(net, counts[i == 0 ? 3 : 1], 4);
        struct setting setting = { .backend = backend, .net = net, .parts = PARTS_MAX, .towers = 2, .smoothing = 0.1f,
                                   .biases = logits_make(CLASSES) };
        const uint32_t bias = net->layers[net->layer_count - 2].parameters[PARAMETER_BIAS];
        struct network whole;
        struct outcome outcomes[3];
        whole_open(&whole, &setting);
        for (setting.threads = 1; setting.threads <= 3; setting.threads++) {
            struct outcome *const outcome = &outcomes[setting.threads - 1];
            struct shares shares;
            shares_open(&shares, &setting, &batch, &whole);
            shares_run(&shares, outcome);
            shares_close(&shares);
            for (uint32_t s = 0; s < SLICES; s++)
                assert_same_result(&outcome->results[s], &outcomes[0].results[s]);
            assert_memory_equal(outcome->answers, outcomes[0].answers, sizeof(outcome->answers));
            if (i == 0)
                assert_memory_equal(outcome->gradients[bias], outcomes[0].gradients[bias], CLASSES * sizeof(float));
        }
        for (uint32_t t = 0; t < 3; t++)
            outcome_release(&outcomes[t]);
        free((float *)(uintptr_t)setting.biases);
        network_close(&whole);
        network_input_release(&batch.input);
    }
    net_close(net);
}

/* A logit that is not finite, in the third of four parts, is the answer, and no loss and no gradient of the last layer
 * is finite. */
static void check_broken(const char *backend, float value)
{
    enum { CLASSES = 20 };
    struct net *const net = bias_net(CLASSES);
    struct sliced_batch batch = batch_make(net, counts[1], 900);
    float *const logits = logits_make(CLASSES);
    const struct setting setting = { .backend = backend, .net = net, .parts = PARTS_MAX, .towers = 2,
                                     .biases = logits };
    const uint32_t bias = net->layers[net->layer_count - 2].parameters[PARAMETER_BIAS];
    struct network whole;
    struct shares shares;
    struct outcome outcome;
    logits[CLASSES / 2] = value;
    whole_open(&whole, &setting);
    shares_open(&shares, &setting, &batch, &whole);
    shares_run(&shares, &outcome);
    assert_true(isnan(result_sum(&outcome).loss_sum));
    assert_int_equal(result_sum(&outcome).counted, count_of(&batch));
    for (uint32_t row = 0; row < ROWS; row++)
        assert_int_equal(outcome.answers[row].predicted, CLASSES / 2);
    for (size_t c = 0; c < CLASSES; c++)
        assert_true(isnan(outcome.gradients[bias][c]));
    shares_close(&shares);
    outcome_release(&outcome);
    network_close(&whole);
    network_input_release(&batch.input);
    free(logits);
    net_close(net);
}

TEST_ON_EACH_BACKEND(a_logit_that_is_not_finite_is_not_hidden)
{
    if (!computes_shares(backend))
        return;
    check_broken(backend, NAN);
    check_broken(backend, INFINITY);
}

/* ---- heads and shares ---- */

TEST(parts_are_a_subtree_of_the_sums)
{
    static const struct { uint32_t parts, towers; bool fit; } rows[] = {
        { 1, 1, true }, { 4, 1, true }, { 4, 2, true }, { 4, 4, true }, { 4, 3, false }, { 4, 8, false },
        { 12, 3, true }, { 12, 4, false }, { 12, 6, true }, { 12, 12, true }, { 64, 64, true },
        { 6, 2, false }, { 6, 3, true },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(head_parts_fit(rows[i].parts, rows[i].towers), rows[i].fit);
    for (uint32_t t = 0; t < 3; t++) {
        const struct part_range own = head_own_parts(12, 3, t);
        assert_int_equal(own.first, 4 * t);
        assert_int_equal(own.count, 4);
    }
}

static struct net *alexnet_like(void)
{
    struct net *const net = network_net_begin("alexnet", (struct shape){ 3, 6, 6 }, 20);
    uint32_t from = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 4, window_square(3, 1, PADDING_SAME), true);
    from = (uint32_t)net_relu(net, "relu", from);
    from = (uint32_t)net_dropout(net, "before", from, 0.5f);
    from = (uint32_t)net_dense(net, "fc6", from, 12, true);
    from = (uint32_t)net_relu(net, "relu6", from);
    from = (uint32_t)net_dropout(net, "drop6", from, 0.5f);
    from = (uint32_t)net_dense(net, "fc7", from, 8, false);
    return network_net_end(net, net_relu(net, "relu7", from));
}

TEST(the_head_begins_with_a_dense_layer)
{
    struct net *const net = alexnet_like();
    struct unsupported_reason reason;
    struct head head;
    assert_int_equal(head_find(&head, net, 4, &reason), 0);
    static const struct head_stage stages[] = { { 3, 6, 144, 12, true }, { 6, 8, 12, 8, true }, { 8, 9, 8, 20, true } };
    assert_int_equal(head.parts, 4);
    assert_int_equal(head.first, 3);
    assert_int_equal(head.features, 144);
    assert_int_equal(head.stage_count, 3);
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(head.stages[k].first, stages[k].first);
        assert_int_equal(head.stages[k].end, stages[k].end);
        assert_int_equal(head.stages[k].inputs, stages[k].inputs);
        assert_int_equal(head.stages[k].units, stages[k].units);
        assert_int_equal(head.stages[k].sends_gradient, stages[k].sends_gradient);
    }
    net_close(net);
}

static void assert_refused(const struct net *net, uint32_t parts, const char *why)
{
    struct unsupported_reason reason;
    struct head head;
    assert_int_equal(head_find(&head, net, parts, &reason), -EINVAL);
    assert_string_equal(reason.what, "parts");
    assert_string_equal(reason.why, why);
}

TEST(what_cannot_be_divided_is_refused_in_words)
{
    struct net *net = alexnet_like();
    assert_refused(net, 0, "0 is not from 1 to 64");
    assert_refused(net, 65, "65 is not from 1 to 64");
    assert_refused(net, 8, "layer 'fc6' has 12 units, which 8 parts do not divide");
    assert_refused(net, 12, "layer 'fc7' has 8 units, which 12 parts do not divide");
    net_close(net);
    net = network_net_begin("convolution", (struct shape){ 3, 6, 6 }, 20);
    const int64_t conv = net_conv2d(net, "conv", NET_INPUT, 20, window_square(3, 1, PADDING_SAME), true);
    net_softmax_loss(net, "loss", (uint32_t)net_global_average(net, "mean", (uint32_t)conv));
    net_finish(net);
    assert_string_equal(net_error(net), "");
    assert_refused(net, 4, "the network does not end in a dense layer, so there is nothing to divide");
    net_close(net);
    net = network_net_begin("deep", (struct shape){ 1, 1, 2 }, 4);
    uint32_t from = NET_INPUT;
    for (uint32_t i = 0; i < HEAD_STAGES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "fc%u", i);
        from = (uint32_t)net_dense(net, name, from, 4, true);
    }
    network_net_end(net, from);
    assert_refused(net, 2, "more than 16 dense layers at the end of the network");
    net_close(net);
}

/* A layer that is read twice, or something else in between, ends the head. */
TEST(a_value_with_two_readers_is_of_the_trunk)
{
    struct net *const net = network_net_begin("branches", (struct shape){ 3, 6, 6 }, 20);
    const uint32_t fc1 = (uint32_t)net_dense(net, "fc1", NET_INPUT, 12, true);
    const uint32_t fc2 = (uint32_t)net_dense(net, "fc2", fc1, 12, true);
    network_net_end(net, net_add(net, "sum", fc1, fc2));
    struct unsupported_reason reason;
    struct head head;
    assert_int_equal(head_find(&head, net, 4, &reason), 0);
    assert_int_equal(head.first, 3);
    assert_int_equal(head.stage_count, 1);
    net_close(net);
}

static void assert_kinds(const struct net *share, struct layer_range range, const enum layer_kind *kinds)
{
    for (uint32_t i = range.first; i < range.end; i++)
        assert_int_equal(share->layers[i].kind, kinds[i - range.first]);
}

/* Each layer of the ranges, the second of two towers. */
TEST(a_share_has_a_range_of_layers_for_the_trunk_and_for_each_own_part)
{
    static const enum layer_kind trunk[] = { LAYER_CONV2D, LAYER_RELU, LAYER_DROPOUT, LAYER_SEND };
    static const enum layer_kind kinds[][5] = {
        { LAYER_RECEIVE, LAYER_DENSE, LAYER_RELU, LAYER_DROPOUT, LAYER_SEND },
        { LAYER_RECEIVE, LAYER_DENSE, LAYER_RELU, LAYER_SEND },
        { LAYER_RECEIVE, LAYER_DENSE, LAYER_PART_LOSS },
    };
    static const uint32_t lengths[] = { 5, 4, 3 };
    struct net *const net = alexnet_like(), *share;
    const struct part_range own = head_own_parts(4, 2, 1);
    struct head head;
    assert_int_equal(head_find(&head, net, 4, &(struct unsupported_reason){ 0 }), 0);
    assert_int_equal(share_open(&share, net, &head, own), 0);
    const struct layer_range first = share_trunk(&head);
    assert_int_equal(first.first, 0);
    assert_int_equal(first.end, 4);
    assert_kinds(share, first, trunk);
    uint32_t next = first.end;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t p = 0; p < 2; p++) {
            const struct layer_range range = share_stage(&head, own, k, p);
            assert_int_equal(range.first, next);
            assert_int_equal(range.end - range.first, lengths[k]);
            assert_kinds(share, range, kinds[k]);
            assert_int_equal(share->layers[range.first].out.channels, head.stages[k].inputs);
            assert_int_equal(share->layers[range.first + 1].out.channels, head.stages[k].units / 4);
            assert_int_equal(share->share->layers[range.first + 1], head.stages[k].first);
            assert_int_equal(share->share->parts[range.first + 1], 2 + p);
            next = range.end;
        }
    assert_int_equal(share->layer_count, next);
    net_close(share);
    net_close(net);
}

/* The weights of a dense layer are rows, so a part of its units is a range of numbers. */
static void check_parameter(const struct net *share, const struct net *whole, uint32_t p)
{
    const struct net_share *const from = share->share;
    const struct parameter *const own = &share->parameters[p], *const of = &whole->parameters[from->parameters[p]];
    const size_t bytes = of->count * sizeof(float);
    float *const all = malloc(bytes), *const part = malloc(own->count * sizeof(float));
    assert_true(all != NULL && part != NULL);
    assert_string_equal(own->name, of->name);
    assert_int_equal(own->rank, of->rank);
    assert_int_equal(own->fan_in, of->fan_in);
    assert_int_equal(own->fan_out, of->fan_out);
    assert_int_equal(own->decays, of->decays);
    assert_int_equal(own->count * (from->is_part[p] ? 4 : 1), of->count);
    assert_int_equal(own->dims[0] * (from->is_part[p] ? 4 : 1), of->dims[0]);
    assert_int_equal(from->firsts[p], from->is_part[p] ? from->parts[own->layer] * own->count : 0);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        init_parameter(whole, from->parameters[p], 7, 1, all);
        init_parameter(share, p, 7, threads, part);
        assert_memory_equal(part, all + from->firsts[p], own->count * sizeof(float));
    }
    free(all);
    free(part);
}

TEST(parameters_of_a_share_are_rows_of_those_of_the_whole_net)
{
    static const struct initializer initializers[] = {
        { INITIALIZER_GLOROT_UNIFORM, 0 }, { INITIALIZER_NORMAL, 0.5f }, { INITIALIZER_TRUNCATED_NORMAL, 0.5f },
        { INITIALIZER_UNIFORM, 0.25f }, { INITIALIZER_CONSTANT, 2 },
    };
    for (size_t i = 0; i < sizeof(initializers) / sizeof(initializers[0]); i++) {
        struct net *const net = alexnet_like();
        size_t trained = 0;
        net->parameters[net->layers[3].parameters[PARAMETER_WEIGHT]].initializer = initializers[i];
        struct head head;
        assert_int_equal(head_find(&head, net, 4, &(struct unsupported_reason){ 0 }), 0);
        for (uint32_t t = 0; t < 2; t++) {
            struct net *share;
            assert_int_equal(share_open(&share, net, &head, head_own_parts(4, 2, t)), 0);
            assert_int_equal(share->parameter_count, 2 + 2 * 5);
            for (uint32_t p = 0; p < share->parameter_count; p++) {
                check_parameter(share, net, p);
                trained += parameter_is_part(share, p) ? share->parameters[p].count : 0;
            }
            net_close(share);
        }
        assert_int_equal(trained, net->trainable_count - net->parameters[0].count - net->parameters[1].count);
        net_close(net);
    }
}

TESTS_MAIN_WITH_TEAMS
