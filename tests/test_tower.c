/* Tests of a tower on every backend: weights from the seed alone, slices that sum to the
 * whole batch, empty slices, the slot's life, updates, and that training learns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture.h"
#include "compute/init.h"
#include "compute/tower.h"
#include "network.h"
#include "stage/device_host.h"

static const char *const backends[] = { "reference", "onednn" };

enum { BACKENDS = sizeof backends / sizeof backends[0], BATCH = 6, READY_MAX = 32 };

/* A tower with the device and the one slot it needs. */
struct stand {
    struct device *device;
    struct stream *compute;
    struct slot slot;
    struct tower *tower;
    size_t ready[READY_MAX];    /* prefixes the last backward named */
    uint32_t ready_count;
    float *prefix;              /* the gradients as they were when each became ready */
};

static void for_each_backend(void (*check)(const char *backend))
{
    for (int i = 0; i < BACKENDS; i++)
        if (backend_find(backends[i]))
            check(backends[i]);
        else
            print_message("backend %s is not in this build\n", backends[i]);
}

static struct net *net_make(float dropout)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 1, 9, 7 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, 5, 3, 1, PADDING_VALID);
    net_relu(net, "relu", 0);
    net_max_pool(net, "pool", 1, 2, 2, PADDING_VALID);
    net_dropout(net, "dropout", 2, dropout);
    net_dense(net, "fc1", 3, 11);
    net_relu(net, "relu2", 4);
    net_dense(net, "fc2", 5, 4);
    net_softmax_loss(net, "loss", 6);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static struct tower_spec spec_make(struct stand *stand, const char *backend, const struct net *net)
{
    return (struct tower_spec){
        .net = net, .device = stand->device, .compute = stand->compute, .backend = backend_find(backend),
        .backend_spec = { .threads = 1, .slice_max = BATCH, .seed = 3, .allow_ref = true },
        .optimizer = { .kind = OPTIMIZER_SGD }, .seed = 1,
        .train_counts = { BATCH, 0 }, .evaluate_counts = { BATCH, 0 },
    };
}

static void stand_open_device(struct stand *stand)
{
    const struct device_ops *host = &device_host_ops;
    *stand = (struct stand){ .prefix = NULL };
    assert_int_equal(host->open(&stand->device, &(struct device_spec){ 0, "test" }), 0);
    assert_int_equal(host->stream_open(stand->device, STREAM_COMPUTE, "test", &stand->compute), 0);
    assert_int_equal(host->event_open(stand->device, &stand->slot.ready), 0);
    assert_int_equal(host->event_open(stand->device, &stand->slot.free), 0);
}

static void stand_open_tower(struct stand *stand, const struct tower_spec *spec)
{
    assert_int_equal(tower_open(&stand->tower, spec), 0);
    stand->prefix = calloc(tower_arena(stand->tower)->count, sizeof *stand->prefix);
    assert_non_null(stand->prefix);
}

static void stand_open(struct stand *stand, const char *backend, const struct net *net)
{
    stand_open_device(stand);
    const struct tower_spec spec = spec_make(stand, backend, net);
    stand_open_tower(stand, &spec);
}

static void stand_close(struct stand *stand)
{
    const struct device_ops *host = stand->device->ops;
    tower_close(stand->tower);
    host->event_close(stand->slot.ready);
    host->event_close(stand->slot.free);
    host->stream_close(stand->compute);
    host->close(stand->device);
    free(stand->prefix);
}

/* The slot holds samples [first, first + count) of the input. */
static void slot_fill(struct stand *stand, const struct net *net, const struct backend_input *input, uint32_t first,
                      uint32_t count)
{
    stand->slot.span = (struct span){ .first_position = input->first_position + first, .epoch = input->epoch,
                                      .count = count, .global_count = BATCH };
    stand->slot.pixels = (uint8_t *)(uintptr_t)input->pixels + first * shape_count(net->input);
    stand->slot.labels = (int32_t *)(uintptr_t)input->labels + first;
}

