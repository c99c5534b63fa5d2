/* Tests of a tower on every backend: weights from the seed alone, local batches that sum to the
 * whole batch, empty ones, the slot's life, refusals, and numbers that are not finite. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/floats.h"
#include "compute/health.h"
#include "compute/init.h"
#include "stage/pairwise.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

/* ---- weights ---- */

TEST_ON_EACH_BACKEND(initial_weights_are_those_of_the_seed)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    float *weights = tower_fixture_weights(&fixture, net), *next = weights;
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count) {
        float *expected = malloc(net->parameters[p].count * sizeof(*expected));
        assert_non_null(expected);
        init_parameter(net, p, 1, 1, expected);
        assert_memory_equal(next, expected, net->parameters[p].count * sizeof(*expected));
        free(expected);
    }
    free(weights);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* Where initial values are made in the gradients no memory is planned for them, and none of them stays. */
TEST_ON_EACH_BACKEND(initial_values_leave_nothing_in_the_gradients)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.optimizer = (struct optimizer){ .kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1.0f };
    tower_fixture_open_tower(&fixture, &spec);
    assert_true((tower_needs(fixture.tower).initial == 0) == fixture.device->ops->host_memory);
    float *const gradients = tower_fixture_gradients(&fixture);
    for (size_t i = 0; i < tower_fixture_floats(&fixture); i++)
        assert_true(gradients[i] == 0);
    free(gradients);
    tower_fixture_close(&fixture);
    net_close(net);
}

TEST_ON_EACH_BACKEND(weights_that_are_written_are_read_back)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const size_t count = net->parameters[p].count;
        float *values = malloc(count * sizeof(*values)), *back = malloc(count * sizeof(*back));
        assert_true(values && back);
        for (size_t i = 0; i < count; i++)
            values[i] = (float)i + (float)p / 8;
        assert_int_equal(tower_write(fixture.tower, p, values), 0);
        assert_int_equal(tower_read(fixture.tower, p, back), 0);
        assert_memory_equal(values, back, count * sizeof(*values));
        free(values);
        free(back);
    }
    tower_fixture_close(&fixture);
    net_close(net);
}

/* ---- several towers ---- */

static uint32_t local_first(uint32_t tower, uint32_t towers)
{
    return tower * FIXTURE_BATCH / towers;
}

/* What the reduction does: the sum over towers, left in every tower's arena. */
static void reduce(struct tower_fixture *fixtures, uint32_t towers)
{
    float *sums = tower_fixture_gradients(&fixtures[0]);
    for (uint32_t t = 1; t < towers; t++) {
        float *gradients = tower_fixture_gradients(&fixtures[t]);
        for (size_t i = 0; i < tower_fixture_floats(&fixtures[t]); i++)
            sums[i] += gradients[i];
        free(gradients);
    }
    for (uint32_t t = 0; t < towers; t++)
        tower_fixture_set_gradients(&fixtures[t], sums);
    free(sums);
}

static struct backend_result step_of_all(struct tower_fixture *fixtures, uint32_t towers, const struct net *net,
                                         const struct backend_input *input)
{
    struct backend_result sum = { 0 };
    for (uint32_t t = 0; t < towers; t++) {
        const uint32_t first = local_first(t, towers);
        tower_fixture_fill(&fixtures[t], net, input, first, local_first(t + 1, towers) - first);
        const struct backend_result result = tower_fixture_train(&fixtures[t]);
        sum.loss_sum += result.loss_sum;
        sum.correct += result.correct;
        sum.counted += result.counted;
    }
    reduce(fixtures, towers);
    for (uint32_t t = 0; t < towers; t++)
        tower_fixture_update(&fixtures[t]);
    return sum;
}

