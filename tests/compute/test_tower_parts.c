/* Tests of towers with parts of the head: several towers of a run in one process, whose exchanges and reductions are made
 * here. Any number of them trains to the same bits, and to the numbers of a tower that computes the whole net. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

enum { SLICES = 4, PARTS = 4, BATCH = FIXTURE_BATCH, STEPS = 3 };

/* How a run trains. */
struct training {
    const char *backend;
    struct optimizer optimizer;
    const float *class_weights;
    double average_decay;
    bool skips;                 /* steps whose gradients are not finite */
    bool is_frozen;             /* the trunk */
};

struct run {
    uint32_t towers;
    bool has_parts;
    struct net *net;
    struct tower_fixture fixtures[PARTS];
};

static struct net *net_make(bool is_frozen)
{
    const struct batch_norm norm = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true };
    struct net *const net = network_net_begin("parts", (struct shape){ 1, 9, 7 }, 4);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, norm);
    net_relu(net, "relu", 1);
    net_dense(net, "fc1", 2, 20, true);
    net_relu(net, "relu1", 3);
    network_net_end(net, 4);
    for (uint32_t p = 0; p < net->parameter_count && is_frozen; p++)
        if (net->parameters[p].layer < 2)
            net_freeze(net, p);
    return net;
}

static struct part_range own_of(const struct run *run, uint32_t tower, uint32_t all)
{
    return head_own_parts(all, run->towers, tower);
}

static void open_tower(struct run *run, uint32_t tower, const struct training *training)
{
    struct tower_fixture *const fixture = &run->fixtures[tower];
    const struct part_range parts = own_of(run, tower, PARTS), slices = own_of(run, tower, SLICES);
    tower_fixture_open_device(fixture, training->backend);
    struct tower_spec spec = tower_fixture_spec(fixture, training->backend, run->net);
    spec.index = tower;
    spec.optimizer = training->optimizer;
    spec.average_decay = training->average_decay;
    spec.backend_spec.class_weights = training->class_weights;
    spec.backend_spec.skips_nonfinite = training->skips;
    spec.slices = (struct tower_slices){ .all = SLICES, .first = slices.first, .count = slices.count };
    if (run->has_parts)
        spec.parts = (struct tower_parts){ .all = PARTS, .first = parts.first, .count = parts.count, .batch = BATCH };
    spec.train_counts[0] = spec.evaluate_counts[0] = 2;
    spec.train_counts[1] = spec.evaluate_counts[1] = 1;
    tower_fixture_open_tower(fixture, &spec);
}

static void run_open(struct run *run, const struct training *training, uint32_t towers, bool has_parts)
{
    *run = (struct run){ .towers = towers, .has_parts = has_parts, .net = net_make(training->is_frozen) };
    for (uint32_t t = 0; t < towers; t++)
        open_tower(run, t, training);
}

static void run_close(struct run *run)
{
    for (uint32_t t = 0; t < run->towers; t++)
        tower_fixture_close(&run->fixtures[t]);
    net_close(run->net);
}

static struct tower *tower_of(const struct run *run, uint32_t tower)
{
    return run->fixtures[tower].tower;
}

/* ---- what the towers of a run exchange ---- */

static void read_floats(const struct run *run, uint32_t tower, const float *from, float *to, size_t count)
{
    device_memory_read(run->fixtures[tower].compute, to, from, count * sizeof(float));
}

static void write_floats(const struct run *run, uint32_t tower, float *to, const float *from, size_t count)
{
    device_memory_write(run->fixtures[tower].compute, to, from, count * sizeof(float));
}

/* The sum over towers, in pairs, of `count` floats at these addresses. The caller frees it. */
static float *sum_of(const struct run *run, float *const from[PARTS], size_t count)
{
    float *sums[PARTS];
    for (uint32_t t = 0; t < run->towers; t++) {
        sums[t] = malloc((count + 1) * sizeof(float));
        assert_non_null(sums[t]);
        read_floats(run, t, from[t], sums[t], count);
    }
    for (uint32_t step = 1; step < run->towers; step *= 2)
        for (uint32_t t = 0; t < run->towers; t += 2 * step) {
            for (size_t i = 0; i < count; i++)
                sums[t][i] += sums[t + step][i];
            free(sums[t + step]);
        }
    return sums[0];
}

static void reduce(const struct run *run, float *(*floats_of)(struct tower *tower), size_t count)
{
    float *from[PARTS];
    for (uint32_t t = 0; t < run->towers; t++)
        from[t] = floats_of(tower_of(run, t));
    float *const sum = sum_of(run, from, count);
    for (uint32_t t = 0; t < run->towers; t++)
        write_floats(run, t, from[t], sum, count);
    free(sum);
}

