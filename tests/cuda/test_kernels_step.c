/* Tests of the kernels over ranges of the arenas, with every type and odd lengths, against plain loops and the update
 * of the CPU. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "compute/floats.h"
#include "compute/part_norms.h"
#include "stage/pairwise.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/test.h"
#include "tests/peers/optimizer_trajectories.h"
#include "tests/peers/trajectory_numbers.h"
#include "tests/sim/sim_values.h"

/* ---- update ---- */

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD },
    { .kind = OPTIMIZER_SGD, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
    { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-6f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.9f, .epsilon = 1e-7f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.9, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.01, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-3f, .weight_decay = 0.01f },
};

enum { RANGE_WEIGHTS, RANGE_GRADIENTS, RANGE_STATES, RANGE_ARRAYS = RANGE_STATES + OPTIMIZER_STATES_MAX };

/* The same values on the host and on the device. */
struct ranges { float *host[RANGE_ARRAYS]; float *device[RANGE_ARRAYS]; uint32_t arrays; size_t count; };

/* Is the state a mean of squares, so never negative? */
static bool has_squares(enum optimizer_kind kind, uint32_t state)
{
    const bool is_second = kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW;
    const bool is_first =
        kind == OPTIMIZER_RMSPROP || kind == OPTIMIZER_RMSPROP_KERAS || kind == OPTIMIZER_RMSPROP_PYTORCH;
    return kind == OPTIMIZER_ADADELTA || (state == 0 ? is_first : is_second);
}

static struct ranges ranges_open(const struct optimizer *optimizer, size_t count)
{
    struct ranges ranges = { .arrays = RANGE_STATES + optimizer_state_count(optimizer->kind), .count = count };
    for (uint32_t i = 0; i < ranges.arrays; i++) {
        ranges.host[i] = draw(VALUE_FP32, 20 + i, count);
        for (size_t k = 0; k < count && i >= RANGE_STATES; k++)
            ranges.host[i][k] *= has_squares(optimizer->kind, i - RANGE_STATES) ? ranges.host[i][k] : 1;
        ranges.device[i] = values_new(VALUE_FP32, ranges.host[i], count);
    }
    return ranges;
}

static struct optimizer_range range_of(float *const arrays[RANGE_ARRAYS], size_t count)
{
    return (struct optimizer_range){
        .weights = arrays[RANGE_WEIGHTS], .gradients = arrays[RANGE_GRADIENTS],
        .states = { arrays[RANGE_STATES], arrays[RANGE_STATES + 1] }, .count = count, .decays = true,
    };
}

static void assert_updated(const struct ranges *ranges, enum value_type type, const void *shadow)
{
    for (uint32_t i = 0; i < ranges->arrays; i++) {
        const float *const found = values_read(VALUE_FP32, ranges->device[i], ranges->count);
        for (size_t k = 0; k < ranges->count; k++)
            assert_within(found[k], ranges->host[i][k], 1e-6, 1e-7);
        if (i == RANGE_WEIGHTS && shadow != NULL)
            assert_values(type, shadow, found, ranges->count);
    }
    assert_values(VALUE_FP32, ranges->device[RANGE_GRADIENTS], ranges->host[RANGE_GRADIENTS], ranges->count);
}

/* `squares` is NULL or those of the weights, of the gradients and of all gradients. */
static void check_update(enum value_type type, const struct optimizer *optimizer, size_t count,
                         const struct loss_scale *scale, const double squares[3], bool has_shadow)
{
    struct optimizer_step step = { .number = 3, .learning_rate = 0.05f, .gradient_scale = 1.0f / 96 };
    struct ranges ranges = ranges_open(optimizer, count);
    void *shadow = has_shadow ? values_poison(type, count) : NULL;
    struct optimizer_range host = range_of(ranges.host, count), device = range_of(ranges.device, count);
    const struct optimizer_numbers numbers = optimizer_numbers(optimizer, &step, true);
    if (squares != NULL) {
        const double *const there = area_new(squares, 3 * sizeof(*squares));
        host.weight_squares = squares, host.gradient_squares = squares + 1;
        device.weight_squares = there, device.gradient_squares = there + 1;
        if (optimizer->clip_norm > 0)
            host.all_squares = squares + 2, device.all_squares = there + 2;
    }
    CUDA_OK(kernel_update(stream, optimizer->kind, &numbers, &numbers, scale ? area_new(scale, sizeof(*scale)) : NULL,
                          &device, 1, type, shadow));
    step.gradient_scale /= scale != NULL ? scale->factor : 1;
    optimizer_update(optimizer, &step, &host);
    assert_updated(&ranges, type, shadow);
    areas_close();
}

TEST(update_equals_the_host_for_every_optimizer)
{
    static const size_t counts[] = { 0, 1, 3, 4, 5, 1023, 1024, 2051 };
    static const struct loss_scale scale = { .factor = 4096 };
    FOR_EACH_TYPE(type)
        for (size_t o = 0; o < COUNT_OF(optimizers); o++)
            for (size_t c = 0; c < COUNT_OF(counts); c++) {
                check_update(type, &optimizers[o], counts[c], NULL, NULL, true);
                check_update(type, &optimizers[o], counts[c], &scale, NULL, c % 2);
            }
}