static void note_ready(void *arg, size_t floats)
{
    struct stand *stand = arg;
    const size_t before = stand->ready_count > 0 ? stand->ready[stand->ready_count - 1] : 0;
    assert_true(floats > before);
    assert_true(floats <= tower_arena(stand->tower)->count);
    assert_true(stand->ready_count < READY_MAX);
    memcpy(stand->prefix + before, tower_gradients(stand->tower) + before, (floats - before) * sizeof(float));
    stand->ready[stand->ready_count++] = floats;
}

static struct backend_result stand_train(struct stand *stand)
{
    struct backend_result result;
    stand->ready_count = 0;
    assert_int_equal(tower_forward(stand->tower, &stand->slot, true), 0);
    assert_int_equal(tower_backward(stand->tower, note_ready, stand), 0);
    assert_int_equal(tower_result(stand->tower, &result), 0);
    return result;
}

static struct backend_result stand_evaluate(struct stand *stand)
{
    struct backend_result result;
    assert_int_equal(tower_forward(stand->tower, &stand->slot, false), 0);
    assert_int_equal(tower_result(stand->tower, &result), 0);
    return result;
}

static void update_all(struct stand *stand)
{
    assert_int_equal(tower_update(stand->tower, 0, tower_arena(stand->tower)->count, 1.0f / BATCH, 0.5f), 0);
}

/* All weights, parameter after parameter. */
static float *weights_make(struct stand *stand, const struct net *net)
{
    float *all = malloc(net->trainable_count * sizeof *all), *next = all;
    assert_non_null(all);
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
        assert_int_equal(tower_read(stand->tower, p, next), 0);
    return all;
}

static void assert_weights_near(struct stand *a, struct stand *b, const struct net *net, double tolerance)
{
    float *left = weights_make(a, net), *right = weights_make(b, net);
    for (size_t i = 0; i < net->trainable_count; i++)
        assert_true(fabs((double)left[i] - right[i]) <= tolerance);
    free(left);
    free(right);
}

/* ---- weights ---- */

static void check_initial_weights(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct stand stand;
    stand_open(&stand, backend, net);
    float *weights = weights_make(&stand, net), *next = weights;
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count) {
        float *expected = malloc(net->parameters[p].count * sizeof *expected);
        assert_non_null(expected);
        init_parameter(net, p, 1, expected);
        assert_memory_equal(next, expected, net->parameters[p].count * sizeof *expected);
        free(expected);
    }
    free(weights);
    stand_close(&stand);
    net_close(net);
}

static void initial_weights_are_those_of_the_seed(void **state)
{
    (void)state;
    for_each_backend(check_initial_weights);
}

static void check_write(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct stand stand;
    stand_open(&stand, backend, net);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const size_t count = net->parameters[p].count;
        float *values = malloc(count * sizeof *values), *back = malloc(count * sizeof *back);
        assert_true(values && back);
        for (size_t i = 0; i < count; i++)
            values[i] = (float)i + (float)p / 8;
        assert_int_equal(tower_write(stand.tower, p, values), 0);
        assert_int_equal(tower_read(stand.tower, p, back), 0);
        assert_memory_equal(values, back, count * sizeof *values);
        free(values);
        free(back);
    }
    stand_close(&stand);
    net_close(net);
}

static void weights_that_are_written_are_read_back(void **state)
{
    (void)state;
    for_each_backend(check_write);
}

/* ---- several towers ---- */

static uint32_t slice_first(uint32_t tower, uint32_t towers)
{
    return tower * BATCH / towers;
}

/* What the reduction does: the sum over towers, left in every tower's arena. */
static void reduce(struct stand *stands, uint32_t towers)
{
    for (size_t i = 0; i < tower_arena(stands[0].tower)->count; i++) {
        float sum = 0;
        for (uint32_t t = 0; t < towers; t++)
            sum += tower_gradients(stands[t].tower)[i];
        for (uint32_t t = 0; t < towers; t++)
            tower_gradients(stands[t].tower)[i] = sum;
    }
}

