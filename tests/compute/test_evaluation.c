/* Tests of towers that only evaluate, and of logits, on every backend: the numbers are those of a tower that trains,
 * and what only training needs is not there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

/* A tower without training, with the weights and statistics of another. */
static void open_evaluating(struct tower_fixture *fixture, const char *backend, const struct net *net,
                            struct tower_fixture *from)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    memset(spec.train_counts, 0, sizeof(spec.train_counts));
    spec.evaluates_only = true;
    tower_fixture_open_tower(fixture, &spec);
    float *const weights = tower_fixture_weights(from, net);
    tower_fixture_set_weights(fixture, net, weights);
    free(weights);
}

static float *read_logits(struct tower_fixture *fixture, const struct net *net)
{
    float *const logits = malloc((size_t)FIXTURE_BATCH * net->classes * sizeof(*logits));
    assert_non_null(logits);
    assert_int_equal(tower_logits(fixture->tower, logits), 0);
    return logits;
}

/* Two steps change weights and statistics from what they begin with. */
TEST_ON_EACH_BACKEND(a_tower_that_only_evaluates_gives_the_numbers_of_one_that_trains)
{
    struct optimizer_step small_step = tower_fixture_step;
    small_step.learning_rate = 0.01f;
    for (uint32_t seed = 0; seed < 8; seed++) {
        struct net *net = network_random_graph(7000 + seed, 0.3f);
        struct backend_input input = network_input(net, FIXTURE_BATCH, seed);
        struct tower_fixture fixture, alone;
        tower_fixture_open(&fixture, backend, net);
        tower_fixture_fill(&fixture, net, &input, 0, FIXTURE_BATCH);
        for (int step = 0; step < 2; step++) {
            tower_fixture_train(&fixture);
            assert_int_equal(tower_update(fixture.tower, 0, tower_fixture_floats(&fixture), &small_step), 0);
        }
        open_evaluating(&alone, backend, net, &fixture);
        tower_fixture_fill(&alone, net, &input, 0, FIXTURE_BATCH);
        const struct backend_result expected = tower_fixture_evaluate(&fixture),
                                    result = tower_fixture_evaluate(&alone);
        assert_true(result.loss_sum == expected.loss_sum);
        assert_int_equal(result.correct, expected.correct);
        float *const logits = read_logits(&fixture, net), *const alike = read_logits(&alone, net);
        assert_memory_equal(logits, alike, (size_t)FIXTURE_BATCH * net->classes * sizeof(*logits));
        free(logits);
        free(alike);
        tower_fixture_close(&alone);
        tower_fixture_close(&fixture);
        network_input_release(&input);
        net_close(net);
    }
}

/* ---- pieces and embeddings ---- */

static void open_special(struct tower_fixture *fixture, const char *backend, const struct net *net,
                         struct tower_fixture *from, bool in_pieces)
{
    tower_fixture_open_device(fixture, backend);
    struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    memset(spec.train_counts, 0, sizeof(spec.train_counts));
    memset(spec.evaluate_counts, 0, sizeof(spec.evaluate_counts));
    spec.evaluates_only = true;
    spec.in_pieces = in_pieces;
    spec.evaluate_counts[0] = FIXTURE_BATCH;
    spec.evaluate_counts[1] = in_pieces ? 4 : 0;
    spec.evaluate_counts[2] = in_pieces;
    spec.backend_spec.keeps_embedding = !in_pieces;
    tower_fixture_open_tower(fixture, &spec);
    float *const weights = tower_fixture_weights(from, net);
    tower_fixture_set_weights(fixture, net, weights);
    free(weights);
}

static void assert_floats_near(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i])));
}

