/* Tests of the bytes that towers send with and without model.parts: for well-known networks, whose bytes are known, and
 * for a small one that is counted by hand. */
#include "compute/model.h"
#include "compute/part_loss.h"
#include "compute/tower.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/parts_gain.h"

static struct parts_gain gain_of(const char *model, uint32_t classes, struct parts_step step)
{
    struct parts_gain gain;
    struct net *net;
    assert_int_equal(model_open(&net, model, &(struct model_options){ .classes = classes, .dropout = true }), 0);
    assert_true(parts_gain_find(&gain, net, &step));
    net_close(net);
    return gain;
}

static void assert_near(uint64_t number, double expected)
{
    if ((double)number < 0.995 * expected || (double)number > 1.005 * expected)
        fail_msg("%llu instead of %g", (unsigned long long)number, expected);
}

/* 8 towers, 64 images each. */
TEST(alexnet_and_vgg_send_a_fifth)
{
    const struct parts_step step = { .parts = 8, .towers = 8, .rows = 512 };
    const struct parts_gain alexnet = gain_of("imagenet_alexnet", 1000, step);
    assert_near(alexnet.bytes, 85e6);
    assert_near(alexnet.replicated_bytes, 433e6);
    const struct parts_gain vgg = gain_of("vgg16", 1000, step);
    assert_near(vgg.bytes, 222e6);
    assert_near(vgg.replicated_bytes, 969e6);
}

/* One dense layer: as many as classes. */
TEST(a_last_layer_pays_below_a_batch_of_its_classes)
{
    const struct parts_step step = { .parts = 4, .towers = 4, .rows = 256 };
    assert_near(gain_of("resnet50_v1.5", 1000, step).batch, 1000 * 2049.0 / (2048 + (4 * 24 + 12) / 8.0));
    assert_near(gain_of("resnet50_v1.5", 200000, step).batch, 200000 * 2049.0 / (2048 + (4 * 24 + 12) / 8.0));
}

TEST(at_the_batch_where_parts_pay_both_send_the_same)
{
    struct parts_step step = { .parts = 2, .towers = 2, .rows = 1 };
    struct parts_gain gain = gain_of("imagenet_alexnet", 1000, step);
    assert_near(gain.batch, (9216.0 * 4096 + 4096.0 * 4096 + 4096.0 * 1000) / (9216 + 4096 + 4096));
    step.rows = gain.batch;
    gain = gain_of("imagenet_alexnet", 1000, step);
    assert_near(gain.bytes, (double)gain.replicated_bytes);
    step.rows += gain.batch / 10;
    assert_true(gain_of("imagenet_alexnet", 1000, step).bytes > gain.replicated_bytes);
}

/* Input 4, dense 6, dense 2, of which the first is frozen: its inputs' gradient is not sent, and no more are the
 * gradients of its weights. */
TEST(what_is_frozen_is_not_sent)
{
    const struct parts_step step = { .parts = 2, .towers = 2, .rows = 10 };
    struct parts_gain gain;
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 1, 2, 2 }, 2), 0);
    assert_int_equal(net_dense(net, "fc1", NET_INPUT, 6, true), 0);
    assert_int_equal(net_dense(net, "fc2", 0, 2, true), 1);
    assert_int_equal(net_softmax_loss(net, "loss", 1), 2);
    assert_int_equal(net_finish(net), 0);
    const size_t row = 2 * sizeof(struct part_stats) + sizeof(struct mixed_label);
    assert_true(parts_gain_find(&gain, net, &step));
    assert_int_equal(gain.bytes, (10 * (row + 4 * (4 + 2 * 6))) / 2);
    assert_int_equal(gain.replicated_bytes, 4 * (4 * 6 + 6 + 6 * 2 + 2));
    net_freeze(net, net->layers[0].parameters[PARAMETER_WEIGHT]);
    net_freeze(net, net->layers[0].parameters[PARAMETER_BIAS]);
    assert_true(parts_gain_find(&gain, net, &step));
    assert_int_equal(gain.bytes, (10 * (row + 4 * (4 + 6))) / 2);
    assert_int_equal(gain.replicated_bytes, 4 * (6 * 2 + 2));
    net_close(net);
}

/* What a tower of two gives of the exchanges of a step, and of its share of an all-reduce of the trunk's gradients. The
 * norms of parts, which only some updates need, are exchanged in addition. */
static uint64_t bytes_of_tower(struct tower *tower)
{
    struct head_exchange exchanges[HEAD_EXCHANGES_MAX];
    uint64_t bytes = tower_arena(tower)->shared * sizeof(float);
    (void)tower_exchanges(tower, exchanges);
    for (uint32_t e = 0; e < head_exchange_of_norms(tower_head(tower)); e++)
        bytes += exchanges[e].count * sizeof(float);
    return bytes;
}

static uint64_t bytes_exchanged(const struct net *net, uint32_t batch)
{
    const struct device_spec device = { .name = "cpu0" };
    struct tower_spec spec = {
        .net = net, .backend = &backend_reference_ops, .backend_spec = { .threads = 1, .local_max = batch / 2 },
        .slices = { .all = 2, .count = 1 }, .parts = { .all = 2, .count = 1, .batch = batch },
        .train_counts = { batch / 2 },
    };
    struct tower *tower;
    assert_int_equal(device_host_ops.open(&spec.device, &device), 0);
    assert_int_equal(device_host_ops.stream_open(spec.device, STREAM_COMPUTE, "compute", &spec.compute), 0);
    assert_int_equal(tower_open(&tower, &spec), 0);
    const uint64_t bytes = bytes_of_tower(tower);
    tower_close(tower);
    device_host_ops.stream_close(spec.compute);
    device_host_ops.close(spec.device);
    return bytes;
}

TEST(what_is_said_to_be_sent_is_what_towers_exchange)
{
    static const char *const models[] = { "mnist_cnn", "cifar_alexnet", "resnet20_v1" };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct parts_gain gain;
        struct net *net;
        assert_int_equal(model_open(&net, models[i], &(struct model_options){ .dropout = true }), 0);
        assert_true(parts_gain_find(&gain, net, &(struct parts_step){ .parts = 2, .towers = 2, .rows = 8 }));
        assert_int_equal(gain.bytes, bytes_exchanged(net, 8));
        net_close(net);
    }
}

TEST(units_that_parts_do_not_divide_have_no_gain)
{
    struct parts_gain gain;
    struct net *net;
    assert_int_equal(model_open(&net, "imagenet_alexnet", &(struct model_options){ .classes = 1000 }), 0);
    assert_false(parts_gain_find(&gain, net, &(struct parts_step){ .parts = 3, .towers = 3, .rows = 9 }));
    net_close(net);
}

TEST(layers_and_bytes_are_words)
{
    char text[PARTS_TEXT_SIZE];
    struct parts_gain gain;
    struct net *net;
    assert_int_equal(model_open(&net, "imagenet_alexnet", &(struct model_options){ .classes = 1000 }), 0);
    assert_true(parts_gain_find(&gain, net, &(struct parts_step){ .parts = 8, .towers = 8, .rows = 512 }));
    parts_gain_layers(&gain.head, net, text);
    assert_string_equal(text, "classifier.0, classifier.3 and classifier.6");
    gain.bytes = 85349999;
    gain.replicated_bytes = 1234567890;
    parts_gain_describe(&gain, text);
    assert_string_equal(text, "a tower sends 85.3 MB in a step instead of 1.23 GB");
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