static struct backend_result step_of_all(struct stand *stands, uint32_t towers, const struct net *net,
                                         const struct backend_input *input)
{
    struct backend_result sum = { 0 };
    for (uint32_t t = 0; t < towers; t++) {
        const uint32_t first = slice_first(t, towers);
        slot_fill(&stands[t], net, input, first, slice_first(t + 1, towers) - first);
        const struct backend_result result = stand_train(&stands[t]);
        sum.loss_sum += result.loss_sum;
        sum.correct += result.correct;
        sum.counted += result.counted;
    }
    reduce(stands, towers);
    for (uint32_t t = 0; t < towers; t++)
        update_all(&stands[t]);
    return sum;
}

static void open_towers(struct stand *stands, uint32_t towers, const char *backend, const struct net *net)
{
    for (uint32_t t = 0; t < towers; t++) {
        stand_open_device(&stands[t]);
        struct tower_spec spec = spec_make(&stands[t], backend, net);
        spec.index = t;
        spec.backend_spec.slice_max = (BATCH + towers - 1) / towers;
        spec.train_counts[0] = spec.backend_spec.slice_max;
        spec.train_counts[1] = BATCH / towers;
        stand_open_tower(&stands[t], &spec);
    }
}

static void check_towers(const char *backend)
{
    static const uint32_t tower_counts[] = { 2, 3, 5, 8 };
    struct net *net = net_make(0.4f);
    struct backend_input input = network_input(net, BATCH, 4);
    for (int i = 0; i < 4; i++) {
        struct stand one, many[8];
        stand_open(&one, backend, net);
        open_towers(many, tower_counts[i], backend, net);
        for (int step = 0; step < 3; step++) {
            const struct backend_result single = step_of_all(&one, 1, net, &input);
            const struct backend_result sum = step_of_all(many, tower_counts[i], net, &input);
            assert_true(fabs(single.loss_sum - sum.loss_sum) <= 1e-5 * single.loss_sum);
            assert_int_equal(single.counted, BATCH);
            assert_int_equal(sum.counted, BATCH);
        }
        assert_weights_near(&one, &many[0], net, 2e-6);
        for (uint32_t t = 1; t < tower_counts[i]; t++)
            assert_weights_near(&many[0], &many[t], net, 0);
        for (uint32_t t = 0; t < tower_counts[i]; t++)
            stand_close(&many[t]);
        stand_close(&one);
    }
    network_input_release(&input);
    net_close(net);
}

static void towers_with_slices_step_like_one_tower_with_the_batch(void **state)
{
    (void)state;
    for_each_backend(check_towers);
}

