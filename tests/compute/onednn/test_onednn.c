/* Tests of the oneDNN backend: it matches the reference on random nets, its plans share memory, "ref" implementations
 * are refused, and its layouts lose no parameter and have zeros in their padding. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "stage/random.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/network/model_look.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

/* Numbers for one random net. */
struct dice { struct random_key key; uint64_t thrown; };

static uint32_t roll(struct dice *dice, uint32_t sides)
{
    return (uint32_t)(random_u64(dice->key, dice->thrown++) % sides);
}

static int64_t layer_draw(struct net *net, struct dice *dice, const char *name, uint32_t from, struct shape in)
{
    static const uint32_t channels[] = { 1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33 };
    const uint32_t filters = channels[roll(dice, sizeof(channels) / sizeof(channels[0]))];
    const enum padding padding = roll(dice, 2) ? PADDING_SAME : PADDING_VALID;
    const uint32_t least = in.height < in.width ? in.height : in.width;
    const uint32_t wish = 1 + roll(dice, 5), stride = 1 + roll(dice, 3);
    const uint32_t kernel = padding == PADDING_VALID && wish > least ? least : wish;
    switch (roll(dice, 7)) {
    case 0:
        return net_max_pool(net, name, from, window_square(kernel, stride, padding));
    case 1:
        return net_relu(net, name, from);
    case 2:
        return net_dropout(net, name, from, 0.1f * (float)roll(dice, 8));
    case 3:
        return net_dense(net, name, from, filters, true);
    default:
        return net_conv2d(net, name, from, filters, window_square(kernel, stride, padding), true);
    }
}

/* A chain of random layers, on images of one pixel, too. */
static struct net *net_of_seed(uint64_t seed)
{
    static const uint32_t channels[] = { 1, 1, 2, 3, 4, 5, 8, 16, 19 };
    struct dice dice = { random_key(seed, RANDOM_DRAW, 1), 0 };
    struct shape shape = { channels[roll(&dice, 9)], 1 + roll(&dice, 13), 1 + roll(&dice, 13) };
    const uint32_t layers = roll(&dice, 7);
    int64_t at = NET_INPUT;
    struct net *const net = network_net_begin("random", shape, 1 + roll(&dice, 12));
    for (uint32_t i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof(name), "layer%u", i);
        at = layer_draw(net, &dice, name, (uint32_t)at, shape);
        assert_true(at >= 0);
        shape = net->layers[at].out;
    }
    return network_net_end(net, at);
}

/* ---- against the reference ---- */

/* Samples of the seed, one of them without a label; even numbers of them with all ReLU masks stored. */
static void compare_with_reference(const struct net *net, uint32_t count, uint32_t threads, enum layout layout,
                                   uint64_t seed)
{
    struct backend_input input = network_input(net, count, seed);
    struct network network, reference;
    network_open_settings(&network, "onednn", net,
                          (struct backend_spec){ .local_max = count, .threads = threads, .layout = layout });
    network_open(&reference, "reference", net, count, 1);
    ((int32_t *)(uintptr_t)input.labels)[seed % count] = -1;
    if (count % 2 == 0)
        network.backend->large_value_bytes = 0;
    network_draw_weights(&network, seed);
    network_draw_weights(&reference, seed);
    network_compare(&network, &reference, &input, count);
    network_close(&network);
    network_close(&reference);
    network_input_release(&input);
}

TEST(random_nets_match_the_reference_in_every_layout)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct net *net = net_of_seed(seed);
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
            compare_with_reference(net, 3 + (uint32_t)seed % 4, 1 + (uint32_t)seed % 3, (enum layout)layout, seed);
        net_close(net);
    }
}

TEST(the_models_match_the_reference_with_dropout)
{
    struct net *net = model_make("mnist_cnn", 0, true);
    compare_with_reference(net, 3, 2, LAYOUT_AUTO, 11);
    net_close(net);
}

/* ---- the layout of `auto` ---- */

/* With AMX, bf16 values are nhwc. Otherwise oneDNN's choice for the network counts, and a layout the user asks for
 * is used. */
TEST(auto_is_nhwc_only_in_bf16_with_amx)
{
    for (int type = VALUE_FP32; type <= VALUE_BF16; type++)
        for (int set = INSTRUCTIONS_BASE; set <= INSTRUCTIONS_AMX; set++)
            for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++) {
                const bool is_chosen = layout == LAYOUT_AUTO && type == VALUE_BF16 && set == INSTRUCTIONS_AMX;
                assert_int_equal(layout_for_auto((enum layout)layout, (enum value_type)type, (enum instructions)set),
                                 is_chosen ? LAYOUT_NHWC : layout);
            }
}