/* Tower `owner`'s piece of an exchange. */
static void exchange_piece(const struct run *run, const struct head_exchange *exchange, uint32_t owner)
{
    float *pieces[PARTS], *numbers;
    for (uint32_t t = 0; t < run->towers; t++) {
        assert_true(tower_outside(tower_of(run, t), &pieces[t]) >= exchange->offset + run->towers * exchange->count);
        pieces[t] += exchange->offset + owner * exchange->count;
    }
    if (exchange->sums) {
        numbers = sum_of(run, pieces, exchange->count);
        write_floats(run, owner, pieces[owner], numbers, exchange->count);
    } else {
        numbers = malloc((exchange->count + 1) * sizeof(float));
        assert_non_null(numbers);
        read_floats(run, owner, pieces[owner], numbers, exchange->count);
        for (uint32_t t = 0; t < run->towers; t++)
            write_floats(run, t, pieces[t], numbers, exchange->count);
    }
    free(numbers);
}

static void exchange(const struct run *run, uint32_t number)
{
    struct head_exchange exchanges[HEAD_EXCHANGES_MAX];
    assert_true(number < tower_exchanges(tower_of(run, 0), exchanges));
    for (uint32_t owner = 0; owner < run->towers && exchanges[number].count > 0; owner++)
        exchange_piece(run, &exchanges[number], owner);
}

/* ---- a step ---- */

static void ignore_ready(void *arg, size_t floats)
{
    (void)arg, (void)floats;
}

/* The towers' shares of the same batch. */
static void fill(struct run *run, const struct backend_input *input)
{
    for (uint32_t t = 0; t < run->towers; t++) {
        const struct batch_part part = batch_part_find(BATCH, false, run->towers, t);
        tower_fixture_fill(&run->fixtures[t], run->net, input, part.first, part.count);
        run->fixtures[t].slot.local.phase = PHASE_TRAIN;
    }
}

static void forward(struct run *run, uint32_t tower, uint32_t microbatch)
{
    struct tower_fixture *const fixture = &run->fixtures[tower];
    if (microbatch == 0)
        assert_int_equal(stream_wait(fixture->compute, fixture->slot.ready), 0);
    assert_int_equal(tower_forward(fixture->tower, &fixture->slot, microbatch, true), 0);
}

static void backward(struct run *run, uint32_t tower, uint32_t microbatch)
{
    const bool is_last = microbatch + 1 == tower_microbatches(tower_of(run, tower), 1);
    assert_int_equal(is_last ? tower_backward(tower_of(run, tower), ignore_ready, NULL)
                             : tower_accumulate(tower_of(run, tower)),
                     0);
}

static void compute_whole(struct run *run)
{
    for (uint32_t m = 0; m < SLICES / run->towers; m++)
        for (uint32_t t = 0; t < run->towers; t++) {
            forward(run, t, m);
            backward(run, t, m);
        }
}

static void compute_parts(struct run *run)
{
    const struct head *const head = tower_head(tower_of(run, 0));
    for (uint32_t m = 0; m < SLICES / run->towers; m++)
        for (uint32_t t = 0; t < run->towers; t++)
            forward(run, t, m);
    exchange(run, HEAD_FEATURES);
    exchange(run, HEAD_LABELS);
    for (uint32_t stage = 0; stage < head->stage_count; stage++) {
        for (uint32_t t = 0; t < run->towers; t++)
            assert_int_equal(tower_head_forward(tower_of(run, t), &run->fixtures[t].slot.local, stage, true), 0);
        exchange(run, head_exchange_after(stage));
    }
    for (uint32_t stage = head->stage_count; stage-- > 0;) {
        for (uint32_t t = 0; t < run->towers; t++)
            assert_int_equal(tower_head_backward(tower_of(run, t), stage), 0);
        exchange(run, head_exchange_of_gradients(head, stage));
    }
    for (uint32_t m = 0; m < SLICES / run->towers; m++)
        for (uint32_t t = 0; t < run->towers; t++)
            backward(run, t, m);
}