/* ---- many ranges ---- */

enum { PARTS = 300, PART_STRIDE = 16, PART_LARGEST = 13 };

static size_t part_count(uint32_t part)
{
    return part == 7 ? 0 : 1 + part * 5 % PART_LARGEST;
}

/* Every second part decays, and numbers between the parts are unused; LARS has sums of squares for each part. */
static struct optimizer_range part_of(const struct optimizer_range *whole, uint32_t part, const double *squares)
{
    struct optimizer_range range = *whole;
    const size_t at = (size_t)part * PART_STRIDE;
    range.weights += at;
    range.gradients += at;
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        range.states[i] = range.states[i] != NULL ? range.states[i] + at : NULL;
    range.count = part_count(part);
    range.decays = part % 2 == 0;
    range.weight_squares = squares != NULL ? squares + part % 5 : NULL;
    range.gradient_squares = squares != NULL ? squares + 1 + part % 5 : NULL;
    return range;
}

static void check_parts(enum value_type type, const struct optimizer *optimizer)
{
    static const double squares[] = { 3, 0, 17, 250, 1, 40 };
    const struct optimizer_step step = { .number = 3, .learning_rate = 0.05f, .gradient_scale = 1.0f / 96 };
    const struct optimizer_numbers kept = optimizer_numbers(optimizer, &step, false);
    const struct optimizer_numbers decayed = optimizer_numbers(optimizer, &step, true);
    const size_t count = (size_t)PARTS * PART_STRIDE;
    struct ranges ranges = ranges_open(optimizer, count);
    struct optimizer_range host = range_of(ranges.host, count), device = range_of(ranges.device, count), parts[PARTS];
    const double *const there = area_new(squares, sizeof(squares));
    unsigned char *const shadow = values_poison(type, count);
    const bool adapts = optimizer_adapts(optimizer->kind);
    for (uint32_t part = 0; part < PARTS; part++) {
        parts[part] = part_of(&device, part, adapts ? there : NULL);
        const struct optimizer_range same = part_of(&host, part, adapts ? squares : NULL);
        optimizer_update(optimizer, &step, &same);
    }
    CUDA_OK(kernel_update(stream, optimizer->kind, &kept, &decayed, NULL, parts, PARTS, type, shadow));
    assert_updated(&ranges, type, NULL);
    const float *const weights = values_read(VALUE_FP32, ranges.device[RANGE_WEIGHTS], count);
    const unsigned char *const found = device_copy(shadow, count * value_bytes(type));
    for (uint32_t part = 0; part < PARTS; part++) {
        const size_t at = (size_t)part * PART_STRIDE, end = at + part_count(part);
        assert_values(type, shadow + at * value_bytes(type), weights + at, part_count(part));
        for (size_t byte = end * value_bytes(type); byte < (at + PART_STRIDE) * value_bytes(type); byte++)
            assert_int_equal(found[byte], POISON_BYTE);
    }
    areas_close();
}

TEST(many_ranges_are_updated_like_single_ones)
{
    FOR_EACH_TYPE(type)
        for (size_t o = 0; o < COUNT_OF(optimizers); o++)
            check_parts(type, &optimizers[o]);
}

/* The start of a trajectory on the device, with memory for the squares that its optimizer needs. */
static struct optimizer_range trajectory_range(const struct trajectory *trajectory)
{
    float starts[RANGE_ARRAYS][NUMBERS], *arrays[RANGE_ARRAYS] = { NULL };
    const uint32_t states = optimizer_state_count(trajectory->optimizer.kind);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        starts[RANGE_WEIGHTS][i] = start_at(i);
        for (uint32_t state = 0; state < states; state++)
            starts[RANGE_STATES + state][i] = optimizer_state_start(trajectory->optimizer.kind, state);
    }
    for (uint32_t i = 0; i < RANGE_STATES + states; i++)
        arrays[i] = i == RANGE_GRADIENTS ? values_poison(VALUE_FP32, NUMBERS)
                                         : values_new(VALUE_FP32, starts[i], NUMBERS);
    struct optimizer_range range = range_of(arrays, NUMBERS);
    if (optimizer_adapts(trajectory->optimizer.kind)) {
        range.weight_squares = area_new(NULL, SQUARES_ROOM * sizeof(double));
        range.gradient_squares = area_new(NULL, SQUARES_ROOM * sizeof(double));
    }
    return range;
}