/* ---- strides wider than the image ---- */

/* A convolution of 16 channels, which oneDNN computes; NULL: the window does not fit. */
static struct net *wide_stride_net(uint32_t columns, uint32_t kernel, uint32_t stride, struct window window)
{
    struct net *const net = network_net_begin("wide stride", (struct shape){ 16, 5, columns }, 5);
    window.kernel_h = window.kernel_w = kernel;
    window.stride_h = window.stride_w = stride;
    const int64_t conv = net_conv2d(net, "conv", NET_INPUT, 32, window, true);
    if (conv >= 0)
        return network_net_end(net, conv);
    net_close(net);
    return NULL;
}

static void for_each_wide_stride(void (*check)(const struct net *))
{
    static const struct window windows[] = {
        { .padding = PADDING_SAME }, { .padding = PADDING_VALID },
        { .padding = PADDING_EXPLICIT, .top = 1, .bottom = 1, .left = 1, .right = 1 },
        { .padding = PADDING_EXPLICIT, .top = 2, .bottom = 2, .left = 2, .right = 2 },
    };
    uint32_t checked = 0;
    for (uint32_t columns = 1; columns <= 4; columns++)
        for (uint32_t kernel = 1; kernel <= 5; kernel++)
            for (uint32_t stride = columns + 1; stride <= 6; stride++)
                for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
                    struct net *net = wide_stride_net(columns, kernel, stride, windows[w]);
                    if (net == NULL)
                        continue;
                    check(net);
                    net_close(net);
                    checked++;
                }
    assert_true(checked > 100);
}

static int64_t places_of(const struct nn_op *op, int axis, uint32_t size, uint32_t kernel)
{
    return ((int64_t)size - kernel + op->pad_before[axis] + op->pad_after[axis]) / op->strides[axis] + 1;
}

