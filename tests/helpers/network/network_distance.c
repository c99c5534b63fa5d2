/* Distances between networks. */
#include <math.h>
#include <stdlib.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/test.h"

#define FAR_AWAY 0.35
#define FAR_ON_AVERAGE 16       /* roundoffs */
#define LOSS_AWAY 10            /* roundoffs */

double network_roundoff(enum precision precision)
{
    static const double roundoffs[PRECISION_COUNT] = {
        [PRECISION_FP32] = 0x1p-24,
        [PRECISION_TF32] = 0x1p-11,
        [PRECISION_BF16] = 0x1p-9,
        [PRECISION_FP16] = 0x1p-11,
    };
    return roundoffs[precision];
}

static double norm_of(const float *values, double factor, const float *others, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)values[i] / factor - (others != NULL ? (double)others[i] : 0);
        sum += value * value;
    }
    return sqrt(sum);
}

/* The largest norm of a gradient. */
static double largest_gradient(struct network *network)
{
    double largest = 0;
    for (uint32_t p = 0; p < network->net->parameter_count; p++)
        if (network->net->parameters[p].is_trained) {
            float *const gradient = network_gradient(network, p);
            largest = fmax(largest, norm_of(gradient, 1, NULL, network->net->parameters[p].count));
            free(gradient);
        }
    return largest;
}

/* A bias in front of a batch normalisation has a gradient of 0, so `least` counts at least. */
static void add_distance(struct network *network, struct network *exact, uint32_t p, double least,
                         struct network_distances *distances)
{
    const struct parameter *const parameter = &network->net->parameters[p];
    float *(*const read)(struct network *, uint32_t) = parameter->is_trained ? network_gradient : network_numbers;
    float *const got = read(network, p), *const wanted = read(exact, p);
    const double factor = parameter->is_trained ? (double)network->result->loss_scale : 1;
    const double whole = norm_of(wanted, 1, NULL, parameter->count);
    const double far = norm_of(got, factor, wanted, parameter->count) / fmax(whole, least);
    if (!(far <= FAR_AWAY))
        fail_msg("%s, %s: %s is %.3f of itself away", network->ops->name, network->net->model, parameter->name, far);
    distances->sum += far;
    distances->count++;
    free(got);
    free(wanted);
}

static void assert_near_loss(const struct network *network, struct backend_result result, struct backend_result wanted,
                             enum precision precision)
{
    const double bound = LOSS_AWAY * network_roundoff(precision) * (1 + wanted.loss_sum);
    if (!(fabs(result.loss_sum - wanted.loss_sum) <= bound))
        fail_msg("%s, %s: loss %g instead of %g", network->ops->name, network->net->model, result.loss_sum,
                 wanted.loss_sum);
    assert_int_equal(result.counted, wanted.counted);
}

void network_add_distances(struct network *network, uint32_t count, uint64_t seed, enum precision precision,
                           struct network_distances *distances)
{
    struct backend_input input = network_input(network->net, count, seed);
    struct network exact;
    network_open(&exact, "reference", network->net, count, 1);
    network_draw_weights(network, seed);
    network_draw_weights(&exact, seed);
    for (uint32_t less = 0; less <= 2; less += 2) {
        const uint32_t samples = count - less;
        assert_near_loss(network, network_run(network, &input, 0, samples, true),
                         network_run(&exact, &input, 0, samples, true), precision);
        const double least = 0.1 * largest_gradient(&exact);
        for (uint32_t p = 0; p < network->net->parameter_count; p++)
            add_distance(network, &exact, p, least, distances);
        assert_near_loss(network, network_forward(network, &input, samples, false),
                         network_forward(&exact, &input, samples, false), precision);
    }
    network_close(&exact);
    network_input_release(&input);
}

void network_assert_distances(const struct network_distances *distances, enum precision precision)
{
    const double average = distances->sum / distances->count;
    print_message("%.2g away on average, %.1f roundoffs\n", average, average / network_roundoff(precision));
    assert_true(average <= FAR_ON_AVERAGE * network_roundoff(precision));
}