/* Gradients are sums over 4 samples. */
static void trajectory_step(const struct trajectory *trajectory, struct optimizer_range *range, uint32_t number)
{
    float gradients[NUMBERS];
    const struct optimizer_step step = { number, trajectory->rate, 1.0f / 4 };
    const struct optimizer_numbers numbers = optimizer_numbers(&trajectory->optimizer, &step, true);
    for (uint32_t i = 0; i < NUMBERS; i++)
        gradients[i] = 4 * gradient_at(number, i);
    CUDA_OK(cudaMemcpyAsync((void *)(uintptr_t)range->gradients, gradients, sizeof(gradients), cudaMemcpyHostToDevice,
                            stream));
    if (range->weight_squares != NULL) {
        const struct squares squares[] = {
            { range->weights, NUMBERS, (double *)(uintptr_t)range->weight_squares },
            { range->gradients, NUMBERS, (double *)(uintptr_t)range->gradient_squares },
        };
        CUDA_OK(kernel_squares(stream, squares, COUNT_OF(squares)));
    }
    CUDA_OK(kernel_update(stream, trajectory->optimizer.kind, &numbers, &numbers, NULL, range, 1, VALUE_FP32, NULL));
    CUDA_OK(cudaStreamSynchronize(stream));
}

TEST(every_optimizer_follows_the_reference_trajectory)
{
    for (size_t t = 0; t < COUNT_OF(trajectories); t++) {
        struct optimizer_range range = trajectory_range(&trajectories[t]);
        uint32_t point = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            float weights[NUMBERS];
            trajectory_step(&trajectories[t], &range, step);
            if (points[point] != step + 1)
                continue;
            read_back(range.weights, weights, sizeof(weights));
            trajectory_assert_at(&trajectories[t], point++, weights);
        }
        assert_int_equal(point, POINTS);
        areas_close();
    }
}

/* ---- sums of squares ---- */

TEST(squares_equal_those_of_the_host)
{
    static const size_t counts[] = { 0, 1, 63, 64, 65, 4096, 4097, 70003 };
    enum { RANGES = 37 };
    struct squares squares[RANGES];
    double host[SQUARES_ROOM];
    float *floats[RANGES];
    for (uint32_t i = 0; i < RANGES; i++) {
        const size_t count = counts[i % COUNT_OF(counts)];
        floats[i] = draw(VALUE_FP32, 40 + i, count);
        squares[i] = (struct squares){ values_new(VALUE_FP32, floats[i], count), count,
                                       area_new(NULL, SQUARES_ROOM * sizeof(double)) };
    }
    CUDA_OK(kernel_squares(stream, squares, RANGES));
    for (uint32_t i = 0; i < RANGES; i++) {
        double device;
        const struct squares plain = { floats[i], squares[i].count, host };
        squares_sum_parts(&plain, 0, SQUARES_PARTS);
        squares_sum(&plain);
        read_back(squares[i].sum, &device, sizeof(device));
        assert_true(fabs(device - host[0]) <= 1e-13 * host[0]);
    }
    areas_close();
}

/* The same norms on the device, in memory of its own. */
static struct part_norms norms_on_device(const struct part_norms *host)
{
    struct part_norms device = *host;
    const size_t numbers = (size_t)host->parts * part_norms_numbers(host);
    device.own = area_new(host->own, host->count * host->sums * SQUARES_ROOM * sizeof(double));
    device.exchanged = area_new(host->exchanged, numbers * sizeof(double));
    device.totals = area_new(NULL, host->sums * sizeof(double));
    device.all_squares = host->all_squares != NULL ? area_new(host->all_squares, SQUARES_ROOM * sizeof(double)) : NULL;
    return device;
}

/* Each of the parts but the own ones is exchanged already; part `broken` is not finite. */
static void check_norms(struct part_norms norms, uint32_t broken, bool skips)
{
    const uint32_t numbers = part_norms_numbers(&norms);
    const bool is_own = broken - norms.first < norms.count, is_broken = skips && broken < norms.parts;
    const struct loss_scale scale = { .factor = 1, .overflowed = is_own ? LOSS_SCALE_BROKEN : LOSS_SCALE_LEFT_OUT };
    double all[SQUARES_ROOM] = { 12.5 };
    struct loss_scale found;
    norms.own = host_new(norms.count * norms.sums * SQUARES_ROOM * sizeof(double));
    norms.exchanged = host_new((size_t)norms.parts * numbers * sizeof(double));
    norms.totals = host_new(norms.sums * sizeof(double));
    norms.all_squares = norms.gradient_sums > 0 ? all : NULL;
    for (size_t i = 0; i < norms.count * norms.sums * SQUARES_ROOM; i++)
        norms.own[i] = 1.0 / (double)(3 + i);
    for (uint32_t i = 0; i < norms.parts * numbers; i++)
        norms.exchanged[i] = i % numbers == 0 ? i / numbers == broken : 1.0 / (7 + i);
    const struct part_norms device = norms_on_device(&norms);
    struct loss_scale *const device_scale = skips ? area_new(&scale, sizeof(scale)) : NULL;
    CUDA_OK(kernel_put_norms(stream, &device, device_scale));
    CUDA_OK(kernel_add_norms(stream, &device, device_scale));
    for (uint32_t i = 0; i < norms.count * numbers; i++)
        part_norms_put(&norms, i, skips && is_own);
    for (uint32_t sum = 0; sum < norms.sums; sum++)
        part_norms_add(&norms, sum);
    part_norms_add_gradients(&norms);
    assert_holds(device.exchanged, norms.exchanged, (size_t)norms.parts * numbers * sizeof(double));
    assert_holds(device.totals, norms.totals, norms.sums * sizeof(double));
    if (norms.all_squares != NULL)
        assert_holds(device.all_squares, all, sizeof(all));
    if (skips) {
        read_back(device_scale, &found, sizeof(found));
        assert_int_equal(found.overflowed == LOSS_SCALE_BROKEN, is_broken);
    }
    areas_close();
}