static void check_empty(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    struct stand stand;
    stand_open(&stand, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH);
    stand_train(&stand);
    slot_fill(&stand, net, &input, 0, 0);
    const struct backend_result result = stand_train(&stand);
    assert_int_equal(result.counted, 0);
    assert_true(result.loss_sum == 0);
    assert_int_equal(stand.ready_count, 1);
    assert_int_equal(stand.ready[0], tower_arena(stand.tower)->count);
    for (size_t i = 0; i < tower_arena(stand.tower)->count; i++)
        assert_true(tower_gradients(stand.tower)[i] == 0);
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

static void an_empty_slice_has_no_loss_and_gradients_of_zero(void **state)
{
    (void)state;
    for_each_backend(check_empty);
}

/* More gradients than a tower clears at once. */
static void check_wide_empty(const char *backend)
{
    struct net *net;
    struct stand stand;
    assert_int_equal(net_open(&net, "wide", (struct shape){ 3, 24, 24 }, 21), 0);
    net_dense(net, "fc", NET_INPUT, 21);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    stand_open(&stand, backend, net);
    const size_t count = tower_arena(stand.tower)->count;
    memset(tower_gradients(stand.tower), 0xff, count * sizeof(float));
    stand_train(&stand);
    for (size_t i = 0; i < count; i++)
        assert_true(tower_gradients(stand.tower)[i] == 0);
    stand_close(&stand);
    net_close(net);
}

static void an_empty_slice_clears_arenas_of_any_size(void **state)
{
    (void)state;
    for_each_backend(check_wide_empty);
}

static void check_only_empty(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct stand stand;
    stand_open_device(&stand);
    struct tower_spec spec = spec_make(&stand, backend, net);
    memset(spec.train_counts, 0, sizeof spec.train_counts);
    memset(spec.evaluate_counts, 0, sizeof spec.evaluate_counts);
    stand_open_tower(&stand, &spec);
    stand.slot.span = (struct span){ .count = 0, .global_count = 1 };
    assert_int_equal(stand_train(&stand).counted, 0);
    assert_int_equal(stand_evaluate(&stand).counted, 0);
    stand_close(&stand);
    net_close(net);
}

static void a_tower_that_never_gets_a_sample_takes_part(void **state)
{
    (void)state;
    for_each_backend(check_only_empty);
}

/* ---- a step ---- */

static void check_ready(const char *backend)
{
    struct net *net = net_make(0.4f);
    struct backend_input input = network_input(net, BATCH, 4);
    struct stand stand;
    stand_open(&stand, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH);
    stand_train(&stand);
    const struct arena *arena = tower_arena(stand.tower);
    assert_int_equal(stand.ready_count, 3);
    assert_int_equal(stand.ready[2], arena->count);
    assert_memory_equal(stand.prefix, tower_gradients(stand.tower), arena->count * sizeof(float));
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

static void a_prefix_that_is_ready_does_not_change_any_more(void **state)
{
    (void)state;
    for_each_backend(check_ready);
}

/* The feeder may refill the slot as soon as its free event has passed. */
static void check_slot(const char *backend)
{
    struct net *net = net_make(0.4f);
    struct backend_input input = network_input(net, BATCH, 4), copy = network_input(net, BATCH, 4);
    struct backend_result refilled;
    struct stand stand, kept;
    stand_open(&stand, backend, net);
    stand_open(&kept, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH);
    slot_fill(&kept, net, &copy, 0, BATCH);
    assert_int_equal(tower_forward(stand.tower, &stand.slot, true), 0);
    assert_int_equal(stand.device->ops->event_wait(stand.slot.free), 0);
    memset(stand.slot.pixels, 0xff, BATCH * shape_count(net->input));
    memset(stand.slot.labels, 0xff, BATCH * sizeof(int32_t));
    assert_int_equal(tower_backward(stand.tower, note_ready, &stand), 0);
    assert_int_equal(tower_result(stand.tower, &refilled), 0);
    const struct backend_result result = stand_train(&kept);
    assert_true(refilled.loss_sum == result.loss_sum);
    assert_int_equal(refilled.counted, BATCH);
    assert_memory_equal(tower_gradients(stand.tower), tower_gradients(kept.tower),
                        tower_arena(kept.tower)->count * sizeof(float));
    stand_close(&stand);
    stand_close(&kept);
    network_input_release(&input);
    network_input_release(&copy);
    net_close(net);
}

static void a_slot_that_is_free_is_not_read_any_more(void **state)
{
    (void)state;
    for_each_backend(check_slot);
}

struct late { uint8_t *to; const uint8_t *from; size_t bytes; };

static void copy_late(void *arg)
{
    const struct late *late = arg;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    memcpy(late->to, late->from, late->bytes);
}

static void check_wait(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4), copy = network_input(net, BATCH, 5);
    struct late late = { (uint8_t *)(uintptr_t)copy.pixels, input.pixels, BATCH * shape_count(net->input) };
    struct stream *feeder;
    struct stand stand;
    stand_open(&stand, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH);
    const double expected = stand_evaluate(&stand).loss_sum;
    stand.slot.pixels = late.to;
    assert_int_equal(stand.device->ops->stream_open(stand.device, STREAM_COPY, "feeder", &feeder), 0);
    assert_int_equal(stand.device->ops->call(feeder, copy_late, &late), 0);
    assert_int_equal(stream_record(feeder, stand.slot.ready), 0);
    assert_true(stand_evaluate(&stand).loss_sum == expected);
    stand.device->ops->stream_close(feeder);
    stand_close(&stand);
    network_input_release(&input);
    network_input_release(&copy);
    net_close(net);
}

static void a_slot_is_not_read_before_it_is_ready(void **state)
{
    (void)state;
    for_each_backend(check_wait);
}

/* Plans may share memory: what a step leaves there must not reach the next. */
static void check_repeat(const char *backend)
{
    for (uint32_t seed = 0; seed < 10; seed++) {
        struct net *net = network_random_net(6000 + seed, 0.3f);
        struct backend_input input = network_input(net, BATCH, seed);
        struct stand stand, fresh;
        stand_open_device(&stand);
        struct tower_spec spec = spec_make(&stand, backend, net);
        spec.train_counts[1] = spec.evaluate_counts[1] = BATCH - 2;
        stand_open_tower(&stand, &spec);
        stand_open(&fresh, backend, net);
        slot_fill(&stand, net, &input, 0, BATCH);
        stand_train(&stand);
        slot_fill(&stand, net, &input, 2, BATCH - 2);
        stand_train(&stand);
        stand_evaluate(&stand);
        slot_fill(&stand, net, &input, 0, BATCH);
        slot_fill(&fresh, net, &input, 0, BATCH);
        stand_evaluate(&stand);
        assert_true(stand_train(&stand).loss_sum == stand_train(&fresh).loss_sum);
        assert_memory_equal(tower_gradients(stand.tower), tower_gradients(fresh.tower),
                            tower_arena(stand.tower)->count * sizeof(float));
        stand_close(&stand);
        stand_close(&fresh);
        network_input_release(&input);
        net_close(net);
    }
}

static void a_step_gives_the_same_bits_whatever_ran_before(void **state)
{
    (void)state;
    for_each_backend(check_repeat);
}

static void check_position(const char *backend)
{
    struct net *net = net_make(0.4f);
    struct backend_input input = network_input(net, BATCH, 4);
    struct stand stand;
    stand_open(&stand, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH);
    const double first = stand_train(&stand).loss_sum, again = stand_train(&stand).loss_sum;
    stand.slot.span.first_position++;
    const double moved = stand_train(&stand).loss_sum;
    stand.slot.span.first_position--;
    stand.slot.span.epoch++;
    const double later = stand_train(&stand).loss_sum;
    assert_true(first == again);
    assert_true(first != moved && first != later && moved != later);
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

static void dropout_follows_position_and_epoch_of_the_slot(void **state)
{
    (void)state;
    for_each_backend(check_position);
}

static void check_evaluation(const char *backend)
{
    struct net *net = net_make(0.4f), *plain = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    struct stand stand, without;
    stand_open(&stand, backend, net);
    stand_open(&without, backend, plain);
    slot_fill(&stand, net, &input, 0, BATCH);
    slot_fill(&without, plain, &input, 0, BATCH);
    float *before = weights_make(&stand, net);
    const struct backend_result evaluated = stand_evaluate(&stand), expected = stand_train(&without);
    float *after = weights_make(&stand, net);
    assert_true(fabs(evaluated.loss_sum - expected.loss_sum) <= 1e-5 * expected.loss_sum);
    assert_int_equal(evaluated.correct, expected.correct);
    assert_int_equal(evaluated.counted, BATCH);
    assert_memory_equal(before, after, net->trainable_count * sizeof(float));
    for (size_t i = 0; i < tower_arena(stand.tower)->count; i++)
        assert_true(tower_gradients(stand.tower)[i] == 0);
    free(before);
    free(after);
    stand_close(&stand);
    stand_close(&without);
    network_input_release(&input);
    net_close(net);
    net_close(plain);
}

static void evaluation_drops_nothing_and_changes_nothing(void **state)
{
    (void)state;
    for_each_backend(check_evaluation);
}

/* ---- updates ---- */

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
    { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f },
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

static void stand_open_with(struct stand *stand, const char *backend, const struct net *net, int optimizer)
{
    stand_open_device(stand);
    struct tower_spec spec = spec_make(stand, backend, net);
    spec.optimizer = optimizers[optimizer];
    stand_open_tower(stand, &spec);
}

/* In the reference backend a stored parameter is the plain one. */
static void an_update_is_the_optimizer_over_the_arenas(void **state)
{
    (void)state;
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct stand stand;
        stand_open_with(&stand, "reference", net, o);
        const struct arena *arena = tower_arena(stand.tower);
        float *arenas = calloc(3 * arena->count, sizeof *arenas);
        assert_non_null(arenas);
        for (uint32_t p = 0; p < net->parameter_count; p++)
            assert_int_equal(tower_read(stand.tower, p, arenas + arena->ranges[p].offset), 0);
        slot_fill(&stand, net, &input, 0, BATCH);
        for (int step = 0; step < 3; step++) {
            stand_train(&stand);
            update_all(&stand);
            optimizer_update(&optimizers[o], 0.5f, 1.0f / BATCH,
                             &(struct optimizer_range){ arenas, tower_gradients(stand.tower),
                                                        { arenas + arena->count, arenas + 2 * arena->count },
                                                        arena->count });
        }
        float *weights = weights_make(&stand, net), *next = weights;
        for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
            assert_memory_equal(next, arenas + arena->ranges[p].offset, net->parameters[p].count * sizeof *next);
        free(weights);
        free(arenas);
        stand_close(&stand);
    }
    network_input_release(&input);
    net_close(net);
}

static void update_in_pieces(struct stand *stand)
{
    const struct arena *arena = tower_arena(stand->tower);
    for (uint32_t p = 0; p < arena->parameter_count; p++)
        assert_int_equal(tower_update(stand->tower, arena->ranges[p].offset, (arena->ranges[p].count + 15) / 16 * 16,
                                      1.0f / BATCH, 0.5f), 0);
}

static void check_pieces(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct stand whole, pieces;
        stand_open_with(&whole, backend, net, o);
        stand_open_with(&pieces, backend, net, o);
        slot_fill(&whole, net, &input, 0, BATCH);
        slot_fill(&pieces, net, &input, 0, BATCH);
        for (int step = 0; step < 3; step++) {
            stand_train(&whole);
            stand_train(&pieces);
            update_all(&whole);
            update_in_pieces(&pieces);
        }
        assert_weights_near(&whole, &pieces, net, 0);
        stand_close(&whole);
        stand_close(&pieces);
    }
    network_input_release(&input);
    net_close(net);
}