static void open_towers(struct tower_fixture *fixtures, uint32_t towers, const char *backend, const struct net *net)
{
    for (uint32_t t = 0; t < towers; t++) {
        tower_fixture_open_device(&fixtures[t], backend);
        struct tower_spec spec = tower_fixture_spec(&fixtures[t], backend, net);
        spec.index = t;
        spec.backend_spec.local_max = (FIXTURE_BATCH + towers - 1) / towers;
        spec.train_counts[0] = spec.backend_spec.local_max;
        spec.train_counts[1] = FIXTURE_BATCH / towers;
        tower_fixture_open_tower(&fixtures[t], &spec);
    }
}

TEST_ON_EACH_BACKEND(towers_step_like_one_tower_with_the_batch)
{
    static const uint32_t tower_counts[] = { 2, 3, 5, 8 };
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int i = 0; i < 4; i++) {
        struct tower_fixture one, many[8];
        tower_fixture_open(&one, backend, net);
        open_towers(many, tower_counts[i], backend, net);
        for (int step = 0; step < 3; step++) {
            const struct backend_result single = step_of_all(&one, 1, net, &input);
            const struct backend_result sum = step_of_all(many, tower_counts[i], net, &input);
            assert_true(fabs(single.loss_sum - sum.loss_sum) <= 1e-5 * single.loss_sum);
            assert_int_equal(single.counted, FIXTURE_BATCH);
            assert_int_equal(sum.counted, FIXTURE_BATCH);
        }
        tower_fixture_assert_weights_near(&one, &many[0], net, 2e-6);
        for (uint32_t t = 1; t < tower_counts[i]; t++)
            tower_fixture_assert_weights_near(&many[0], &many[t], net, 0);
        for (uint32_t t = 0; t < tower_counts[i]; t++)
            tower_fixture_close(&many[t]);
        tower_fixture_close(&one);
    }
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(an_empty_batch_has_no_loss_and_gradients_of_zero)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(&fixture);
    tower_fixture_fill(&fixture, net, &input, 0, 0);
    const struct backend_result result = tower_fixture_train(&fixture);
    assert_int_equal(result.counted, 0);
    assert_true(result.loss_sum == 0);
    assert_int_equal(fixture.ready_count, 1);
    assert_int_equal(fixture.ready[0], tower_fixture_floats(&fixture));
    tower_fixture_assert_gradients_zero(&fixture);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

static void open_with_microbatches(struct tower_fixture *fixture, const char *backend, const struct net *net,
                           uint32_t microbatch_max)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    spec.microbatch_max = spec.backend_spec.local_max = spec.train_counts[0] = microbatch_max;
    spec.train_counts[1] = FIXTURE_BATCH % microbatch_max;
    tower_fixture_open_tower(fixture, &spec);
    assert_int_equal(tower_microbatches(fixture->tower, FIXTURE_BATCH),
                     (FIXTURE_BATCH + microbatch_max - 1) / microbatch_max);
    assert_int_equal(tower_microbatches(fixture->tower, 0), 1);
}

/* Forward and backward of the slot, microbatch by microbatch. */
static struct backend_result train_in_microbatches(struct tower_fixture *fixture)
{
    const uint32_t microbatches = tower_microbatches(fixture->tower, FIXTURE_BATCH);
    struct backend_result sum = { 0 };
    fixture->ready_count = 0;
    assert_int_equal(stream_wait(fixture->compute, fixture->slot.ready), 0);
    for (uint32_t i = 0; i < microbatches; i++) {
        assert_int_equal(tower_forward(fixture->tower, &fixture->slot, i, true), 0);
        assert_int_equal(i + 1 < microbatches ? tower_accumulate(fixture->tower)
                                        : tower_backward(fixture->tower, tower_fixture_note_ready, fixture), 0);
        const struct backend_result result = tower_fixture_result(fixture);
        sum.loss_sum += result.loss_sum;
        sum.counted += result.counted;
    }
    return sum;
}

static void check_ready_gradients(struct tower_fixture *fixture)
{
    float *gradients = tower_fixture_gradients(fixture);
    assert_int_equal(fixture->ready[fixture->ready_count - 1], tower_fixture_floats(fixture));
    assert_memory_equal(gradients, fixture->prefix, tower_fixture_floats(fixture) * sizeof(float));
    free(gradients);
}

