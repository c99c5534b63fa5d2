/* Checks of what networks compute. See network_check.h. */
#include <math.h>
#include <stdlib.h>

#include "stage/random.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

enum { PROBES = 5 };

static float *read_from(struct network *network, const float *arena, uint32_t parameter)
{
    float *const plain = malloc(network->net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    network_read(network, arena, parameter, plain);
    return plain;
}

float *network_numbers(struct network *network, uint32_t parameter)
{
    return read_from(network, network_arena(network, parameter), parameter);
}

float *network_gradient(struct network *network, uint32_t parameter)
{
    return read_from(network, network->gradients, parameter);
}

float *network_values_before(struct network *network, const struct backend_input *input, uint32_t dense_weight)
{
    network_run(network, input, 0, 1, true);
    float *const values = network_gradient(network, dense_weight);
    float *const bias = network_gradient(network, dense_weight + 1);
    const size_t count = network->net->parameters[dense_weight].dims[1];
    for (size_t i = 0; i < count; i++)
        values[i] /= bias[0];
    free(bias);
    return values;
}

static double largest_of(const float *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

/* ---- slopes ---- */

/* One number of a parameter. */
struct probe {
    struct network *network;
    const struct backend_input *input;
    uint32_t count;             /* samples */
    uint32_t parameter;
    float *plain;               /* of the parameter */
    size_t i;
};

static double loss_at(const struct probe *probe, float value)
{
    const float before = probe->plain[probe->i];
    probe->plain[probe->i] = value;
    network_write(probe->network, probe->network->weights, probe->parameter, probe->plain);
    probe->plain[probe->i] = before;
    return network_forward(probe->network, probe->input, probe->count, true).loss_sum;
}

/* The distance is what it really is in float. */
static double slope(const struct probe *probe, float low, float high)
{
    return (loss_at(probe, high) - loss_at(probe, low)) / ((double)high - low);
}

/* A step across the kink of a ReLU or a maximum misleads: a smaller one may agree where
 * a larger one does not, and very near to a kink only a step to one side does. */
static bool slope_agrees(const struct probe *probe, double gradient, double bound)
{
    static const float steps[] = { 1e-2f, 3e-3f, 1e-3f, 3e-4f };
    const float w = probe->plain[probe->i];
    bool agrees = false;
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]) && !agrees; s++)
        agrees = fabs(slope(probe, w - steps[s], w + steps[s]) - gradient) <= bound ||
                 fabs(slope(probe, w - steps[s], w) - gradient) <= bound ||
                 fabs(slope(probe, w, w + steps[s]) - gradient) <= bound;
    network_write(probe->network, probe->network->weights, probe->parameter, probe->plain);
    return agrees;
}

static void check_parameter(struct probe probe, uint32_t seed)
{
    const struct parameter *const parameter = &probe.network->net->parameters[probe.parameter];
    float *const gradient = network_gradient(probe.network, probe.parameter);
    const double scale = largest_of(gradient, parameter->count);
    probe.plain = network_numbers(probe.network, probe.parameter);
    for (uint32_t n = 0; n < PROBES; n++) {
        probe.i = random_u64(random_key(seed, RANDOM_DRAW, 4), n) % parameter->count;
        if (!slope_agrees(&probe, gradient[probe.i], 1e-2 * scale + 2e-3))
            fail_msg("%s, %s: gradient %g of %s[%zu] is not the slope of the loss", probe.network->ops->name,
                     probe.network->net->model, (double)gradient[probe.i], parameter->name, probe.i);
    }
    free(gradient);
    free(probe.plain);
}

void network_check_slopes(struct network *network, const struct backend_input *input, uint32_t count, uint32_t seed)
{
    network_run(network, input, 0, count, true);
    for (uint32_t p = 0; p < network->net->parameter_count; p++)
        if (parameter_is_updated(&network->net->parameters[p]))
            check_parameter((struct probe){ .network = network, .input = input, .count = count, .parameter = p }, seed);
}

/* ---- against another ---- */

/* The gradient of a bias in front of a batch normalisation is 0; what is there is what rounding left
 * of its summands, which are up to 1. */
#define ROUNDING 1e-5

void network_assert_near(const struct network *network, uint32_t parameter, const float *values,
                         const float *expected, double tolerance)
{
    const struct parameter *const made = &network->net->parameters[parameter];
    const double bound = tolerance * largest_of(expected, made->count) + (tolerance > 0 ? ROUNDING : 0);
    for (size_t i = 0; i < made->count; i++)
        if (!(fabs((double)values[i] - expected[i]) <= bound))
            fail_msg("%s, %s: %s[%zu], or its gradient, is %g instead of %g", network->ops->name, network->net->model,
                     made->name, i, (double)values[i], (double)expected[i]);
}