static void updating_bucket_by_bucket_gives_the_same_bits(void **state)
{
    (void)state;
    for_each_backend(check_pieces);
}

static void check_learning(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    for (int o = 0; o < OPTIMIZERS; o++) {
        struct stand stand;
        stand_open_with(&stand, backend, net, o);
        slot_fill(&stand, net, &input, 0, BATCH);
        const double first = stand_train(&stand).loss_sum;
        const size_t count = tower_arena(stand.tower)->count;
        const float rate = optimizers[o].kind == OPTIMIZER_ADADELTA ? 1.0f : 0.05f;
        for (int step = 0; step < 150; step++) {
            assert_int_equal(tower_update(stand.tower, 0, count, 1.0f / BATCH, rate), 0);
            stand_train(&stand);
        }
        const struct backend_result last = stand_evaluate(&stand);
        assert_true(last.loss_sum < 0.5 * first);
        assert_in_range(last.correct, BATCH - 1, BATCH);
        stand_close(&stand);
    }
    network_input_release(&input);
    net_close(net);
}

static void every_optimizer_learns_a_small_batch(void **state)
{
    (void)state;
    for_each_backend(check_learning);
}

/* ---- refusals, numbers ---- */

static void check_refusals(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct backend_input input = network_input(net, BATCH, 4);
    struct capture capture;
    struct stand stand;
    struct tower *none = NULL;
    char text[256];
    stand_open(&stand, backend, net);
    slot_fill(&stand, net, &input, 0, BATCH - 1);
    assert_int_equal(tower_forward(stand.tower, &stand.slot, true), -EINVAL);
    const struct tower_spec spec = spec_make(&stand, backend, net);
    net->layers[4].input = 2;
    capture_begin(&capture);
    const int status = tower_open(&none, &spec);
    capture_end(&capture, text, sizeof text);
    net->layers[4].input = 3;
    assert_int_equal(status, -ENOTSUP);
    assert_null(none);
    assert_non_null(strstr(text, "small"));
    stand_close(&stand);
    network_input_release(&input);
    net_close(net);
}