TEST_ON_EACH_BACKEND(batches_of_any_size_are_computed_in_pieces_that_have_plans)
{
    struct net *net = network_random_graph(7100, 0.3f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 1);
    struct tower_fixture whole, pieces;
    float logits[FIXTURE_BATCH * 64];
    tower_fixture_open(&whole, backend, net);
    open_special(&pieces, backend, net, &whole, true);
    tower_fixture_fill(&whole, net, &input, 0, FIXTURE_BATCH);
    tower_fixture_evaluate(&whole);
    float *const expected = read_logits(&whole, net);
    assert_in_range(net->classes, 1, 64);
    for (uint32_t count = 1; count <= FIXTURE_BATCH; count++) {
        uint32_t computed = 0;
        tower_fixture_fill(&pieces, net, &input, 0, count);
        const uint32_t microbatches = tower_microbatches(pieces.tower, count);
        assert_in_range(microbatches, 1, tower_microbatches_most(pieces.tower, FIXTURE_BATCH));
        for (uint32_t i = 0; i < microbatches; i++) {
            const struct batch_part part = tower_microbatch(pieces.tower, &pieces.slot.local, i);
            assert_int_equal(part.first, computed);
            assert_true(part.count == 1 || part.count == 4 || part.count == FIXTURE_BATCH);
            assert_int_equal(tower_forward(pieces.tower, &pieces.slot, i, false), 0);
            assert_int_equal(tower_logits(pieces.tower, logits + (size_t)part.first * net->classes), 0);
            computed += part.count;
        }
        assert_int_equal(computed, count);
        assert_floats_near(logits, expected, (size_t)count * net->classes);
    }
    free(expected);
    tower_fixture_close(&pieces);
    tower_fixture_close(&whole);
    network_input_release(&input);
    net_close(net);
}

/* The last layer of the random graphs is dense: the logits are its product with the embedding. */
TEST_ON_EACH_BACKEND(the_last_dense_layer_makes_the_logits_of_the_embeddings)
{
    for (uint32_t seed = 0; seed < 8; seed++) {
        struct net *net = network_random_graph(7200 + seed, 0.3f);
        struct backend_input input = network_input(net, FIXTURE_BATCH, seed);
        const struct layer *const dense = &net->layers[net_embedding_layer(net)];
        const size_t width = shape_count(dense->in);
        struct tower_fixture plain, keeping;
        float *const embeddings = malloc(FIXTURE_BATCH * width * sizeof(*embeddings));
        float *const weight = malloc(width * net->classes * sizeof(*weight));
        float *const bias = calloc(net->classes, sizeof(*bias));
        assert_true(embeddings != NULL && weight != NULL && bias != NULL);
        tower_fixture_open(&plain, backend, net);
        open_special(&keeping, backend, net, &plain, false);
        tower_fixture_fill(&plain, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_fill(&keeping, net, &input, 0, FIXTURE_BATCH);
        tower_fixture_evaluate(&plain);
        tower_fixture_evaluate(&keeping);
        float *const expected = read_logits(&plain, net), *const logits = read_logits(&keeping, net);
        assert_memory_equal(logits, expected, (size_t)FIXTURE_BATCH * net->classes * sizeof(*logits));
        assert_int_equal(tower_embeddings(keeping.tower, embeddings), 0);
        assert_int_equal(tower_read(keeping.tower, dense->parameters[PARAMETER_WEIGHT], weight), 0);
        if (layer_has(dense, PARAMETER_BIAS))
            assert_int_equal(tower_read(keeping.tower, dense->parameters[PARAMETER_BIAS], bias), 0);
        for (uint32_t i = 0; i < FIXTURE_BATCH * net->classes; i++) {
            const uint32_t class = i % net->classes;
            double sum = (double)bias[class];
            for (size_t k = 0; k < width; k++)
                sum += (double)weight[class * width + k] * (double)embeddings[i / net->classes * width + k];
            logits[i] = (float)sum;
        }
        assert_floats_near(logits, expected, (size_t)FIXTURE_BATCH * net->classes);
        free(logits);
        free(expected);
        free(bias);
        free(weight);
        free(embeddings);
        tower_fixture_close(&keeping);
        tower_fixture_close(&plain);
        network_input_release(&input);
        net_close(net);
    }
}

static uint32_t first_largest(const float *logits, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = logits[c] > logits[best] ? c : best;
    return best;
}

static double loss_of(const float *logits, uint32_t classes, int32_t label)
{
    const double shift = (double)logits[first_largest(logits, classes)];
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - shift);
    return log(sum) + shift - (double)logits[label];
}