TEST(norms_over_parts_are_those_of_the_host)
{
    for (uint32_t broken = 0; broken < 5; broken++)
        for (int skips = 0; skips < 2; skips++) {
            check_norms((struct part_norms){ .parts = 4, .first = 2, .count = 2, .sums = 5, .gradient_sums = 3 }, broken,
                        skips);
            check_norms((struct part_norms){ .parts = 4, .first = 1, .count = 1 }, broken, skips);
        }
    check_norms((struct part_norms){ .parts = 64, .count = 64, .sums = 48, .gradient_sums = 32 }, 63, true);
    check_norms((struct part_norms){ .parts = 1, .count = 1, .sums = 2, .gradient_sums = 2 }, 1, false);
}

TEST(gradients_are_clipped_as_on_the_host)
{
    static const struct loss_scale scale = { .factor = 64 };
    static const double squares[][3] = { { 3, 5, 0 }, { 3, 5, 1e4 }, { 3, 5, 1e9 } };
    for (size_t o = 0; o < COUNT_OF(optimizers); o++)
        for (size_t i = 0; i < COUNT_OF(squares); i++) {
            struct optimizer clipping = optimizers[o];
            clipping.clip_norm = 0.5;
            check_update(VALUE_FP32, &clipping, 101, &scale, squares[i], false);
        }
}

TEST(clip_value_limits_floats_beyond_the_limit)
{
    static const struct loss_scale scale = { .factor = 4 };
    for (size_t i = 0; i < COUNT_OF(odd_counts); i++)
        for (int scaled = 0; scaled < 2; scaled++) {
            const size_t count = odd_counts[i];
            const float limit = 0.25f, most = scaled ? limit * scale.factor : limit;
            float *values = draw(VALUE_FP32, 50, count), *range = values_new(VALUE_FP32, values, count);
            CUDA_OK(kernel_clip_value(stream, count, limit, scaled ? area_new(&scale, sizeof(scale)) : NULL, range));
            for (size_t k = 0; k < count; k++)
                values[k] = values[k] > most ? most : values[k] < -most ? -most : values[k];
            assert_values(VALUE_FP32, range, values, count);
            areas_close();
        }
    float odd[] = { NAN, INFINITY, -INFINITY, 1 };
    float *range = values_new(VALUE_FP32, odd, COUNT_OF(odd));
    CUDA_OK(kernel_clip_value(stream, COUNT_OF(odd), 2, NULL, range));
    read_back(range, odd, sizeof(odd));
    assert_true(isnan(odd[0]) && odd[1] == 2 && odd[2] == -2 && odd[3] == 1);
    areas_close();
}

TEST(lars_scales_the_rate_as_on_the_host)
{
    static const struct loss_scale scale = { .factor = 256 };
    static const struct optimizer lars = { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.02,
                                           .weight_decay = 0.01f };
    static const double squares[] = { 31, 1700, 0 };
    check_update(VALUE_FP32, &lars, 515, NULL, squares, false);
    check_update(VALUE_FP32, &lars, 515, &scale, squares, false);
}

TEST(update_writes_nothing_after_an_overflow)
{
    enum { COUNT = 77 };
    static const struct loss_scale scale = { .factor = 2, .overflowed = 1 };
    unsigned char poison[COUNT * sizeof(float)];
    memset(poison, POISON_BYTE, sizeof(poison));
    FOR_EACH_TYPE(type)
        for (size_t o = 0; o < COUNT_OF(optimizers); o++) {
            struct ranges ranges = ranges_open(&optimizers[o], COUNT);
            const struct optimizer_range device = range_of(ranges.device, COUNT);
            void *shadow = values_poison(type, COUNT);
            const struct optimizer_step step = { .learning_rate = 0.1f, .gradient_scale = 1 };
            const struct optimizer_numbers numbers = optimizer_numbers(&optimizers[o], &step, true);
            CUDA_OK(kernel_update(stream, optimizers[o].kind, &numbers, &numbers, area_new(&scale, sizeof(scale)),
                                  &device, 1, type, shadow));
            for (uint32_t i = 0; i < ranges.arrays; i++)
                assert_values(VALUE_FP32, ranges.device[i], ranges.host[i], COUNT);
            assert_holds(shadow, poison, COUNT * value_bytes(type));
            areas_close();
        }
}