static void slices_without_a_plan_and_nets_with_branches_are_refused(void **state)
{
    (void)state;
    for_each_backend(check_refusals);
}

static uint32_t allocations_left;

static int alloc_few(struct device *device, size_t bytes, void **memory_out)
{
    if (allocations_left == 0)
        return -ENOMEM;
    allocations_left--;
    return host_alloc(device, bytes, memory_out);
}

/* One allocation more at every try, until the tower opens. */
static void check_short_of_memory(const char *backend)
{
    struct net *net = net_make(0.4f);
    struct device_ops few = device_host_ops;
    int error = -ENOMEM;
    few.alloc = alloc_few;
    for (uint32_t allowed = 0; error; allowed++) {
        struct stand stand;
        stand_open_device(&stand);
        stand.device->ops = &few;
        allocations_left = allowed;
        const struct tower_spec spec = spec_make(&stand, backend, net);
        error = tower_open(&stand.tower, &spec);
        assert_true(error == (stand.tower ? 0 : -ENOMEM));
        assert_true(error || allowed >= 3);
        stand_close(&stand);
    }
    net_close(net);
}

static void a_tower_short_of_memory_at_any_point_does_not_open(void **state)
{
    (void)state;
    for_each_backend(check_short_of_memory);
}

static void count_line(void *arg, const char *line)
{
    assert_true(strlen(line) > 0);
    ++*(int *)arg;
}