static void update(struct run *run, const struct optimizer_step *step)
{
    const bool is_at_once = tower_updates_at_once(tower_of(run, 0));
    for (uint32_t t = 0; t < run->towers; t++) {
        struct tower *const tower = tower_of(run, t);
        const size_t count = tower_arena(tower)->updated;
        assert_int_equal(tower_divide_statistics(tower, BATCH), 0);
        assert_int_equal(tower_weigh(tower, 0, count, BATCH), 0);
        if (is_at_once)
            assert_int_equal(tower_check(tower, 0, count), 0);
        assert_int_equal(tower_put_norms(tower, step), 0);
    }
    if (run->has_parts)
        exchange(run, head_exchange_of_norms(tower_head(tower_of(run, 0))));
    for (uint32_t t = 0; t < run->towers; t++) {
        assert_int_equal(tower_update(tower_of(run, t), 0, tower_arena(tower_of(run, t))->updated, step), 0);
        assert_int_equal(tower_update_average(tower_of(run, t), step->number), 0);
    }
}

static struct backend_result result_of(struct run *run, uint32_t tower, uint32_t microbatch)
{
    struct tower_fixture *const fixture = &run->fixtures[tower];
    if (!run->has_parts)
        return tower_fixture_result(fixture);
    assert_int_equal(tower_head_result(fixture->tower, &fixture->slot.local, microbatch, fixture->result), 0);
    device_memory_wait(fixture->compute);
    return *fixture->result;
}

/* Was the step skipped, as the result of a tower's last microbatch says? */
static bool has_skipped(struct run *run, uint32_t tower)
{
    struct backend_result result = { 0 };
    for (uint32_t m = 0; m < SLICES / run->towers; m++)
        result = result_of(run, tower, m);
    return result.is_skipped != 0;
}

/* All towers agree. */
static bool was_skipped(struct run *run)
{
    const bool was = has_skipped(run, 0);
    for (uint32_t t = 1; t < run->towers; t++)
        assert_int_equal(has_skipped(run, t), was);
    return was;
}

static bool step(struct run *run, uint64_t number)
{
    struct optimizer_step step = { .number = number, .learning_rate = 0.1f, .gradient_scale = 1.0f / BATCH };
    if (run->has_parts)
        compute_parts(run);
    else
        compute_whole(run);
    reduce(run, tower_gradients, tower_arena(tower_of(run, 0))->shared);
    reduce(run, tower_statistics, tower_statistics_count(tower_of(run, 0)));
    update(run, &step);
    return was_skipped(run);
}

/* ---- comparison ---- */

static size_t number_count(const struct net *net)
{
    return net->trainable_count + net->statistic_count;
}

/* All weights and statistics, each number from the towers that have it. The caller frees them. */
static float *numbers_of(struct run *run)
{
    float *const numbers = calloc(number_count(run->net), sizeof(*numbers)), *next = numbers;
    assert_non_null(numbers);
    for (uint32_t p = 0; p < run->net->parameter_count; next += run->net->parameters[p++].count)
        for (uint32_t t = 0; t < run->towers; t++)
            assert_int_equal(tower_read(tower_of(run, t), p, next), 0);
    return numbers;
}

/* The norm of all gradients of the last update; 0 without clip_norm. */
static double norm_of(const struct run *run, uint32_t tower)
{
    const struct param_groups *const groups = tower_param_groups(tower_of(run, tower));
    double squares = 0;
    if (groups->clips)
        device_memory_read(run->fixtures[tower].compute, &squares, groups->all_sums, sizeof(squares));
    return sqrt(squares);
}

struct outcome { float *numbers; double norm; };

static void take_steps(struct run *run, uint64_t first, uint64_t end)
{
    for (uint64_t number = first; number < end; number++)
        assert_false(step(run, number));
}

static struct outcome train(const struct training *training, uint32_t towers, bool has_parts)
{
    struct run run;
    run_open(&run, training, towers, has_parts);
    struct backend_input input = network_input(run.net, BATCH, 5);
    fill(&run, &input);
    take_steps(&run, 0, STEPS);
    for (uint32_t t = 0; t < towers; t++)
        assert_int_equal(tower_show_average(tower_of(&run, t), true), 0);
    const struct outcome outcome = { numbers_of(&run), norm_of(&run, 0) };
    for (uint32_t t = 1; t < towers; t++)
        assert_true(norm_of(&run, t) == outcome.norm);
    network_input_release(&input);
    run_close(&run);
    return outcome;
}

static void check_near(const struct outcome *found, const struct outcome *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(found->numbers[i] - expected->numbers[i]) <= 2e-5f);
    assert_true(fabs(found->norm - expected->norm) <= 1e-4 * expected->norm);
}