/* An answer for each sample: its label, and the largest logit. A sample without a label has one, too. */
static void check_answers(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input,
                          const float *logits, uint32_t count)
{
    void *memory;
    assert_int_equal(fixture->device->ops->alloc_pinned(fixture->device, count * sizeof(struct answer), &memory), 0);
    struct answer *const answers = memory;
    assert_int_equal(tower_answers(fixture->tower, answers), 0);
    (void)tower_fixture_result(fixture);        /* waits */
    for (uint32_t n = 0; n < count; n++) {
        assert_int_equal(answers[n].label, input->labels[n]);
        assert_int_equal(answers[n].predicted, first_largest(logits + (size_t)n * net->classes, net->classes));
    }
    fixture->device->ops->free_pinned(fixture->device, answers);
}

static void check_sums(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input,
                       uint32_t count)
{
    tower_fixture_fill(fixture, net, input, 0, count);
    const struct backend_result result = tower_fixture_evaluate(fixture);
    float *const logits = read_logits(fixture, net);
    double loss = 0;
    uint32_t correct = 0;
    for (uint32_t n = 0; n < count; n++) {
        const float *const row = logits + (size_t)n * net->classes;
        loss += loss_of(row, net->classes, input->labels[n]);
        correct += first_largest(row, net->classes) == (uint32_t)input->labels[n];
    }
    assert_int_equal(correct, result.correct);
    assert_true(fabs(loss - result.loss_sum) <= 1e-5 * result.loss_sum);
    check_answers(fixture, net, input, logits, count);
    free(logits);
}

/* In every precision there is, and of batches of both sizes: the last one of a phase has a plan of its own. */
TEST_ON_EACH_BACKEND(logits_are_those_that_the_loss_is_made_of)
{
    struct net *net = tower_fixture_net(0.4f);
    struct backend_input input = network_input(net, FIXTURE_BATCH, 4);
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++) {
        struct tower_fixture fixture;
        struct unsupported_reason reason;
        tower_fixture_open_device(&fixture, backend);
        struct tower_spec spec = tower_fixture_spec(&fixture, backend, net);
        spec.backend_spec.precision = precision;
        spec.evaluate_counts[1] = FIXTURE_BATCH - 1;
        if (spec.backend->supports(&spec.backend_spec, &reason) == 0) {
            tower_fixture_open_tower(&fixture, &spec);
            check_sums(&fixture, net, &input, FIXTURE_BATCH);
            check_sums(&fixture, net, &input, FIXTURE_BATCH - 1);
        }
        tower_fixture_close(&fixture);
    }
    network_input_release(&input);
    net_close(net);
}

TEST_ON_EACH_BACKEND(a_tower_that_only_evaluates_takes_nothing_for_training)
{
    struct net *net = tower_fixture_net(0.0f);
    struct tower_fixture fixture, alone;
    tower_fixture_open(&fixture, backend, net);
    open_evaluating(&alone, backend, net, &fixture);
    assert_null(tower_gradients(alone.tower));
    assert_null(tower_state(alone.tower, 0));
    const struct tower_needs all = tower_needs(fixture.tower), less = tower_needs(alone.tower);
    assert_true(less.arenas <= tower_fixture_floats(&alone) * sizeof(float));
    assert_true(less.arenas < all.arenas / 2);
    assert_true(less.backend.values <= all.backend.values);
    tower_fixture_close(&alone);
    tower_fixture_close(&fixture);
    net_close(net);
}