/* The gradients of what is trained, and the statistics. */
static void assert_near_all(struct network *network, struct network *other, double tolerance)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        const bool is_trained = network->net->parameters[p].is_trained;
        if (network->net->parameters[p].is_frozen)
            continue;
        float *const values = is_trained ? network_gradient(network, p) : network_numbers(network, p);
        float *const expected = is_trained ? network_gradient(other, p) : network_numbers(other, p);
        network_assert_near(network, p, values, expected, tolerance);
        free(values);
        free(expected);
    }
}

static void assert_near_result(struct backend_result result, struct backend_result expected, double tolerance)
{
    const double bound = tolerance * fabs(expected.loss_sum) + (tolerance > 0 ? 1e-6 : 0);
    assert_true(fabs(result.loss_sum - expected.loss_sum) <= bound);
    assert_int_equal(result.correct, expected.correct);
    assert_int_equal(result.counted, expected.counted);
}

void network_assert_same_result(struct backend_result result, struct backend_result expected)
{
    assert_near_result(result, expected, 1e-5);
}

static void compare(struct network *network, struct network *other, const struct backend_input *input, uint32_t count,
                    double loss_tolerance, double tolerance)
{
    assert_near_result(network_run(network, input, 0, count, true), network_run(other, input, 0, count, true),
                       loss_tolerance);
    assert_near_all(network, other, tolerance);
    assert_near_result(network_forward(network, input, count, false), network_forward(other, input, count, false),
                       loss_tolerance);
}

void network_compare(struct network *network, struct network *reference, const struct backend_input *input,
                     uint32_t count)
{
    for (uint32_t less = 0; less <= 2; less += 2)
        compare(network, reference, input, count - less, 1e-5, 1e-4);
}

void network_compare_bits(struct network *network, struct network *same, const struct backend_input *input,
                          uint32_t count)
{
    for (uint32_t less = 0; less <= 2; less += 2)
        compare(network, same, input, count - less, 0, 0);
}

void network_compare_with_reference(struct network *network, uint32_t count, uint64_t seed)
{
    struct backend_input input = network_input(network->net, count, seed);
    struct network reference;
    network_open(&reference, "reference", network->net, count, 1);
    network_draw_weights(network, seed);
    network_draw_weights(&reference, seed);
    network_compare(network, &reference, &input, count);
    network_close(&reference);
    network_input_release(&input);
}

void network_check_net(const char *backend, struct net *net, struct backend_spec settings, uint64_t seed)
{
    struct network network;
    network_open_settings(&network, backend, net, settings);
    network_compare_with_reference(&network, settings.local_max, seed);
    network_close(&network);
    net_close(net);
}

/* ---- parts of a batch ---- */

static void add_gradients(struct network *network, float **sums)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        float *const values = network_gradient(network, p);
        for (size_t i = 0; i < network->net->parameters[p].count; i++)
            sums[p][i] += values[i];
        free(values);
    }
}

static float **sums_make(const struct net *net)
{
    float **const sums = calloc(net->parameter_count, sizeof(*sums));
    assert_non_null(sums);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        sums[p] = calloc(net->parameters[p].count, sizeof(**sums));
        assert_non_null(sums[p]);
    }
    return sums;
}

/* Compares the network's gradients with the sums and frees those. */
static void compare_and_free(struct network *network, float **sums)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        float *const values = network_gradient(network, p);
        network_assert_near(network, p, values, sums[p], 2e-5);
        free(values);
        free(sums[p]);
    }
    free(sums);
}

void network_check_parts(struct network *network, const struct backend_input *input, const struct network_part *parts,
                         uint32_t part_count, uint32_t count)
{
    float **const sums = sums_make(network->net);
    struct backend_result sum = { 0 };
    for (uint32_t i = 0; i < part_count; i++) {
        const struct backend_result part = network_run(network, input, parts[i].first, parts[i].count, true);
        sum.loss_sum += part.loss_sum;
        sum.correct += part.correct;
        sum.counted += part.counted;
        add_gradients(network, sums);
    }
    network_assert_same_result(network_run(network, input, 0, count, true), sum);
    compare_and_free(network, sums);
}

void network_assert_same_numbers(struct network *network, struct network *same)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        float *const numbers = network_numbers(network, p), *const expected = network_numbers(same, p);
        assert_memory_equal(numbers, expected, network->net->parameters[p].count * sizeof(*numbers));
        free(numbers);
        free(expected);
    }
}