/* Names of the bf16 weight gradient in oneDNN 2.6.3 to 3.7.2, with AVX-512 and with AMX. */
static void assert_is_never_asked_for(const struct net *net)
{
    static const char *const wrong[] = { "jit_bf16:avx512_core_bf16", "jit:avx512_core_amx_bf16",
                                         "brgconv_bwd_w:avx512_core_amx", "brgconv_bwd_w:avx512_core_bf16" };
    const struct layer *const conv = &net->layers[0];
    struct weighted_mds mds;
    struct nn_op op;
    assert_int_equal(conv_mds_open(&mds, conv, NULL, NULL, 4, VALUE_BF16), 0);
    weighted_op(&op, conv, &mds, (struct weighted_options){ .direction = NN_BACKWARD_WEIGHTS, .training = true });
    assert_int_equal(places_of(&op, 0, conv->in.height, conv->kernel_h), conv->out.height);
    assert_int_equal(places_of(&op, 1, conv->in.width, conv->kernel_w), conv->out.width);
    const bool is_wide = op.strides[1] > conv->in.width;
    assert_true(!is_wide || conv->out.width > 1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(nn_op_is_broken(&op, wrong[i], 2), is_wide);
    assert_false(nn_op_is_broken(&op, "ref:any", 2));
    weighted_mds_close(&mds);
}

TEST(weight_gradients_avoid_strides_wider_than_the_image_where_onednn_is_wrong)
{
    for_each_wide_stride(assert_is_never_asked_for);
}

/* Convolutions, and which of oneDNN's kernels for them are wrong. */
TEST(wrong_kernels_are_known_by_version_name_direction_and_shape)
{
    static const char matmul[] = "jit_uni_ncsp_convolution:matmul+brg_matmul:avx512_core", small[] = "jit_1x1:avx2";
    static const struct {
        const char *name;
        int major;
        enum nn_direction direction;
        dnnl_dim_t channels, filters;
        dnnl_format_tag_t tag;
        int64_t stride;
        bool is_broken;
    } rows[] = {
        { matmul, 3, NN_BACKWARD_DATA, 1, 1, dnnl_acdb, 1, true },
        { matmul, 3, NN_FORWARD, 1, 1, dnnl_acdb, 1, true },
        { matmul, 3, NN_BACKWARD_DATA, 1, 1, dnnl_abcd, 1, false },
        { matmul, 3, NN_BACKWARD_DATA, 16, 16, dnnl_abcd, 1, false },
        { "brgconv_1x1:avx512_core", 3, NN_BACKWARD_DATA, 1, 1, dnnl_acdb, 1, false },
        { small, 3, NN_BACKWARD_WEIGHTS, 4, 24, dnnl_acdb, 2, true },
        { small, 3, NN_BACKWARD_WEIGHTS, 4, 24, dnnl_acdb, 1, false },
        { small, 3, NN_BACKWARD_WEIGHTS, 16, 24, dnnl_acdb, 2, false },
        { small, 3, NN_FORWARD, 4, 24, dnnl_acdb, 2, false },
        { small, 2, NN_FORWARD, 4, 24, dnnl_acdb, 2, true },
        { small, 2, NN_FORWARD, 16, 24, dnnl_acdb, 2, false },
        { "brgconv_strided:avx2", 3, NN_BACKWARD_WEIGHTS, 4, 24, dnnl_acdb, 2, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const dnnl_dim_t src[] = { 5, rows[i].channels, 10, 10 }, dst[] = { 5, rows[i].filters, 10, 10 };
        const struct nn_op op = {
            .kind = NN_CONVOLUTION, .direction = rows[i].direction, .strides = { rows[i].stride, rows[i].stride },
            .src = nn_md_tag(4, src, rows[i].tag, dnnl_f32), .dst = nn_md_tag(4, dst, rows[i].tag, dnnl_f32),
        };
        if (nn_op_is_broken(&op, rows[i].name, rows[i].major) != rows[i].is_broken)
            fail_msg("row %zu: %s of oneDNN %d", i, rows[i].name, rows[i].major);
        nn_md_release(op.src);
        nn_md_release(op.dst);
    }
}

static void assert_matches_the_reference(const struct net *net)
{
    compare_with_reference(net, 4, 1, LAYOUT_AUTO, 5);
}

TEST(strides_wider_than_the_image_match_the_reference)
{
    for_each_wide_stride(assert_matches_the_reference);
}

/* oneDNN 2.6 fails on the data gradient of such a layer with weights in its own layout. */
TEST(wide_dense_layers_of_few_values_match_the_reference_on_several_threads)
{
    for (uint32_t inputs = 1; inputs <= 32; inputs *= 2) {
        struct net *const net = network_net_begin("narrow", (struct shape){ 3, 4, 4 }, 5);
        int64_t at = net_relu(net, "relu1", (uint32_t)net_dense(net, "fc1", NET_INPUT, inputs, true));
        at = net_relu(net, "relu2", (uint32_t)net_dense(net, "fc2", (uint32_t)at, 2048, true));
        compare_with_reference(network_net_end(net, at), 4, 2, LAYOUT_AUTO, 7);
        net_close(net);
    }
}

/* ---- plans ---- */

/* A network of mnist_cnn on the backend, with samples, all of the seed. */
struct digits { struct net *net; struct network network; struct backend_input input; };

static void digits_open(struct digits *digits, bool dropout, uint32_t count, uint32_t threads, uint64_t seed)
{
    digits->net = model_make("mnist_cnn", 0, dropout);
    digits->input = network_input(digits->net, count, seed);
    network_open(&digits->network, "onednn", digits->net, count, threads);
    network_draw_weights(&digits->network, seed);
}

static void digits_close(struct digits *digits)
{
    network_close(&digits->network);
    network_input_release(&digits->input);
    net_close(digits->net);
}

static struct plan *plan_make(struct network *network, uint32_t count, bool training)
{
    struct plan *plan;
    const struct plan_spec spec = { .count = count, .training = training };
    assert_int_equal(network->ops->plan(network->backend, &spec, &plan), 0);
    assert_int_equal(network->ops->allocate(network->backend), 0);
    return plan;
}

TEST(batches_of_any_size_share_memory_and_sum_to_the_whole)
{
    struct digits digits;
    digits_open(&digits, true, 9, 2, 4);
    network_check_parts(&digits.network, &digits.input, (const struct network_part[]){ { 0, 1 }, { 1, 2 }, { 3, 6 } },
                        3, 9);
    digits_close(&digits);
}

TEST(a_step_gives_the_same_bits_after_other_steps)
{
    struct digits digits;
    digits_open(&digits, true, 12, 2, 8);
    struct network *const network = &digits.network;
    const size_t bytes = network->arenas.trained.count * sizeof(float);
    network_run(network, &digits.input, 3, 5, true);
    float *once = malloc(bytes);
    memcpy(once, network->gradients, bytes);
    network_run(network, &digits.input, 0, 12, true);
    assert_memory_not_equal(once, network->gradients, bytes);
    network_run(network, &digits.input, 3, 5, true);
    assert_memory_equal(once, network->gradients, bytes);
    free(once);
    digits_close(&digits);
}

TEST(stored_relu_masks_give_the_same_bits)
{
    struct digits values, masks;
    digits_open(&values, true, 11, 2, 9);
    digits_open(&masks, true, 11, 2, 9);
    values.network.backend->large_value_bytes = SIZE_MAX;
    masks.network.backend->large_value_bytes = 0;
    network_compare_bits(&masks.network, &values.network, &values.input, 11);
    digits_close(&values);
    digits_close(&masks);
}

/* Two convolutions with a ReLU, whose results are joined, and one that reads the result. */
static struct net *net_of_branches(void)
{
    struct net *const net = network_net_begin("branches", (struct shape){ 3, 12, 12 }, 4);
    for (uint32_t i = 0; i < 2; i++) {
        net_conv2d(net, i == 0 ? "a" : "b", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), true);
        net_relu(net, i == 0 ? "a.relu" : "b.relu", 2 * i);
    }
    net_concat(net, "both", (const uint32_t[]){ 1, 3 }, 2);
    net_conv2d(net, "c", 4, 16, window_square(3, 1, PADDING_SAME), true);
    return network_net_end(net, net_relu(net, "c.relu", 5));
}

/* The last use of the result of a layer with its ReLU. */
static uint32_t held_until(const struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    return plan->base.values.buffers[plan->base.values.values[value].buffer].last;
}

TEST(copied_results_are_not_kept_for_their_relu)
{
    enum { COUNT = 16 };
    struct net *const net = net_of_branches();
    struct network network;
    network_open(&network, "onednn", net, COUNT, 1);
    struct plan *const plan = plan_make(&network, COUNT, true);
    assert_int_equal(held_until(plan, 0), time_forward(4));
    assert_int_equal(held_until(plan, 2), time_forward(4));
    assert_int_equal(held_until(plan, 5), time_parameters(&plan->base.values, 5));
    network.ops->plan_close(plan);
    network_close(&network);
    net_close(net);
}

TEST(a_smaller_plan_takes_no_more_memory)
{
    struct digits digits;
    struct backend_needs needs, of_all;
    digits_open(&digits, true, 12, 1, 1);
    struct network *const network = &digits.network;
    struct plan *const large = plan_make(network, 12, true);
    network->ops->needs(network->backend, &needs);
    struct plan *const small = plan_make(network, 5, true), *const evaluation = plan_make(network, 12, false);
    network->ops->needs(network->backend, &of_all);
    /* At least the values and gradients of the second convolution. */
    assert_true(needs.values > 12 * 32 * (26 * 26 + 24 * 24) * sizeof(float));
    assert_int_equal(of_all.values, needs.values);
    network->ops->plan_close(evaluation);
    network->ops->plan_close(small);
    network->ops->plan_close(large);
    digits_close(&digits);
}

TEST(evaluation_sees_every_value_and_training_drops_some)
{
    double losses[2];
    for (int i = 0; i < 2; i++) {
        struct digits digits;
        digits_open(&digits, i == 0, 8, 1, 6);
        losses[i] = network_run(&digits.network, &digits.input, 0, 8, false).loss_sum;
        const double trained = network_run(&digits.network, &digits.input, 0, 8, true).loss_sum;
        assert_int_equal(fabs(trained - losses[i]) < 1e-5, i == 1);
        digits_close(&digits);
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-9);
}

struct description { uint32_t lines; bool names_ref, names_relu; };

static void line_note(void *arg, const char *line)
{
    struct description *description = arg;
    description->lines++;
    description->names_ref |= strstr(line, "ref") != NULL;
    description->names_relu |= strstr(line, "with ReLU") != NULL;
}

TEST(the_description_names_every_layer_and_no_ref_implementation)
{
    static const char *const models[] = { "mnist_cnn", "mnist_cnn2" };
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        for (uint32_t count = 1; count <= 10; count += 9) {
            struct net *net = model_make(models[m], 0, true);
            struct description description = { 0 };
            struct network network;
            network_open(&network, "onednn", net, count, 1);
            struct plan *const plan = plan_make(&network, count, true);
            network.ops->plan_describe(plan, line_note, &description);
            assert_int_equal(description.lines, net->layer_count);
            assert_false(description.names_ref);
            assert_true(description.names_relu);
            network.ops->plan_close(plan);
            network_close(&network);
            net_close(net);
        }
}

/* A layout in which oneDNN has only a reference pooling. */
static void ref_op_init(struct nn_op *op)
{
    const dnnl_dim_t src[] = { 2, 3, 6, 6 }, dst[] = { 2, 3, 3, 3 };
    *op = (struct nn_op){
        .kind = NN_MAX_POOL, .direction = NN_FORWARD, .training = true, .src = nn_md_tag(4, src, dnnl_cdba, dnnl_f32),
        .dst = nn_md_tag(4, dst, dnnl_cdba, dnnl_f32), .strides = { 2, 2 }, .kernel = { 2, 2 },
    };
}

TEST(ref_implementations_are_refused_by_name_unless_allowed)
{
    char text[1024];
    struct nn_call call;
    struct nn_op op;
    struct digits digits;
    digits_open(&digits, true, 2, 1, 1);
    struct plan *const plan = plan_make(&digits.network, 2, true);
    bool *const is_allowed = &digits.network.backend->spec.allow_ref;
    ref_op_init(&op);
    *is_allowed = false;
    const int refused = CAPTURE(text, call_open(plan, &call, 0, &op, NULL, NULL, 0, 0, NULL));
    assert_int_equal(refused, -ENOTSUP);
    assert_non_null(strstr(text, "conv1"));
    assert_non_null(strstr(text, "forward"));
    assert_non_null(strstr(text, "28x28"));
    assert_non_null(strstr(text, "devices.allow_ref"));
    call_close(&call);
    *is_allowed = true;
    assert_int_equal(call_open(plan, &call, 0, &op, NULL, NULL, 0, 0, NULL), 0);
    assert_true(nn_pd_is_ref(call.pd));
    call_close(&call);
    nn_md_release(op.src);
    nn_md_release(op.dst);
    digits.network.ops->plan_close(plan);
    digits_close(&digits);
}

/* ---- the storage of parameters ---- */

static void assert_unpacks(const struct net *net, enum layout layout)
{
    struct network network, plain;
    network_open_settings(&network, "onednn", net, (struct backend_spec){ .local_max = 4, .layout = layout });
    network_open(&plain, "reference", net, 4, 1);
    network_draw_weights(&network, 5);
    network_draw_weights(&plain, 5);
    network_assert_same_numbers(&network, &plain);
    network_close(&network);
    network_close(&plain);
}

TEST(packing_and_unpacking_gives_the_same_parameters)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_of_seed(seed);
        assert_unpacks(net, (enum layout)(seed % 3));
        net_close(net);
    }
}