/* ---- between fp32 and a type ---- */

/* Hard cases of rounding: ties, subnormals, overflow, on both sides of each. */
static float *awkward_floats(size_t count)
{
    static const float special[] = {
        0, 1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 65504, 65519.996f, 65520, 1e6f, FLT_MAX,
        INFINITY, 0x1p-14f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x3p-25f, 0x1p-126f, 0x1p-133f, 0x1p-149f, 0x1.ffcp-15f,
        0x1.fffp-15f,
    };
    float *values = draw(VALUE_FP32, 30, count);
    for (size_t i = 0; i < count; i++) {
        values[i] *= i % 3 ? 1 : 0x1p-16f;
        if (i < 2 * COUNT_OF(special))
            values[i] = i % 2 ? -special[i / 2] : special[i / 2];
    }
    return values;
}

TEST(narrow_rounds_once_to_nearest_even)
{
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < COUNT_OF(odd_counts); i++) {
            const size_t count = odd_counts[i];
            float *values = awkward_floats(count);
            void *to = values_poison(type, count);
            CUDA_OK(kernel_narrow(stream, type, count, values_new(VALUE_FP32, values, count), to));
            assert_values(type, to, values, count);
            areas_close();
        }
}

TEST(widen_is_exact_for_every_16_bit_number)
{
    enum { ALL = 1 << 16 };
    static const enum value_type types[] = { VALUE_FP16, VALUE_BF16 };
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        uint16_t *const numbers = host_new(ALL * sizeof(*numbers));
        float *const to = area_new(NULL, ALL * sizeof(*to));
        for (size_t i = 0; i < ALL; i++)
            numbers[i] = (uint16_t)i;
        CUDA_OK(kernel_widen(stream, types[t], ALL, area_new(numbers, ALL * sizeof(*numbers)), to));
        const float *const found = values_read(VALUE_FP32, to, ALL);
        for (size_t i = 0; i < ALL; i++) {
            const float expected = types[t] == VALUE_FP16 ? sim_fp16_read(numbers[i]) : sim_bf16_read(numbers[i]);
            assert_true(isnan(expected) ? isnan(found[i]) : memcmp(&expected, &found[i], sizeof(expected)) == 0);
        }
        areas_close();
    }
}

TEST(widen_takes_every_count)
{
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < COUNT_OF(odd_counts); i++) {
            const size_t count = odd_counts[i];
            float *values = draw(type, 31, count), *to = area_new(NULL, count * sizeof(*to));
            CUDA_OK(kernel_widen(stream, type, count, values_new(type, values, count), to));
            assert_values(VALUE_FP32, to, values, count);
            areas_close();
        }
}

/* ---- numbers that are not finite ---- */

static uint32_t overflowed_after_check(const float *gradients, size_t count, uint32_t before)
{
    struct loss_scale scale = { .factor = 8, .good_steps = 3, .overflowed = before, .skipped_steps = 4 };
    struct loss_scale *device = area_new(&scale, sizeof(scale));
    CUDA_OK(kernel_check(stream, count, values_new(VALUE_FP32, gradients, count), device));
    read_back(device, &scale, sizeof(scale));
    areas_close();
    assert_true(scale.factor == 8 && scale.good_steps == 3 && scale.skipped_steps == 4);
    return scale.overflowed;
}

static uint64_t first_nonfinite(const float *floats, size_t count)
{
    uint64_t first = 7, *device = area_new(&first, sizeof(first));
    CUDA_OK(kernel_find_nonfinite(stream, count, values_new(VALUE_FP32, floats, count), device));
    read_back(device, &first, sizeof(first));
    areas_close();
    return first;
}

TEST(a_number_that_is_not_finite_is_found_in_any_place)
{
    enum { COUNT = 2061 };
    static const float bad[] = { INFINITY, -INFINITY, NAN, 1e24f, -FLT_MAX, FINITE_BOUND };
    float floats[COUNT];
    memcpy(floats, draw(VALUE_FP32, 32, COUNT), sizeof(floats));
    floats[1] = 1e18f;
    floats[2] = -1e18f;
    floats[3] = 0x1p-149f;
    assert_int_equal(overflowed_after_check(floats, COUNT, 0), 0);
    assert_int_equal(overflowed_after_check(floats, COUNT, 1), 1);
    assert_int_equal(overflowed_after_check(floats, 0, 0), 0);
    assert_true(first_nonfinite(floats, COUNT) == UINT64_MAX);
    assert_true(first_nonfinite(floats, 0) == UINT64_MAX);
    for (size_t i = 0; i < COUNT; i += i < 16 || i > COUNT - 16 ? 1 : 97) {
        const float kept = floats[i], last = floats[COUNT - 1];
        floats[i] = bad[i % COUNT_OF(bad)];
        assert_int_equal(overflowed_after_check(floats, COUNT, 0), 1);
        assert_int_equal(overflowed_after_check(floats, i, 0), 0);      /* beyond the range */
        assert_true(first_nonfinite(floats, i) == UINT64_MAX);
        floats[COUNT - 1] = NAN;
        assert_int_equal(first_nonfinite(floats, COUNT), i);
        floats[COUNT - 1] = last;
        floats[i] = kept;
    }
}