static void check(struct training training)
{
    if (backend_find(training.backend)->part_result == NULL)
        return;
    struct net *const net = net_make(training.is_frozen);
    const size_t count = number_count(net);
    const struct outcome whole = train(&training, 1, false), alone = train(&training, 1, true);
    check_near(&alone, &whole, count);
    for (uint32_t towers = 2; towers <= PARTS; towers *= 2) {
        const struct outcome outcome = train(&training, towers, true);
        assert_memory_equal(outcome.numbers, alone.numbers, count * sizeof(*alone.numbers));
        assert_true(outcome.norm == alone.norm);
        free(outcome.numbers);
    }
    free(whole.numbers);
    free(alone.numbers);
    net_close(net);
}

TEST_ON_EACH_BACKEND(towers_train_to_the_same_bits)
{
    check((struct training){ .backend = backend,
                             .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .weight_decay = 1e-3f } });
    check((struct training){ .backend = backend, .average_decay = 0.75, .skips = true,
                             .optimizer = { .kind = OPTIMIZER_NESTEROV, .momentum = 0.5f, .clip_value = 0.05 } });
}

static const float class_weights[] = { 0.5f, 3, 0, 1.25f };

TEST_ON_EACH_BACKEND(norms_are_clipped_over_all_parts)
{
    const struct optimizer clips = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.1 };
    struct optimizer decays = clips;
    decays.clip_value = 0.05;
    decays.weight_decay = 1e-3f;
    check((struct training){ .backend = backend, .optimizer = clips });
    check((struct training){ .backend = backend, .optimizer = decays, .class_weights = class_weights, .skips = true });
    check((struct training){ .backend = backend, .optimizer = clips, .is_frozen = true });
}

TEST_ON_EACH_BACKEND(rates_of_lars_are_those_of_whole_parameters)
{
    const struct optimizer lars = { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.05, .weight_decay = 1e-3f };
    struct optimizer clips = lars;
    clips.clip_norm = 0.2;
    check((struct training){ .backend = backend, .optimizer = lars, .class_weights = class_weights });
    check((struct training){ .backend = backend, .optimizer = clips, .average_decay = 0.5 });
}

/* ---- steps that are skipped ---- */

/* A number of a bias of the head, or of a convolution, for one step. */
static void broken_step(struct run *run, uint32_t parameter, uint32_t index, float number)
{
    float *const values = calloc(run->net->parameters[parameter].count, sizeof(*values));
    assert_non_null(values);
    for (uint32_t t = 0; t < run->towers; t++)
        assert_int_equal(tower_read(tower_of(run, t), parameter, values), 0);
    const float before = values[index];
    values[index] = number;
    for (uint32_t t = 0; t < run->towers; t++)
        assert_int_equal(tower_write(tower_of(run, t), parameter, values), 0);
    assert_true(step(run, 2));
    values[index] = before;
    for (uint32_t t = 0; t < run->towers; t++)
        assert_int_equal(tower_write(tower_of(run, t), parameter, values), 0);
    free(values);
}

static float *train_with_broken_steps(const struct training *training, uint32_t towers, uint32_t breaks)
{
    struct run run;
    run_open(&run, training, towers, true);
    struct backend_input input = network_input(run.net, BATCH, 5);
    const uint32_t last = run.net->parameter_count - 1;
    fill(&run, &input);
    take_steps(&run, 0, 2);
    for (uint32_t i = 0; i < breaks; i++)
        broken_step(&run, i == PARTS ? 0 : last, i == PARTS ? 1 : i, i % 2 == 0 ? NAN : INFINITY);
    take_steps(&run, 2, STEPS);
    float *const numbers = numbers_of(&run);
    network_input_release(&input);
    run_close(&run);
    return numbers;
}

/* Whichever part has a number that is not finite: no tower changes anything in that step. */
TEST_ON_EACH_BACKEND(a_step_that_breaks_in_one_part_is_skipped_by_all_towers)
{
    struct training training = { .backend = backend, .average_decay = 0.75, .skips = true,
                                 .optimizer = { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3f } };
    if (backend_find(backend)->part_result == NULL)
        return;
    struct net *const net = net_make(false);
    for (int clips = 0; clips < 2; clips++) {
        training.optimizer.clip_norm = clips ? 0.1 : 0;
        float *const expected = train_with_broken_steps(&training, 1, 0);
        for (uint32_t towers = 1; towers <= PARTS; towers *= 2) {
            float *const found = train_with_broken_steps(&training, towers, PARTS + 1);
            assert_memory_equal(found, expected, number_count(net) * sizeof(*found));
            free(found);
        }
        free(expected);
    }
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