/* Rows read four at a time, and a rest. */
TEST(packing_and_unpacking_gives_the_same_many_channels)
{
    struct net *const net = network_net_begin("wide", (struct shape){ 3, 10, 10 }, 37);
    uint32_t at = (uint32_t)net_conv2d(net, "first", NET_INPUT, 32, window_square(7, 2, PADDING_SAME), true);
    at = (uint32_t)net_conv2d(net, "second", at, 50, window_square(3, 1, PADDING_SAME), true);
    at = (uint32_t)net_conv2d(net, "third", at, 112, window_square(1, 1, PADDING_SAME), true);
    network_net_end(net, at);
    for (enum layout layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
        assert_unpacks(net, layout);
    net_close(net);
}

TEST(packing_and_unpacking_gives_the_same_large_windows)
{
    struct net *const net = network_net_begin("large", (struct shape){ 20, 14, 15 }, 3);
    network_net_end(net, net_conv2d(net, "conv", NET_INPUT, 40, window_square(13, 1, PADDING_SAME), true));
    for (enum layout layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
        assert_unpacks(net, layout);
    net_close(net);
}

static size_t count_not_zero(const float *numbers, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += !(numbers[i] == 0.0f);
    return found;
}

TEST(padding_is_zero_in_packed_weights_and_in_gradients)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_of_seed(seed);
        struct backend_input input = network_input(net, 4, seed);
        struct network network;
        network_open(&network, "onednn", net, 4, 1);
        network_draw_weights(&network, seed);
        network_run(&network, &input, 0, 4, true);
        for (uint32_t i = 0; i < net->parameter_count; i++) {
            const struct arena_range *const range = &network.arenas.trained.ranges[i];
            const size_t plain = net->parameters[i].count;
            float *weights = malloc(range->count * sizeof(*weights));
            float *const unpacked = network_numbers(&network, i), *const gradient = network_gradient(&network, i);
            assert_true(range->count >= plain);
            memset(weights, 0xff, range->count * sizeof(*weights));
            assert_int_equal(network.ops->pack(network.backend, i, unpacked, weights), 0);
            assert_int_equal(count_not_zero(weights, range->count), count_not_zero(unpacked, plain));
            assert_int_equal(count_not_zero(network.gradients + range->offset, range->count),
                             count_not_zero(gradient, plain));
            free(weights);
            free(unpacked);
            free(gradient);
        }
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

TESTS_MAIN_WITH_TEAMS