/* ---- loss scale, adjusted ---- */

static struct loss_scale adjusted_with(struct loss_scale scale, bool is_fixed)
{
    const uint32_t before = scale.overflowed;
    struct loss_scale *device = area_new(&scale, sizeof(scale));
    CUDA_OK(kernel_adjust_scale(stream, device, is_fixed));
    read_back(device, &scale, sizeof(scale));
    areas_close();
    assert_int_equal(scale.overflowed, before == LOSS_SCALE_BROKEN ? LOSS_SCALE_LEFT_OUT : 0);
    return scale;
}

static struct loss_scale adjusted(struct loss_scale scale)
{
    return adjusted_with(scale, false);
}

TEST(a_fixed_scale_counts_skipped_steps)
{
    struct loss_scale scale = { .factor = 1, .overflowed = LOSS_SCALE_BROKEN };
    scale = adjusted_with(scale, true);
    assert_true(scale.factor == 1 && scale.skipped_steps == 1);
    for (uint32_t i = 0; i < 3; i++) {
        scale.good_steps = LOSS_SCALE_GROWTH - 1;
        scale = adjusted_with(scale, true);
        assert_true(scale.factor == 1 && scale.skipped_steps == 1);
    }
}

/* After a broken step only, and within the range only. */
TEST(numbers_are_restored_after_a_broken_step)
{
    enum { COUNT = 1033 };
    static const uint32_t states[] = { 0, LOSS_SCALE_BROKEN, LOSS_SCALE_LEFT_OUT };
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        const float *const now = draw(VALUE_FP32, 34, COUNT), *const before = draw(VALUE_FP32, 35, COUNT);
        const struct loss_scale scale = { .factor = 1, .overflowed = states[i] };
        float *floats = values_new(VALUE_FP32, now, COUNT);
        CUDA_OK(kernel_restore_if_nonfinite(stream, COUNT - 1, area_new(&scale, sizeof(scale)),
                                            values_new(VALUE_FP32, before, COUNT), floats));
        const float *const got = device_copy(floats, COUNT * sizeof(*got));
        assert_memory_equal(got, states[i] == LOSS_SCALE_BROKEN ? before : now, (COUNT - 1) * sizeof(float));
        assert_memory_equal(&got[COUNT - 1], &now[COUNT - 1], sizeof(float));
        areas_close();
    }
}

TEST(the_scale_is_halved_by_an_overflow_and_doubled_by_many_good_steps)
{
    struct loss_scale scale = { .factor = LOSS_SCALE_FIRST, .good_steps = 7, .overflowed = 1, .skipped_steps = 2 };
    scale = adjusted(scale);
    assert_true(scale.factor == LOSS_SCALE_FIRST / 2 && scale.good_steps == 0 && scale.skipped_steps == 3);
    scale = adjusted(scale);
    assert_true(scale.factor == LOSS_SCALE_FIRST / 2 && scale.good_steps == 1 && scale.skipped_steps == 3);
    scale.good_steps = LOSS_SCALE_GROWTH - 2;
    scale = adjusted(scale);
    assert_true(scale.factor == LOSS_SCALE_FIRST / 2 && scale.good_steps == LOSS_SCALE_GROWTH - 1);
    scale = adjusted(scale);
    assert_true(scale.factor == LOSS_SCALE_FIRST && scale.good_steps == 0);
}

TEST(the_scale_stays_within_its_limits)
{
    struct loss_scale scale = adjusted((struct loss_scale){ .factor = LOSS_SCALE_LEAST, .overflowed = 1 });
    assert_true(scale.factor == LOSS_SCALE_LEAST && scale.skipped_steps == 1);
    scale = adjusted((struct loss_scale){ .factor = LOSS_SCALE_MOST, .good_steps = LOSS_SCALE_GROWTH - 1 });
    assert_true(scale.factor == LOSS_SCALE_MOST && scale.good_steps == 0);
}

/* ---- mean over towers ---- */

TEST(scale_multiplies_exactly_its_range)
{
    for (size_t count = 0; count < 70; count++) {
        float *values = draw(VALUE_FP32, count, 80);
        float *range = values_new(VALUE_FP32, values, 80);
        for (size_t i = 0; i < count; i++)
            values[i] *= 0.3f;
        CUDA_OK(kernel_scale(stream, count, 0.3f, range));
        assert_values(VALUE_FP32, range, values, 80);
        areas_close();
    }
}