TEST_ON_EACH_BACKEND(the_gradients_of_microbatches_add_up_to_those_of_the_batch)
{
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (uint32_t microbatch_max = 1; microbatch_max <= FIXTURE_BATCH; microbatch_max++) {
        struct tower_fixture whole, divided;
        tower_fixture_open(&whole, backend, net);
        open_with_microbatches(&divided, backend, net, microbatch_max);
        tower_fixture_fill(&whole, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_fill(&divided, net, &input, 0, FIXTURE_BATCH);
        for (int step = 0; step < 3; step++) {
            const struct backend_result expected = tower_fixture_train(&whole);
            const struct backend_result result = train_in_microbatches(&divided);
            assert_true(fabs(result.loss_sum - expected.loss_sum) <= 1e-5 * expected.loss_sum);
            assert_int_equal(result.counted, FIXTURE_BATCH);
            check_ready_gradients(&divided);
            tower_fixture_update(&whole);
            tower_fixture_update(&divided);
        }
        tower_fixture_assert_weights_near(&whole, &divided, net, 2e-6);
        tower_fixture_close(&divided);
        tower_fixture_close(&whole);
    }
    network_input_release(&input);
    net_close(net);
}

/* ---- slices ---- */

enum { CHANNELS = 6 };

/* A network with statistics: CHANNELS means, and as many variances. */
static struct net *normalized_net(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "normalized", (struct shape){ 2, 5, 5 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, CHANNELS, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true });
    net_relu(net, "relu", 1);
    net_dropout(net, "dropout", 2, 0.3f);
    net_dense(net, "fc", 3, 4, true);
    net_softmax_loss(net, "loss", 4);
    assert_int_equal(net_finish(net), 0);
    return net;
}

struct sliced { float *gradients, statistics[2 * CHANNELS]; double loss_sum; };

static void free_sliced(struct sliced *sliced)
{
    free(sliced->gradients);
}

/* One training step of the tower that computes slices [first, first + count) of `all`. */
static struct sliced train_slices(const char *backend, const struct net *net, const struct backend_input *input,
                                  struct tower_slices slices)
{
    struct tower_fixture fixture;
    struct pairwise_sum losses = { .count = 0 };
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    const struct batch_part begin = batch_part_find(FIXTURE_BATCH, false, slices.all, slices.first);
    uint32_t samples = 0;
    memset(spec.train_counts, 0, sizeof(spec.train_counts));
    for (uint32_t i = 0; i < slices.count; i++) {
        const uint32_t count = batch_part_find(FIXTURE_BATCH, false, slices.all, slices.first + i).count;
        spec.train_counts[count > 0 ? count % 2 : 2] = count;   /* sizes differ by one */
        samples += count;
    }
    spec.slices = slices;
    tower_fixture_open_tower(&fixture, &spec);
    assert_int_equal(tower_microbatches(fixture.tower, samples), slices.count);
    tower_fixture_fill(&fixture, net, input, begin.first, samples);
    fixture.ready_count = 0;
    assert_int_equal(stream_wait(fixture.compute, fixture.slot.ready), 0);
    for (uint32_t i = 0; i < slices.count; i++) {
        assert_int_equal(tower_forward(fixture.tower, &fixture.slot, i, true), 0);
        assert_int_equal(i + 1 < slices.count ? tower_accumulate(fixture.tower)
                                              : tower_backward(fixture.tower, tower_fixture_note_ready, &fixture), 0);
        const double loss_sum = tower_fixture_result(&fixture).loss_sum;
        const bool is_empty = tower_microbatch(fixture.tower, &fixture.slot.local, i).count == 0;
        pairwise_add(&losses, is_empty ? 0 : loss_sum);
    }
    check_ready_gradients(&fixture);
    struct sliced sliced = { .gradients = tower_fixture_gradients(&fixture), .loss_sum = pairwise_total(&losses) };
    uint32_t at = 0;
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (!net->parameters[p].is_trained) {
            assert_int_equal(tower_read(fixture.tower, p, sliced.statistics + at), 0);
            at += CHANNELS;
        }
    assert_int_equal(at, 2 * CHANNELS);
    tower_fixture_close(&fixture);
    return sliced;
}

