/* Tests of class weights on every backend: loss and gradient in training are those of PyTorch before its mean, the sum
 * of the samples' weights comes first in the gradients, and evaluation knows nothing of it. */
#include <math.h>
#include <stdlib.h>

#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

enum { CLASSES = 4 };

/* The loss of a sample, and what its logits' gradient adds to `slopes`. */
static double loss_in_double(const double *logits, uint32_t classes, uint32_t label, double smoothing,
                             const float *weights, double *slopes)
{
    double sum = 0, loss = 0, total = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp(logits[c]);
    for (uint32_t c = 0; c < classes; c++) {
        const double wanted = ((c == label ? 1 - smoothing : 0) + smoothing / classes) * (double)weights[c];
        loss += wanted * (log(sum) - logits[c]);
        slopes[c] -= wanted;
        total += wanted;
    }
    for (uint32_t c = 0; c < classes; c++)
        slopes[c] += total * exp(logits[c]) / sum;
    return loss;
}

/* torch.nn.CrossEntropyLoss(weight=..., label_smoothing=..., reduction='sum') of these logits, and its gradient summed
 * over the samples. */
TEST(the_formula_is_that_of_pytorch)
{
    enum { SAMPLES = 3, KINDS = 5 };
    static const double logits[SAMPLES][KINDS] = {
        { 1.5, -0.25, 0.75, 3.0, -2.0 }, { 0.5, 0.5, -1.25, 0.0, 2.25 }, { -4.0, 1.0, 6.5, 0.25, -0.5 } };
    static const uint32_t labels[SAMPLES] = { 0, 4, 2 };
    static const float weights[KINDS] = { 0.5f, 1, 3, 0, 2.25f };
    static const struct { double smoothing, loss, slopes[KINDS]; } cases[] = {
        { 0, 1.81654599582, { -0.155099872922, 0.289908410622, 0.0634388272095, 0.52953695396, -0.727784318869 } },
        { 0.1, 2.96443661559, { -0.131846192625, 0.221092444909, 0.0242664427686, 0.584686109212, -0.698198804264 } },
        { 0.3, 5.26021785513, { -0.0853388320316, 0.0834605134836, -0.0540783261134, 0.694984419716, -0.639027775055 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double loss = 0, slopes[KINDS] = { 0 };
        for (uint32_t n = 0; n < SAMPLES; n++)
            loss += loss_in_double(logits[n], KINDS, labels[n], cases[i].smoothing, weights, slopes);
        assert_true(fabs(loss - cases[i].loss) < 1e-10);
        for (uint32_t c = 0; c < KINDS; c++)
            assert_true(fabs(slopes[c] - cases[i].slopes[c]) < 1e-10);
    }
}

struct found { float weight_sum, bias[CLASSES]; };

/* What backward left in the gradients. The gradient of the last bias is the sum of the logits'. */
static struct found read_gradients(struct tower_fixture *fixture, const struct net *net)
{
    const uint32_t parameter = net->layers[6].parameters[PARAMETER_BIAS];
    const float *const gradients = tower_gradients(fixture->tower);
    const float *const stored = gradients + tower_arena(fixture->tower)->ranges[parameter].offset;
    struct backend *const backend = tower_backend(fixture->tower);
    struct found found;
    assert_int_equal(tower_spec(fixture->tower)->backend->unpack(backend, parameter, stored, found.bias), 0);
    device_memory_read(fixture->compute, &found.weight_sum, gradients, sizeof(found.weight_sum));
    return found;
}

static void check_weights(const char *backend, double smoothing)
{
    static const float weights[CLASSES] = { 0.25f, 3, 0, 1.5f };
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, CLASSES);
    struct tower_fixture fixture;
    float logits[FIXTURE_BATCH * CLASSES];
    static const float ones[CLASSES] = { 1, 1, 1, 1 };
    double loss = 0, plain_loss = 0, weight_sum = 0, slopes[CLASSES] = { 0 }, unused[CLASSES] = { 0 };
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.backend_spec.label_smoothing = (float)smoothing;
    spec.backend_spec.class_weights = weights;
    tower_fixture_open_tower(&fixture, &spec);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    const struct backend_result evaluated = tower_fixture_evaluate(&fixture);
    assert_int_equal(tower_logits(fixture.tower, logits), 0);
    const struct backend_result trained = tower_fixture_train(&fixture);
    for (uint32_t n = 0; n < FIXTURE_BATCH; n++) {
        double row[CLASSES];
        for (uint32_t c = 0; c < CLASSES; c++)
            row[c] = (double)logits[n * CLASSES + c];
        if (input.labels[n] < 0)
            continue;
        const uint32_t label = (uint32_t)input.labels[n];
        weight_sum += (double)weights[label];
        loss += loss_in_double(row, CLASSES, label, (double)(float)smoothing, weights, slopes);
        plain_loss += loss_in_double(row, CLASSES, label, 0, ones, unused);
    }
    assert_true(weight_sum > 0 && trained.weight_sum == weight_sum && evaluated.weight_sum == 0);
    assert_true(fabs(trained.loss_sum - loss) <= 2e-6 * loss);
    assert_true(fabs(evaluated.loss_sum - plain_loss) <= 1e-6 * plain_loss);
    assert_int_equal(trained.correct, evaluated.correct);
    const struct found found = read_gradients(&fixture, net);
    assert_true((double)found.weight_sum == weight_sum);
    for (uint32_t c = 0; c < CLASSES; c++)
        assert_true(fabs((double)found.bias[c] - slopes[c]) <= 4e-6);
    tower_fixture_close(&fixture);
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(losses_are_weighted_in_training_alone)
{
    check_weights(backend, 0);
    check_weights(backend, 0.1);
    check_weights(backend, 0.75);
}

/* ---- mixed samples: their targets, and their weights, are means by share ---- */

struct mixed { struct backend_result result; struct found found; };

static struct mixed train_mixed(const char *backend, double smoothing)
{
    static const float weights[CLASSES] = { 0.25f, 3, 0, 1.5f };
    static struct mix mixes[FIXTURE_BATCH];
    struct net *net = tower_fixture_net(0.0f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, CLASSES);
    struct tower_fixture fixture;
    struct mixed mixed;
    for (uint32_t n = 0; n < FIXTURE_BATCH; n++)
        mixes[n] = (struct mix){ .share = n < 2 ? 1 : 0.125f * (float)n };
    input.mixes = mixes;
    tower_fixture_open_device(&fixture, backend);
    struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
    spec.backend_spec.label_smoothing = (float)smoothing;
    spec.backend_spec.class_weights = weights;
    tower_fixture_open_tower(&fixture, &spec);
    tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
    mixed.result = tower_fixture_train(&fixture);
    mixed.found = read_gradients(&fixture, net);
    tower_fixture_close(&fixture);
    input.mixes = NULL;
    network_input_release(&input);
    net_close(net);
    return mixed;
}

TEST_ON_EACH_BACKEND(mixed_samples_are_weighted_as_by_the_reference)
{
    for (int i = 0; i < 2; i++) {
        const struct mixed wanted = train_mixed("reference", 0.2 * i), found = train_mixed(backend, 0.2 * i);
        assert_true(wanted.result.weight_sum > 0);
        assert_true(fabs(found.result.weight_sum - wanted.result.weight_sum) <= 1e-6 * wanted.result.weight_sum);
        assert_true(fabs(found.result.loss_sum - wanted.result.loss_sum) <= 2e-6 * wanted.result.loss_sum);
        for (uint32_t c = 0; c < CLASSES; c++)
            assert_true(fabsf(found.found.bias[c] - wanted.found.bias[c]) <= 4e-6f);
    }
}

TESTS_MAIN(NULL, NULL)