/* Products with powers of two are exact, so fused products give the same bits. */
static void check_axpby(size_t count, float share, float keep)
{
    float *values = draw(VALUE_FP32, count, 80), *more = draw(VALUE_FP32, count + 90, 80);
    float *range = values_new(VALUE_FP32, values, 80), *others = values_new(VALUE_FP32, more, 80);
    for (size_t i = 0; i < count; i++)
        values[i] += share * (more[i] - keep * values[i]);
    CUDA_OK(kernel_axpby(stream, count, share, keep, NULL, others, range));
    assert_values(VALUE_FP32, range, values, 80);
    areas_close();
}

TEST(axpby_changes_exactly_its_range)
{
    for (size_t count = 0; count < 70; count++) {
        check_axpby(count, 1, 0);
        check_axpby(count, 0.25f, 1);
    }
}

/* ---- sum over towers ---- */

/* In pairs (stage/pairwise.h). */
static float sum_of(float *const *values, uint32_t towers, size_t i)
{
    if (towers == 1)
        return values[0][i];
    const uint32_t left = pairwise_left(towers);
    return sum_of(values, left, i) + sum_of(values + left, towers - left, i);
}

static void check_sum_into(enum value_type type, uint32_t towers, size_t begin, size_t end, size_t count,
                           struct some_arenas from, struct some_arenas into)
{
    struct tower_arenas arenas = { .count = towers };
    float *values[KERNEL_TOWERS_MAX], *sum = floats_new(count);
    for (uint32_t t = 0; t < towers; t++) {
        values[t] = draw(type, 40 + t, count);
        arenas.values[t] = values_new(type, values[t], count);
    }
    for (size_t i = begin; i < end; i++)
        sum[i] = sum_of(values + from.first, from.count, i);
    CUDA_OK(kernel_sum_towers(stream, type, &arenas, begin, end, from, into));
    for (uint32_t t = 0; t < towers; t++) {
        for (size_t i = begin; i < end && t >= into.first && t < into.first + into.count; i++)
            values[t][i] = sum[i];
        assert_values(type, arenas.values[t], values[t], count);
    }
    areas_close();
}

static void check_sum(enum value_type type, uint32_t towers, size_t begin, size_t end, size_t count)
{
    const struct some_arenas all = { 0, towers }, one = { towers / 2, 1 };
    check_sum_into(type, towers, begin, end, count, all, all);
    check_sum_into(type, towers, begin, end, count, all, one);
    check_sum_into(type, towers, begin, end, count, one, all);
}

TEST(sums_of_towers_are_in_pairs_and_within_the_range)
{
    static const uint32_t towers[] = { 1, 2, 3, 5, 8, KERNEL_TOWERS_MAX };
    for (size_t t = 0; t < COUNT_OF(towers); t++)
        for (int type = 0; type < VALUE_TYPE_COUNT; type++) {
            check_sum(type, towers[t], 0, 0, 16);
            check_sum(type, towers[t], 0, 1, 16);
            check_sum(type, towers[t], 16, 51, 100);
            check_sum(type, towers[t], 48, 2048, 2048);
            check_sum(type, towers[t], 32, 2047, 2050);
            check_sum(type, towers[t], 33, 35, 50);
            check_sum(type, towers[t], 31, 33, 50);
            check_sum(type, towers[t], 1, 50, 50);
        }
}

/* ---- sums over terms ---- */

enum { TERMS_RUN_MAX = 24, TERMS_VALUES = 103 };

/* The largest subtrees of towers that are in one group of `group` towers, as a reduction between processes has them;
 * terms of one tower are of `type`. */
struct terms_case { uint32_t group; enum value_type type; float *values[TERMS_RUN_MAX]; struct sum_terms terms; };

static void add_terms(struct terms_case *at, uint32_t first, uint32_t count)
{
    struct sum_terms *const terms = &at->terms;
    if (first / at->group != (first + count - 1) / at->group) {
        add_terms(at, first, pairwise_left(count));
        add_terms(at, first + pairwise_left(count), count - pairwise_left(count));
        return;
    }
    float *sum = floats_new(TERMS_VALUES);
    for (size_t i = 0; i < TERMS_VALUES; i++)
        sum[i] = sum_of(at->values + first, count, i);
    const enum value_type type = count == 1 ? at->type : VALUE_FP32;
    terms->bf16 |= (uint64_t)(type == VALUE_BF16) << terms->count;
    terms->first[terms->count] = (uint16_t)first;
    terms->towers[terms->count] = (uint16_t)count;
    terms->values[terms->count++] = values_new(type, sum, TERMS_VALUES);
}

static void check_terms(uint32_t run, uint32_t group, enum value_type type, enum value_type into, size_t count)
{
    struct terms_case at = { .group = group, .type = type };
    float *const result = floats_new(TERMS_VALUES);
    for (uint32_t t = 0; t < run; t++)
        at.values[t] = draw(type, 70 + t, TERMS_VALUES);
    add_terms(&at, 0, run);
    void *const memory = values_new(into, result, TERMS_VALUES);
    for (size_t i = 0; i < count; i++)
        result[i] = sum_of(at.values, run, i);
    CUDA_OK(kernel_sum_terms(stream, &at.terms, count, into, memory));
    assert_values(into, memory, result, TERMS_VALUES);
    areas_close();
}