static void check_description(const char *backend)
{
    struct net *net = net_make(0.0f);
    struct stand stand;
    int lines = 0;
    stand_open_with(&stand, backend, net, 3);
    const struct tower_memory memory = tower_memory(stand.tower);
    tower_describe(stand.tower, count_line, &lines);
    assert_true(lines > 0);
    assert_true(memory.arena_bytes >= 4 * tower_arena(stand.tower)->count * sizeof(float));
    assert_true(memory.plan_bytes >= BATCH * shape_count(net->layers[0].out) * sizeof(float));
    stand_close(&stand);
    net_close(net);
}

static void memory_and_layers_are_described(void **state)
{
    (void)state;
    for_each_backend(check_description);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_weights_are_those_of_the_seed),
        cmocka_unit_test(weights_that_are_written_are_read_back),
        cmocka_unit_test(towers_with_slices_step_like_one_tower_with_the_batch),
        cmocka_unit_test(an_empty_slice_has_no_loss_and_gradients_of_zero),
        cmocka_unit_test(an_empty_slice_clears_arenas_of_any_size),
        cmocka_unit_test(a_tower_that_never_gets_a_sample_takes_part),
        cmocka_unit_test(a_prefix_that_is_ready_does_not_change_any_more),
        cmocka_unit_test(a_slot_that_is_free_is_not_read_any_more),
        cmocka_unit_test(a_slot_is_not_read_before_it_is_ready),
        cmocka_unit_test(a_step_gives_the_same_bits_whatever_ran_before),
        cmocka_unit_test(dropout_follows_position_and_epoch_of_the_slot),
        cmocka_unit_test(evaluation_drops_nothing_and_changes_nothing),
        cmocka_unit_test(an_update_is_the_optimizer_over_the_arenas),
        cmocka_unit_test(updating_bucket_by_bucket_gives_the_same_bits),
        cmocka_unit_test(every_optimizer_learns_a_small_batch),
        cmocka_unit_test(slices_without_a_plan_and_nets_with_branches_are_refused),
        cmocka_unit_test(a_tower_short_of_memory_at_any_point_does_not_open),
        cmocka_unit_test(memory_and_layers_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