static float sum_in_pairs(const struct sliced *towers, uint32_t count, size_t i, bool is_statistic)
{
    if (count == 1)
        return is_statistic ? towers->statistics[i] : towers->gradients[i];
    const uint32_t left = pairwise_left(count);
    return sum_in_pairs(towers, left, i, is_statistic) + sum_in_pairs(towers + left, count - left, i, is_statistic);
}

/* With 7 and 8 slices some of them are empty. */
TEST_ON_EACH_BACKEND(towers_that_share_slices_add_up_to_one)
{
    enum { SLICES_MAX = 8 };
    struct net *net = normalized_net();
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (uint32_t slices = 1; slices <= SLICES_MAX; slices++) {
        struct sliced one = train_slices(backend, net, &input, (struct tower_slices){ .all = slices, .count = slices });
        for (uint32_t towers = 2; towers <= slices; towers++) {
            struct sliced some[SLICES_MAX];
            struct pairwise_sum losses = { .count = 0 };
            if (!schedule_slices_fit(slices, towers))
                continue;
            for (uint32_t t = 0; t < towers; t++) {
                const uint32_t each = slices / towers;
                some[t] = train_slices(backend, net, &input, (struct tower_slices){ slices, t * each, each, false });
                pairwise_add(&losses, some[t].loss_sum);
            }
            for (size_t i = 0; i < net->trainable_count; i++) {
                const float sum = sum_in_pairs(some, towers, i, false);
                assert_memory_equal(&sum, &one.gradients[i], sizeof(sum));
            }
            for (size_t i = 0; i < 2 * CHANNELS; i++) {
                const float sum = sum_in_pairs(some, towers, i, true);
                assert_memory_equal(&sum, &one.statistics[i], sizeof(sum));
            }
            assert_true(pairwise_total(&losses) == one.loss_sum);
            for (uint32_t t = 0; t < towers; t++)
                free_sliced(&some[t]);
        }
        free_sliced(&one);
    }
    network_input_release(&input);
    net_close(net);
}

/* The statistics move once a step, by the mean over the slices: the mean over a batch is that over its equal slices. */
TEST_ON_EACH_BACKEND(running_means_do_not_depend_on_the_slices)
{
    struct net *net = normalized_net();
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct sliced whole = train_slices(backend, net, &input, (struct tower_slices){ .all = 1, .count = 1 });
    for (uint32_t slices = 2; slices <= 3; slices++) {
        struct sliced cut = train_slices(backend, net, &input, (struct tower_slices){ .all = slices, .count = slices });
        for (size_t i = 0; i < CHANNELS; i++)
            assert_true(fabsf(cut.statistics[i] - whole.statistics[i]) <= 1e-5f * (1 + fabsf(whole.statistics[i])));
        assert_true(memcmp(cut.statistics + CHANNELS, whole.statistics + CHANNELS, CHANNELS * sizeof(float)) != 0);
        free_sliced(&cut);
    }
    free_sliced(&whole);
    network_input_release(&input);
    net_close(net);
}

/* More gradients than a tower clears at once. */
TEST_ON_EACH_BACKEND(an_empty_batch_clears_arenas_of_any_size)
{
    struct net *net;
    struct tower_fixture fixture;
    assert_int_equal(net_open(&net, "wide", (struct shape){ 3, 24, 24 }, 21), 0);
    net_dense(net, "fc", NET_INPUT, 21, true);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    tower_fixture_open(&fixture, backend, net);
    float *noise = malloc(tower_fixture_floats(&fixture) * sizeof(*noise));
    assert_non_null(noise);
    memset(noise, 0xff, tower_fixture_floats(&fixture) * sizeof(*noise));
    tower_fixture_set_gradients(&fixture, noise);
    free(noise);
    tower_fixture_train(&fixture);
    tower_fixture_assert_gradients_zero(&fixture);
    tower_fixture_close(&fixture);
    net_close(net);
}