TEST(sums_of_terms_have_the_bits_of_sums_of_towers)
{
    static const enum value_type types[] = { VALUE_FP32, VALUE_BF16 };
    for (uint32_t run = 1; run <= TERMS_RUN_MAX; run++)
        for (uint32_t group = 1; group <= run; group++)
            for (size_t type = 0; type < 2 && run % group == 0; type++)
                for (size_t into = 0; into < 2; into++)
                    check_terms(run, group, types[type], types[into], run % 2 ? TERMS_VALUES : TERMS_VALUES - 2);
}

/* 64 terms of 64 towers: the most that a kernel adds. Each is given as their sum. */
TEST(sums_of_terms_are_those_of_4096_towers)
{
    struct sum_terms terms = { .count = SUM_TERMS_MAX };
    float *values[SUM_TERMS_MAX], *const sum = floats_new(TERMS_VALUES);
    for (uint32_t t = 0; t < SUM_TERMS_MAX; t++) {
        values[t] = draw(VALUE_FP32, 500 + t, TERMS_VALUES);
        terms.first[t] = (uint16_t)(t * (TERM_TOWERS_MAX / SUM_TERMS_MAX));
        terms.towers[t] = TERM_TOWERS_MAX / SUM_TERMS_MAX;
        terms.values[t] = values_new(VALUE_FP32, values[t], TERMS_VALUES);
    }
    void *const memory = values_new(VALUE_FP32, sum, TERMS_VALUES);
    for (size_t i = 0; i < TERMS_VALUES; i++)
        sum[i] = sum_of(values, SUM_TERMS_MAX, i);
    CUDA_OK(kernel_sum_terms(stream, &terms, TERMS_VALUES, VALUE_FP32, memory));
    assert_values(VALUE_FP32, memory, sum, TERMS_VALUES);
    areas_close();
}

TEST(sums_of_no_or_too_many_terms_or_into_fp16_are_refused)
{
    static const struct sum_terms none = { .count = 0 }, many = { .count = SUM_TERMS_MAX + 1 }, one = { .count = 1 };
    INVALID(kernel_sum_terms(stream, &none, 4, VALUE_FP32, NULL));
    INVALID(kernel_sum_terms(stream, &many, 4, VALUE_FP32, NULL));
    INVALID(kernel_sum_terms(stream, &one, 4, VALUE_FP16, NULL));
}

/* ---- arguments ---- */

TEST(sums_of_no_or_too_many_towers_are_refused)
{
    static const struct tower_arenas none = { .count = 0 }, many = { .count = KERNEL_TOWERS_MAX + 1 };
    static const struct tower_arenas one = { .count = 1 };
    static const struct some_arenas first = { 0, 1 }, second = { 1, 1 }, both = { 0, 2 }, nobody = { 0, 0 };
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &none, 0, 4, first, first));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &many, 0, 4, first, first));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 8, 4, first, first));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, first, second));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, first, both));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, first, nobody));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, second, first));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, both, first));
    INVALID(kernel_sum_towers(stream, VALUE_FP32, &one, 0, 4, nobody, first));
}

TEST(misaligned_memory_is_refused)
{
    unsigned char *memory = area_new(NULL, 256);
    float *values = (float *)(void *)(memory + 4);
    const struct optimizer_range range = { .weights = values, .gradients = (float *)(void *)memory, .count = 1 };
    const struct optimizer_numbers numbers = { .rate = 1, .scale = 1 };
    const struct tower_arenas arenas = { .count = 1, .values = { values } };
    MISALIGNED(kernel_narrow(stream, VALUE_FP16, 8, values, memory));
    MISALIGNED(kernel_widen(stream, VALUE_FP16, 8, memory, values));
    MISALIGNED(kernel_check(stream, 8, values, NULL));
    MISALIGNED(kernel_update(stream, OPTIMIZER_SGD, &numbers, &numbers, NULL, &range, 1, VALUE_FP32, NULL));
    MISALIGNED(kernel_scale(stream, 8, 1, values));
    MISALIGNED(kernel_axpby(stream, 8, 1, 0, NULL, (float *)(void *)memory, values));
    MISALIGNED(kernel_find_nonfinite(stream, 8, values, NULL));
    MISALIGNED(kernel_sum_towers(stream, VALUE_FP32, &arenas, 0, 4, (struct some_arenas){ 0, 1 },
                                 (struct some_arenas){ 0, 1 }));
    MISALIGNED(kernel_sum_terms(stream, &(struct sum_terms){ .count = 1, .values = { values } }, 4, VALUE_FP32,
                                memory));
    MISALIGNED(kernel_sum_terms(stream, &(struct sum_terms){ .count = 1, .values = { memory } }, 4, VALUE_FP32,
                                values));
    areas_close();
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
