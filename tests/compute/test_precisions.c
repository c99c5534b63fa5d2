/* Tests of every precision on every backend: a step gives what the reference gives in fp32, but for what the precision
 * rounds away. */
#include <errno.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/test.h"

enum { COUNT = 6 };

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16",
};

static uint32_t net_count(void)
{
    return test_is_long() ? 64 : 12;
}

static void compare_with_reference(const char *backend, struct net *net, uint32_t seed,
                                   const struct backend_spec *settings, struct network_distances *distances)
{
    struct network network;
    network_open_settings(&network, backend, net, *settings);
    network_add_distances(&network, COUNT, seed, settings->precision, distances);
    network_close(&network);
    net_close(net);
}

static uint32_t precisions_checked;

/* All precisions but fp32: that one is tested in test_layers and test_graph. */
static void check_precisions(const char *backend, struct net *(*net_of)(uint32_t seed, float dropout),
                             enum batch_statistics statistics)
{
    for (enum precision precision = PRECISION_TF32; precision < PRECISION_COUNT; precision++) {
        const struct backend_spec spec = { .local_max = COUNT, .poison = true, .precision = precision,
                                           .batch_statistics = statistics };
        struct network_distances distances = { 0, 0 };
        struct unsupported_reason reason;
        if (backend_find(backend)->supports(&spec, &reason) != 0)
            continue;
        for (uint32_t seed = 0; seed < net_count(); seed++)
            compare_with_reference(backend, net_of(4000 + seed, seed % 4 == 3 ? 0.5f : 0.0f), seed, &spec,
                                   &distances);
        print_message("%s, %s: ", backend, precision_names[precision]);
        network_assert_distances(&distances, precision);
        precisions_checked++;
    }
}

static void check_chains(const char *backend)
{
    check_precisions(backend, network_random_net, BATCH_STATISTICS_EXACT);
}

TEST(chains_give_what_the_reference_gives)
{
    precisions_checked = 0;
    network_for_each_backend(check_chains);
    if (precisions_checked == 0)
        skip();
}

static void check_graphs(const char *backend)
{
    check_precisions(backend, network_random_graph, BATCH_STATISTICS_EXACT);
}

TEST(graphs_give_what_the_reference_gives)
{
    precisions_checked = 0;
    network_for_each_backend(check_graphs);
    if (precisions_checked == 0)
        skip();
}

static void check_fused_statistics(const char *backend)
{
    check_precisions(backend, network_random_graph, BATCH_STATISTICS_FUSED);
}

TEST(graphs_with_fused_statistics_give_what_the_reference_gives)
{
    precisions_checked = 0;
    network_for_each_backend(check_fused_statistics);
    if (precisions_checked == 0)
        skip();
}

static void open_unsupported(const char *name)
{
    const struct backend_ops *const ops = backend_find(name);
    struct unsupported_reason reason;
    struct stream *compute;
    struct device *const device = device_memory_open(ops, &compute);
    for (enum precision precision = 0; precision < PRECISION_COUNT; precision++)
        for (int other = 0; other <= CONVOLUTION_WINOGRAD + 1; other++) {
            const bool is_fused = other > CONVOLUTION_WINOGRAD;
            const struct backend_spec spec = {
                .device = device, .precision = precision,
                .convolution = is_fused ? CONVOLUTION_AUTO : (enum convolution)other,
                .batch_statistics = is_fused ? BATCH_STATISTICS_FUSED : BATCH_STATISTICS_EXACT,
            };
            struct backend *backend = NULL;
            char text[512] = "";
            if (ops->supports(&spec, &reason) == 0)
                continue;
            assert_int_equal(CAPTURE(text, ops->open(&backend, &spec)), -ENOTSUP);
            assert_null(backend);
            assert_non_null(strstr(text, reason.why));
        }
    device_memory_close(device, compute);
}

TEST(what_a_backend_does_not_support_is_not_opened)
{
    network_for_each_backend(open_unsupported);
}

TESTS_MAIN(NULL, NULL)
