/* Tests of samples mixed in pairs on every backend. What a network makes of mixed samples is what it makes of the same
 * pixels mixed before, and loss and gradients are shares of those that either label gives: pixels and shares are such
 * that mixing is exact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/mixing.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

enum { HEIGHT = 9, WIDTH = 7, CLASSES = 4 };

static struct net *open_net(uint32_t channels, bool plain)
{
    static const float mean[] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f }, std[] = { 0.5f, 0.6f, 0.7f, 0.8f, 0.9f };
    struct net *const net = network_net_begin("mixed", (struct shape){ channels, HEIGHT, WIDTH }, CLASSES);
    if (!plain)
        assert_int_equal(net_transform(net, 127.5f, mean, std), 0);
    net_conv2d(net, "conv", NET_INPUT, 9, window_square(3, 1, PADDING_SAME), false);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ 0.9, 1e-3f, true });
    net_relu(net, "relu", 1);
    net_dense(net, "side", 2, CLASSES, true);
    net_auxiliary_loss(net, "side_loss", 3, 0.5f);
    return network_net_end(net, 2);
}

/* Pixels are multiples of four: a share of quarters of them is whole. */
static struct backend_input open_input(const struct net *net)
{
    const struct backend_input input = network_input(net, FIXTURE_BATCH, 5);
    uint8_t *const pixels = (uint8_t *)(uintptr_t)input.pixels;
    for (size_t i = 0; i < FIXTURE_BATCH * shape_count(net->input); i++)
        pixels[i] &= 0xfc;
    return input;
}

/* Every second one has a box, each somewhere else. */
static void make_mixes(float share, struct mix mixes[FIXTURE_BATCH])
{
    for (uint32_t n = 0; n < FIXTURE_BATCH; n++) {
        mixes[n] = (struct mix){ .share = share };
        if (n % 4 > 1)
            mixes[n] = (struct mix){ share, n, n / 2, n + 4, WIDTH };
    }
}

/* The same mixed on the host: one input per label. */
struct mixed_before { struct backend_input own, other; };

static struct mixed_before mix_before(const struct net *net, const struct backend_input *input, uint32_t count)
{
    const size_t numbers = shape_count(net->input), channels = net->input.channels;
    const struct mixed_before before = { network_input(net, FIXTURE_BATCH, 1), network_input(net, FIXTURE_BATCH, 1) };
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t partner = mixing_partner(n, count);
        const struct mix mix = mixing_find(input->mixes, input->labels, n, count);
        for (uint32_t i = 0; i < numbers; i++) {
            const float mixed = mixing_pixel(&mix, input->pixels[n * numbers + i], input->pixels[partner * numbers + i],
                                             i / (uint32_t)channels / WIDTH, i / (uint32_t)channels % WIDTH);
            assert_true(mixed == floorf(mixed));
            ((uint8_t *)(uintptr_t)before.own.pixels)[n * numbers + i] = (uint8_t)mixed;
            ((uint8_t *)(uintptr_t)before.other.pixels)[n * numbers + i] = (uint8_t)mixed;
        }
        ((int32_t *)(uintptr_t)before.own.labels)[n] = input->labels[n];
        ((int32_t *)(uintptr_t)before.other.labels)[n] = input->labels[mix.share < 1 ? partner : n];
    }
    return before;
}

static struct backend_result train(struct tower_fixture *fixture, const struct net *net,
                                   const struct backend_input *input, uint32_t count, float **gradients_out)
{
    tower_fixture_fill(fixture, net, input, 0, count);
    const struct backend_result result = tower_fixture_train(fixture);
    *gradients_out = tower_fixture_gradients(fixture);
    return result;
}

static double combined(double share, double own, double other)
{
    return share * own + (1 - share) * other;
}

