/* Tests of single convolutions against the reference: every combination of few and odd channels, narrow images,
 * windows, strides and paddings, in every layout and every precision of this CPU, so that a wrong kernel of oneDNN
 * is found by its shape instead of by chance in a random network. older_cpus.sh runs this program again with each
 * instruction set of the CPU. */
#include <stdio.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

enum { COUNT = 4, CLASSES = 3 };

/* One convolution, and the layout of the values around it. */
struct shape_case {
    uint32_t height, width, channels, filters, kernel, stride;
    enum padding padding;
    enum layout layout;
    bool is_branch;             /* another layer reads its input, too */
};

/* The input comes from another convolution, so that the tested one has all three passes. NULL: the window does not
 * fit. */
static struct net *case_net(const struct shape_case *about)
{
    char name[96];
    struct net *net;
    snprintf(name, sizeof(name), "%ux%ux%u to %u, kernel %u, stride %u, %s, layout %u%s", about->channels,
             about->height, about->width, about->filters, about->kernel, about->stride,
             about->padding == PADDING_SAME ? "same" : "valid", about->layout, about->is_branch ? ", branch" : "");
    assert_int_equal(net_open(&net, name, (struct shape){ 3, about->height, about->width }, CLASSES), 0);
    const uint32_t stem = (uint32_t)net_conv2d(net, "stem", NET_INPUT, about->channels,
                                               window_square(1, 1, PADDING_SAME), true);
    const int64_t conv = net_conv2d(net, "conv", stem, about->filters,
                                    window_square(about->kernel, about->stride, about->padding), about->stride != 2);
    if (conv < 0) {
        net_close(net);
        return NULL;
    }
    uint32_t logits = (uint32_t)net_dense(net, "classes", (uint32_t)conv, CLASSES, true);
    if (about->is_branch)
        logits = (uint32_t)net_add(net, "sum", logits, (uint32_t)net_dense(net, "beside", stem, CLASSES, true));
    net_softmax_loss(net, "loss", logits);
    net_finish(net);
    assert_string_equal(net_error(net), "");
    return net;
}

static void check_in_bf16(const struct net *net, enum layout layout, uint32_t seed,
                          struct network_distances *distances)
{
    const struct backend_spec spec = { .local_max = COUNT, .poison = true, .precision = PRECISION_BF16,
                                       .layout = layout };
    struct network network;
    network_open_settings(&network, "onednn", net, spec);
    network_add_distances(&network, COUNT, seed, PRECISION_BF16, distances);
    network_close(&network);
}

static bool has_bf16(void)
{
    const struct backend_spec spec = { .precision = PRECISION_BF16 };
    struct unsupported_reason reason;
    return backend_find("onednn")->supports(&spec, &reason) == 0;
}

static const struct { uint32_t height, width; } sizes[] = { { 1, 1 }, { 8, 1 }, { 1, 7 }, { 5, 2 }, { 6, 6 } };
static const struct { uint32_t channels, filters; } widths[] = {
    { 1, 1 }, { 1, 16 }, { 16, 1 }, { 4, 24 }, { 3, 8 }, { 8, 16 }, { 16, 16 }, { 17, 33 }, { 32, 16 },
};
static const uint32_t kernels[] = { 1, 2, 3, 5 };
static const struct { enum layout layout; bool is_branch; } places[] = {
    { LAYOUT_AUTO, false }, { LAYOUT_AUTO, true }, { LAYOUT_NHWC, true }, { LAYOUT_NCHW, true },
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Parameters of a case, each below its bound: digits in a mixed base. */
static uint32_t take_digit(uint32_t *number, size_t bound)
{
    const uint32_t digit = *number % (uint32_t)bound;
    *number /= (uint32_t)bound;
    return digit;
}

/* The shape of an index; false after the last one. A short run takes each shape in one layout, in turn; a long one
 * in all. */
static bool find_case(uint32_t index, struct shape_case *case_out)
{
    uint32_t left = index;
    const uint32_t all = test_is_long() ? take_digit(&left, LENGTH(places)) : 0;
    const uint32_t width = take_digit(&left, LENGTH(widths)), kernel = take_digit(&left, LENGTH(kernels));
    const uint32_t stride = 1 + take_digit(&left, 3), padding = take_digit(&left, 2);
    const uint32_t size = take_digit(&left, LENGTH(sizes));
    const uint32_t place = test_is_long() ? all : (width + kernel + stride + padding + size) % LENGTH(places);
    *case_out = (struct shape_case){
        .height = sizes[size].height, .width = sizes[size].width,
        .channels = widths[width].channels, .filters = widths[width].filters,
        .kernel = kernels[kernel], .stride = stride, .padding = padding == 0 ? PADDING_SAME : PADDING_VALID,
        .layout = places[place].layout, .is_branch = places[place].is_branch,
    };
    return left == 0;
}

TEST(every_convolution_matches_the_reference)
{
    struct shape_case about;
    uint32_t checked = 0;
    for (uint32_t index = 0; find_case(index, &about); index++) {
        struct net *const net = case_net(&about);
        if (net == NULL)
            continue;
        network_check_net("onednn", net,
                          (struct backend_spec){ .local_max = COUNT, .threads = index % 8 == 0 ? 2 : 1,
                                                 .layout = about.layout }, index);
        checked++;
    }
    print_message("%u convolutions\n", checked);
    assert_true(checked > 500);
}

TEST(every_convolution_matches_the_reference_in_bf16)
{
    struct network_distances distances = { 0, 0 };
    struct shape_case about;
    if (!has_bf16()) {
        print_message("the CPU has no bf16\n");
        skip();
    }
    for (uint32_t index = 0; find_case(index, &about); index++) {
        struct net *const net = case_net(&about);
        if (net == NULL)
            continue;
        check_in_bf16(net, about.layout, index, &distances);
        net_close(net);
    }
    network_assert_distances(&distances, PRECISION_BF16);
}

TESTS_MAIN_WITH_TEAMS