TEST_ON_EACH_BACKEND(a_tower_that_never_gets_a_sample_takes_part)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    memset(spec.train_counts, 0, sizeof(spec.train_counts));
    memset(spec.evaluate_counts, 0, sizeof(spec.evaluate_counts));
    tower_fixture_open_tower(&fixture, &spec);
    fixture.slot.local = (struct local_batch){ .count = 0, .global_count = 1 };
    assert_int_equal(tower_fixture_train(&fixture).counted, 0);
    assert_int_equal(tower_fixture_evaluate(&fixture).counted, 0);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* ---- a step ---- */

TEST_ON_EACH_BACKEND(a_prefix_that_is_ready_does_not_change_any_more)
{
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(&fixture);
    float *gradients = tower_fixture_gradients(&fixture);
    assert_int_equal(fixture.ready_count, 3);
    assert_int_equal(fixture.ready[2], tower_fixture_floats(&fixture));
    assert_memory_equal(fixture.prefix, gradients, tower_fixture_floats(&fixture) * sizeof(float));
    free(gradients);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

/* The feeder may refill the slot as soon as its free event has passed. */
TEST_ON_EACH_BACKEND(a_slot_that_is_free_is_not_read_any_more)
{
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    uint8_t other[FIXTURE_BATCH * 64];
    struct tower_fixture fixture, kept;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_open(&kept, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_fill(&kept, net, &input, 0, FIXTURE_BATCH);
    assert_in_range(shape_count(net->input), 4, 64);
    memset(other, 0xff, sizeof(other));
    tower_fixture_forward(&fixture, true);
    assert_int_equal(fixture.device->ops->event_wait(fixture.slot.free), 0);
    device_memory_write(fixture.compute, fixture.slot.pixels, other, FIXTURE_BATCH * shape_count(net->input));
    device_memory_write(fixture.compute, fixture.slot.labels, other, FIXTURE_BATCH * sizeof(int32_t));
    assert_int_equal(tower_backward(fixture.tower, tower_fixture_note_ready, &fixture), 0);
    const struct backend_result refilled = tower_fixture_result(&fixture), result = tower_fixture_train(&kept);
    assert_true(refilled.loss_sum == result.loss_sum);
    assert_int_equal(refilled.counted, FIXTURE_BATCH);
    tower_fixture_assert_gradients_equal(&fixture, &kept);
    tower_fixture_close(&fixture);
    tower_fixture_close(&kept);
    network_input_release(&input);
    net_close(net);
}

static void be_late(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

TEST_ON_EACH_BACKEND(a_slot_is_not_read_before_it_is_ready)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4), other = network_input(net, FIXTURE_BATCH, 5);
    struct stream *feeder;
    struct tower_fixture fixture, kept;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_open(&kept, backend, net);
    tower_fixture_fill(&kept, net, &input, 0, FIXTURE_BATCH);
    const double expected = tower_fixture_evaluate(&kept).loss_sum;
    tower_fixture_fill(&fixture, net, &other, 0, FIXTURE_BATCH);
    const struct device_ops *ops = fixture.device->ops;
    const size_t bytes = FIXTURE_BATCH * shape_count(net->input);
    const size_t label_bytes = FIXTURE_BATCH * sizeof(int32_t);
    void *pinned;
    assert_int_equal(ops->alloc_pinned(fixture.device, bytes + label_bytes, &pinned), 0);
    memcpy(pinned, input.labels, label_bytes);
    memcpy((char *)pinned + label_bytes, input.pixels, bytes);
    assert_int_equal(ops->stream_open(fixture.device, STREAM_COPY, "feeder", &feeder), 0);
    assert_int_equal(ops->call(feeder, be_late, NULL), 0);
    assert_int_equal(ops->copy(feeder, fixture.slot.labels, pinned, label_bytes, COPY_TO_DEVICE), 0);
    assert_int_equal(ops->copy(feeder, fixture.slot.pixels, (char *)pinned + label_bytes, bytes, COPY_TO_DEVICE), 0);
    assert_int_equal(stream_record(feeder, fixture.slot.ready), 0);
    assert_true(tower_fixture_evaluate(&fixture).loss_sum == expected);
    ops->stream_close(feeder);
    ops->free_pinned(fixture.device, pinned);
    tower_fixture_close(&fixture);
    tower_fixture_close(&kept);
    network_input_release(&input);
    network_input_release(&other);
    net_close(net);
}

/* Plans may share memory: what a step leaves there must not reach the next. */
TEST_ON_EACH_BACKEND(a_step_gives_the_same_bits_whatever_ran_before)
{
    for (uint32_t seed = 0; seed < 10; seed++) {
        struct net *net = network_random_net(6000 + seed, 0.3f);
        struct backend_input input = network_input(net, FIXTURE_BATCH, seed);
        struct tower_fixture fixture, fresh;
        tower_fixture_open_device(&fixture, backend);
        struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
        spec.train_counts[1] = spec.evaluate_counts[1] = FIXTURE_BATCH - 2;
        tower_fixture_open_tower(&fixture, &spec);
        tower_fixture_open(&fresh, backend, net);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_train(&fixture);
        tower_fixture_fill(&fixture, net, &input, 2, FIXTURE_BATCH - 2);
        tower_fixture_train(&fixture);
        tower_fixture_evaluate(&fixture);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_fill(&fresh, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_evaluate(&fixture);
        assert_true(tower_fixture_train(&fixture).loss_sum == tower_fixture_train(&fresh).loss_sum);
        tower_fixture_assert_gradients_equal(&fixture, &fresh);
        tower_fixture_close(&fixture);
        tower_fixture_close(&fresh);
        network_input_release(&input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(dropout_follows_position_and_epoch_of_the_slot)
{
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    const double first = tower_fixture_train(&fixture).loss_sum, again = tower_fixture_train(&fixture).loss_sum;
    fixture.slot.local.first_position++;
    const double moved = tower_fixture_train(&fixture).loss_sum;
    fixture.slot.local.first_position--;
    fixture.slot.local.epoch++;
    const double later = tower_fixture_train(&fixture).loss_sum;
    assert_true(first == again);
    assert_true(first != moved && first != later && moved != later);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(evaluation_drops_nothing_and_changes_nothing)
{
    struct net *net = tower_fixture_net(0.4f), *plain = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture, without;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_open(&without, backend, plain);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_fill(&without, plain, &input, 0, FIXTURE_BATCH);
    float *before = tower_fixture_weights(&fixture, net);
    const struct backend_result evaluated = tower_fixture_evaluate(&fixture), expected = tower_fixture_train(&without);
    float *after = tower_fixture_weights(&fixture, net);
    assert_true(fabs(evaluated.loss_sum - expected.loss_sum) <= 1e-5 * expected.loss_sum);
    assert_int_equal(evaluated.correct, expected.correct);
    assert_int_equal(evaluated.counted, FIXTURE_BATCH);
    assert_memory_equal(before, after, net->trainable_count * sizeof(float));
    tower_fixture_assert_gradients_zero(&fixture);
    free(before);
    free(after);
    tower_fixture_close(&fixture);
    tower_fixture_close(&without);
    network_input_release(&input);
    net_close(net);
    net_close(plain);
}

/* ---- numbers that are not finite ---- */

static const float bad[] = { NAN, INFINITY, -INFINITY, 1e24f, -FLT_MAX, FINITE_BOUND };
enum { BAD = sizeof(bad) / sizeof(bad[0]) };

TEST(the_first_number_that_is_not_finite_is_found_in_any_place)
{
    enum { COUNT = 10000 };
    float *floats = calloc(COUNT, sizeof(*floats));
    floats[1] = 1e18f;
    floats[2] = -1e18f;
    floats[3] = 0x1p-149f;
    assert_int_equal(floats_find_nonfinite(floats, COUNT), COUNT);
    for (size_t i = 0; i < COUNT; i += i < 20 || i > COUNT - 20 ? 1 : 89) {
        const float kept = floats[i];
        floats[i] = bad[i % BAD];
        assert_int_equal(floats_find_nonfinite(floats, COUNT), i);
        assert_int_equal(floats_find_nonfinite(floats, i), i);
        assert_int_equal(floats_find_nonfinite(floats + i, COUNT - i), 0);
        floats[i] = kept;
    }
    floats[100] = floats[5000] = NAN;
    assert_int_equal(floats_find_nonfinite(floats, COUNT), 100);
    free(floats);
}

static struct health health_now(struct tower_fixture *fixture)
{
    const struct device_ops *const ops = fixture->device->ops;
    void *memory;
    assert_int_equal(ops->alloc_pinned(fixture->device, sizeof(struct health), &memory), 0);
    struct health *const health = memory;
    assert_int_equal(health_queue(fixture->tower, health), 0);
    ops->stream_drain(fixture->compute);
    const struct health now = *health;
    ops->free_pinned(fixture->device, memory);
    return now;
}

/* What is found now. */
static const char *broken(struct tower_fixture *fixture)
{
    const struct health health = health_now(fixture);
    return health_nonfinite(fixture->tower, &health);
}

static double norm_of(struct tower_fixture *fixture)
{
    const struct health health = health_now(fixture);
    return health_gradient_norm(&health, 1);
}

/* What a step whose loss is not finite names, also where nothing was queued behind it. */
static void check_step(struct tower_fixture *fixture, const char *name)
{
    struct health none = { .weights = UINT64_MAX, .statistics = UINT64_MAX };
    assert_null(health_of_step(fixture->tower, NULL, 1.5));
    assert_null(health_of_step(fixture->tower, &none, 1.5));
    const char *const found = health_of_step(fixture->tower, NULL, NAN);
    assert_true(name == NULL ? found == NULL : found != NULL && strcmp(found, name) == 0);
}

static void check_parameter(struct tower_fixture *fixture, const struct parameter *parameter, uint32_t index)
{
    float *good = malloc(parameter->count * sizeof(*good)), *changed = malloc(parameter->count * sizeof(*good));
    const size_t places[] = { 0, parameter->count / 2, parameter->count - 1 };
    assert_int_equal(tower_read(fixture->tower, index, good), 0);
    for (int i = 0; i < 3; i++) {
        memcpy(changed, good, parameter->count * sizeof(*good));
        changed[places[i]] = bad[i];
        assert_int_equal(tower_write(fixture->tower, index, changed), 0);
        assert_string_equal(broken(fixture), parameter->name);
        check_step(fixture, parameter->name);
        assert_int_equal(tower_write(fixture->tower, index, good), 0);
        assert_null(broken(fixture));
        check_step(fixture, NULL);
    }
    free(good);
    free(changed);
}

static void check_parameters(const char *backend, struct net *net)
{
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(&fixture);
    tower_fixture_update(&fixture);
    assert_null(broken(&fixture));
    for (uint32_t i = 0; i < net->parameter_count; i++)
        check_parameter(&fixture, &net->parameters[i], i);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

/* The second network has statistics. */
TEST_ON_EACH_BACKEND(a_parameter_that_is_not_finite_is_named)
{
    check_parameters(backend, tower_fixture_net(0.0f));
    check_parameters(backend, tower_fixture_norm_net(5, 0.0f));
}

/* What the update that limits it found, and nothing where it does not. */
TEST_ON_EACH_BACKEND(the_norm_of_the_gradient_is_reported_where_it_is_limited)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (int clips = 0; clips < 2; clips++) {
        struct tower_fixture fixture;
        tower_fixture_open_device(&fixture, backend);
        struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
        spec.optimizer.clip_norm = clips;
        tower_fixture_open_tower(&fixture, &spec);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        assert_true(isnan(norm_of(&fixture)));
        tower_fixture_train(&fixture);
        float *const gradients = tower_fixture_gradients(&fixture);
        double squares = 0;
        for (size_t i = 0; i < tower_fixture_floats(&fixture); i++)
            squares += (double)gradients[i] * (double)gradients[i];
        free(gradients);
        tower_fixture_update(&fixture);
        const double norm = norm_of(&fixture), expected = sqrt(squares) * (double)tower_fixture_step.gradient_scale;
        assert_true(clips ? fabs(norm - expected) < 1e-6 * expected : isnan(norm));
        tower_fixture_close(&fixture);
    }
    network_input_release(&input);
    net_close(net);
}

/* ---- refusals, numbers ---- */

TEST_ON_EACH_BACKEND(slices_without_a_plan_and_nets_with_branches_are_refused)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    tower_fixture_open(&fixture, backend, net);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH - 1);
    assert_int_equal(tower_forward(fixture.tower, &fixture.slot, 0, true), -EINVAL);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

static uint32_t allocations_left;
static const struct device_ops *whole_ops;

static int alloc_few(struct device *device, size_t bytes, void **memory_out)
{
    if (allocations_left == 0)
        return -ENOMEM;
    allocations_left--;
    return whole_ops->alloc(device, bytes, memory_out);
}

/* One allocation more at every try, until the tower opens. */
TEST_ON_EACH_BACKEND(a_tower_short_of_memory_at_any_point_does_not_open)
{
    struct net *net = tower_fixture_net(0.4f);
    whole_ops = test_device_ops();
    struct device_ops few = *whole_ops;
    int rc = -ENOMEM;
    few.alloc = alloc_few;
    for (uint32_t allowed = 0; rc; allowed++) {
        struct tower_fixture fixture;
        tower_fixture_open_device(&fixture, backend);
        fixture.device->ops = &few;
        allocations_left = allowed;
        const struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
        rc = tower_open(&fixture.tower, &spec);
        if (rc == 0)
            rc = tower_allocate(fixture.tower);
        assert_true(rc == 0 || rc == -ENOMEM);
        assert_true(rc || allowed >= 3);
        tower_fixture_close(&fixture);
    }
    net_close(net);
}

static void count_line(void *arg, const char *line)
{
    assert_true(strlen(line) > 0);
    ++*(int *)arg;
}

TEST_ON_EACH_BACKEND(memory_and_layers_are_described)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture;
    int lines = 0;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.optimizer = (struct optimizer){ .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f };
    tower_fixture_open_tower(&fixture, &spec);
    const struct tower_needs needs = tower_needs(fixture.tower);
    tower_describe(fixture.tower, count_line, &lines);
    assert_true(lines > 0);
    assert_true(needs.arenas >= 4 * tower_fixture_floats(&fixture) * sizeof(float));
    assert_true(needs.backend.values >= FIXTURE_BATCH * shape_count(net->layers[0].out) * sizeof(float));
    tower_fixture_close(&fixture);
    net_close(net);
}

static struct net *giant_net(void)
{
    struct net *net = NULL;
    assert_int_equal(net_open(&net, "giant", (struct shape){ 1, 1 << 14, 1 << 14 }, 2), 0);
    net_relu(net, "relu", NET_INPUT);
    net_max_pool(net, "pool", 0, window_square(1 << 12, 1 << 12, PADDING_VALID));
    net_dense(net, "fc", 1, 2, true);
    net_softmax_loss(net, "loss", 2);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* Each value for itself has a size, all together do not. */
TEST_ON_EACH_BACKEND(sizes_that_overflow_are_refused)
{
    struct net *net = giant_net();
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.train_counts[0] = spec.backend_spec.local_max = UINT32_MAX;
    assert_int_equal(tower_open(&fixture.tower, &spec), -EOVERFLOW);
    fixture.tower = NULL;
    tower_fixture_close(&fixture);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