static void assert_combined(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input,
                            uint32_t count, double share)
{
    const struct mixed_before before = mix_before(net, input, count);
    float *mixed_gradients, *own_gradients, *other_gradients;
    const struct backend_result mixed = train(fixture, net, input, count, &mixed_gradients);
    const struct backend_result own = train(fixture, net, &before.own, count, &own_gradients);
    const struct backend_result other = train(fixture, net, &before.other, count, &other_gradients);
    assert_true(fabs(mixed.loss_sum - combined(share, own.loss_sum, other.loss_sum)) < 1e-5 * mixed.loss_sum);
    assert_int_equal(mixed.correct, share >= 0.5 ? own.correct : other.correct);
    assert_int_equal(mixed.counted, own.counted);
    for (size_t i = 0; i < tower_fixture_floats(fixture); i++) {
        const double expected = combined(share, (double)own_gradients[i], (double)other_gradients[i]);
        assert_true(fabs((double)mixed_gradients[i] - expected) < 2e-5 * (1 + fabs(expected)));
    }
    free(mixed_gradients);
    free(own_gradients);
    free(other_gradients);
    network_input_release((struct backend_input *)&before.own);
    network_input_release((struct backend_input *)&before.other);
}

/* Evaluation takes samples as they are, whatever lies beside them. */
static void assert_not_evaluated(struct tower_fixture *fixture, const struct net *net,
                                 const struct backend_input *input)
{
    struct backend_input plain = *input;
    plain.mixes = NULL;
    tower_fixture_fill(fixture, net, input, 0, FIXTURE_BATCH);
    const struct backend_result with = tower_fixture_evaluate(fixture);
    tower_fixture_fill(fixture, net, &plain, 0, FIXTURE_BATCH);
    const struct backend_result without = tower_fixture_evaluate(fixture);
    assert_true(with.loss_sum == without.loss_sum);
    assert_int_equal(with.correct, without.correct);
}

struct mixing_case { uint32_t channels; bool plain; enum layout layout; uint32_t threads; float smoothing; };

static void check_case(const char *backend, const struct mixing_case *c)
{
    static const float shares[] = { 0.75f, 0.25f, 0, 0.5f };
    struct net *net = open_net(c->channels, c->plain);
    struct backend_input input = open_input(net);
    struct mix mixes[FIXTURE_BATCH];
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.train_counts[1] = FIXTURE_BATCH - 1;
    spec.backend_spec.layout = c->layout;
    spec.backend_spec.threads = c->threads;
    spec.backend_spec.label_smoothing = c->smoothing;
    tower_fixture_open_tower(&fixture, &spec);
    input.mixes = mixes;
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
        make_mixes(shares[i], mixes);
        assert_combined(&fixture, net, &input, FIXTURE_BATCH, (double)shares[i]);
    }
    mixes[1].share = 1;         /* alone, as the last one of an odd local batch is */
    assert_combined(&fixture, net, &input, FIXTURE_BATCH - 1, 0.5);
    assert_not_evaluated(&fixture, net, &input);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(mixed_samples_give_shares_of_what_each_label_gives)
{
    const bool has_layouts = strcmp(backend, "onednn") == 0;
    const struct mixing_case cases[] = {
        { 1, true, LAYOUT_AUTO, 1, 0 }, { 3, false, LAYOUT_AUTO, 1, 0.1f }, { 5, false, LAYOUT_AUTO, 1, 0 },
        { 3, true, LAYOUT_NHWC, 2, 0 }, { 3, false, LAYOUT_NCHW, 2, 0 } };
    for (size_t i = 0; i < (has_layouts ? 5 : 3); i++)
        check_case(backend, &cases[i]);
}

/* Where one of a pair has no label, both stay as they are. */
TEST(what_has_no_label_is_not_mixed)
{
    static const struct mix mixes[5] = { { .share = 0.5f }, { .share = 0.5f }, { .share = 0.25f }, { .share = 0.25f },
                                         { .share = 0.25f } };
    static const int32_t labels[5] = { 3, -1, 2, 1, 0 };
    static const struct mixed_label expected[5] = { { 3, 3, 1 }, { -1, -1, 1 }, { 2, 1, 0.25f }, { 1, 2, 0.25f },
                                                    { 0, 0, 1 } };
    for (uint32_t i = 0; i < 5; i++) {
        const struct mixed_label found = mixing_label(mixes, labels, i, 5), alone = mixing_label(NULL, labels, i, 5);
        assert_memory_equal(&found, &expected[i], sizeof(found));
        assert_true(alone.label == labels[i] && alone.other == labels[i] && alone.share == 1);
    }
    assert_int_equal(mixing_answer(&expected[2]), 1);
    assert_int_equal(mixing_answer(&expected[0]), 3);
}

TESTS_MAIN(NULL, NULL)