/* A net whose parameters fit images of any size: sums, a depthwise convolution, squeeze and excitation. */
static struct net *sized_net(uint32_t height, uint32_t width)
{
    const struct batch_norm norm = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true };
    struct net *const net = network_net_begin("sized", (struct shape){ 3, height, width }, 4);
    const struct window same = window_square(3, 1, PADDING_SAME), half = window_square(3, 2, PADDING_SAME);
    net_conv2d(net, "conv1", NET_INPUT, 8, half, false);
    net_batch_norm(net, "norm1", 0, norm);
    net_relu(net, "relu1", 1);
    net_conv2d(net, "conv2", 2, 16, half, false);
    net_batch_norm(net, "norm2", 3, norm);
    net_activation(net, "act2", 4, ACTIVATION_SILU);
    net_grouped_conv2d(net, "deep", 5, (struct conv2d){ 16, 16, same, false });
    net_batch_norm(net, "norm3", 6, norm);
    net_global_average(net, "squeeze", 7);
    net_conv2d(net, "excite", 8, 16, window_square(1, 1, PADDING_VALID), true);
    net_activation(net, "gate", 9, ACTIVATION_SIGMOID);
    net_multiply(net, "gated", 7, 10);
    net_add(net, "sum", 11, 5);
    net_max_pool(net, "pool", 12, half);
    return network_net_end(net, net_global_average(net, "mean", 13));
}

static void train_once(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input)
{
    struct optimizer_step small_step = tower_fixture_step;
    small_step.learning_rate = 0.01f;
    tower_fixture_fill(fixture, net, input, 0, FIXTURE_BATCH);
    tower_fixture_train(fixture);
    assert_int_equal(tower_update(fixture->tower, 0, tower_fixture_floats(fixture), &small_step), 0);
}

/* The tower trains as one whose net has the size of training, and evaluates as one whose net has the other, in any
 * order. In training there may be one pixel where there are more in evaluation, and the other way round. */
TEST_ON_EACH_BACKEND(images_may_have_another_size_in_training_than_in_evaluation)
{
    static const struct { uint32_t train[2], evaluation[2]; } rows[] = {
        { { 9, 7 }, { 12, 14 } }, { { 12, 14 }, { 9, 7 } }, { { 3, 4 }, { 16, 11 } }, { { 16, 11 }, { 3, 4 } },
        { { 16, 16 }, { 17, 17 } } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct net *const net = sized_net(rows[i].evaluation[0], rows[i].evaluation[1]);
        struct net *const train_net = sized_net(rows[i].train[0], rows[i].train[1]);
        struct backend_input input = network_input(net, FIXTURE_BATCH, 5);
        struct backend_input train_input = network_input(train_net, FIXTURE_BATCH, 6);
        struct tower_fixture both, train, evaluation;
        tower_fixture_open_device(&both, backend);
        struct tower_spec spec = tower_fixture_spec(&both, backend, net);
        spec.train_net = train_net;
        tower_fixture_open_tower(&both, &spec);
        tower_fixture_open(&train, backend, train_net);
        for (int round = 0; round < 2; round++) {
            train_once(&both, train_net, &train_input);
            train_once(&train, train_net, &train_input);
            tower_fixture_assert_weights_near(&both, &train, net, 1e-5);
            tower_fixture_fill(&both, net, &input, 0, FIXTURE_BATCH);
            const struct backend_result found = tower_fixture_evaluate(&both);
            open_evaluating(&evaluation, backend, net, &both);
            tower_fixture_fill(&evaluation, net, &input, 0, FIXTURE_BATCH);
            const struct backend_result expected = tower_fixture_evaluate(&evaluation);
            assert_true(fabs(found.loss_sum - expected.loss_sum) <= 1e-5 * expected.loss_sum);
            tower_fixture_close(&evaluation);
        }
        const struct tower_needs needs = tower_needs(both.tower), less = tower_needs(train.tower);
        assert_int_equal(needs.arenas, less.arenas);
        tower_fixture_close(&train);
        tower_fixture_close(&both);
        network_input_release(&train_input);
        network_input_release(&input);
        net_close(train_net);
        net_close(net);
    }
}

TESTS_MAIN(NULL, NULL)
