/* Tests of smoothed labels on every backend: the loss and its gradient in training are those of PyTorch, and
 * evaluation knows nothing of it. */
#include <math.h>
#include <stdlib.h>

#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

/* The loss of a sample, and what its logits' gradient adds to `slopes`. */
static double loss_in_double(const double *logits, uint32_t classes, uint32_t label, double smoothing, double *slopes)
{
    double sum = 0, loss = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp(logits[c]);
    for (uint32_t c = 0; c < classes; c++) {
        const double wanted = (c == label ? 1 - smoothing : 0) + smoothing / classes;
        loss += wanted * (log(sum) - logits[c]);
        slopes[c] += exp(logits[c]) / sum - wanted;
    }
    return loss;
}

/* torch.nn.CrossEntropyLoss(label_smoothing=..., reduction='sum') of these logits and its gradient, summed over
 * the samples. */
TEST(the_formula_is_that_of_pytorch)
{
    enum { SAMPLES = 3, CLASSES = 5 };
    static const double logits[SAMPLES][CLASSES] = {
        { 1.5, -0.25, 0.75, 3.0, -2.0 }, { 0.5, 0.5, -1.25, 0.0, 2.25 }, { -4.0, 1.0, 6.5, 0.25, -0.5 } };
    static const uint32_t labels[SAMPLES] = { 0, 4, 2 };
    static const struct { double smoothing, loss, slopes[CLASSES]; } cases[] = {
        { 0, 2.21885347667, { -0.720417088854, 0.149443521107, 0.0901592465184, 0.800761856652, -0.319947535423 } },
        { 0.1, 3.07885347667, { -0.680417088854, 0.0894435211066, 0.130159246518, 0.740761856652, -0.279947535423 } },
        { 0.3, 4.79885347667, { -0.600417088854, -0.0305564788934, 0.210159246518, 0.620761856652, -0.199947535423 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double loss = 0, slopes[CLASSES] = { 0 };
        for (uint32_t n = 0; n < SAMPLES; n++)
            loss += loss_in_double(logits[n], CLASSES, labels[n], cases[i].smoothing, slopes);
        assert_true(fabs(loss - cases[i].loss) < 1e-10);
        for (uint32_t c = 0; c < CLASSES; c++)
            assert_true(fabs(slopes[c] - cases[i].slopes[c]) < 1e-10);
    }
}

/* Of a parameter, plain. */
static float *gradient_of(struct tower_fixture *fixture, const struct net *net, uint32_t parameter)
{
    float *const plain = calloc(net->parameters[parameter].count, sizeof(*plain));
    assert_non_null(plain);
    const float *const stored = tower_gradients(fixture->tower) + tower_arena(fixture->tower)->ranges[parameter].offset;
    assert_int_equal(
        tower_spec(fixture->tower)->backend->unpack(tower_backend(fixture->tower), parameter, stored, plain), 0);
    return plain;
}

/* The gradient of the last bias is the sum of the logits'. */
static void check_smoothing(const char *backend, double smoothing)
{
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    struct tower_fixture fixture;
    float logits[FIXTURE_BATCH * 4];
    double loss = 0, plain_loss = 0, slopes[4] = { 0 }, unused[4] = { 0 };
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.backend_spec.label_smoothing = (float)smoothing;
    tower_fixture_open_tower(&fixture, &spec);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    const struct backend_result evaluated = tower_fixture_evaluate(&fixture);
    assert_int_equal(tower_logits(fixture.tower, logits), 0);
    const struct backend_result trained = tower_fixture_train(&fixture);
    for (uint32_t n = 0; n < FIXTURE_BATCH; n++) {
        double row[4];
        for (uint32_t c = 0; c < 4; c++)
            row[c] = (double)logits[n * 4 + c];
        if (input.labels[n] < 0)
            continue;
        loss += loss_in_double(row, 4, (uint32_t)input.labels[n], (double)(float)smoothing, slopes);
        plain_loss += loss_in_double(row, 4, (uint32_t)input.labels[n], 0, unused);
    }
    assert_true(fabs(trained.loss_sum - loss) <= 1e-6 * loss);
    assert_true(fabs(evaluated.loss_sum - plain_loss) <= 1e-6 * plain_loss);
    assert_int_equal(trained.correct, evaluated.correct);
    float *const found = gradient_of(&fixture, net, net->layers[6].parameters[PARAMETER_BIAS]);
    for (uint32_t c = 0; c < 4; c++)
        assert_true(fabs((double)found[c] - slopes[c]) <= 2e-6);
    free(found);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(labels_are_smoothed_in_training_alone)
{
    check_smoothing(backend, 0);
    check_smoothing(backend, 0.1);
    check_smoothing(backend, 0.75);
}

TESTS_MAIN(NULL, NULL)
