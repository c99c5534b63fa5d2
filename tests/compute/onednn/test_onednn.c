/* Tests of the oneDNN backend: it matches the reference on random nets, its plans share memory, and "ref"
 * implementations are refused. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/network/step_fixture.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

TEST(random_nets_match_the_reference_in_every_layout)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct net *net = net_of_seed(seed);
        struct samples samples;
        const uint32_t count = 1 + (uint32_t)seed % 6;
        samples_draw(&samples, net, seed);
        struct outcome expected =
            step_fixture_once(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO }, &samples, count);
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++) {
            const struct rig_options options = { 1 + (uint32_t)seed % 3, 0, (enum layout)layout };
            struct outcome actual = step_fixture_once(&backend_onednn_ops, net, options, &samples, count);
            outcome_assert_close(&actual, &expected, 1e-4);
            free(actual.gradients);
        }
        free(expected.gradients);
        free(samples.pixels);
        net_close(net);
    }
}

TEST(the_models_match_the_reference_with_dropout)
{
    struct net *net = net_of_model("mnist_cnn", true);
    struct samples samples;
    samples_draw(&samples, net, 11);
    struct outcome expected = step_fixture_once(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO },
                                                &samples, 3);
    struct outcome actual = step_fixture_once(&backend_onednn_ops, net, (struct rig_options){ 2, 0, LAYOUT_AUTO },
                                              &samples, 3);
    outcome_assert_close(&actual, &expected, 1e-4);
    assert_int_equal(actual.result.correct, expected.result.correct);
    free(actual.gradients);
    free(expected.gradients);
    free(samples.pixels);
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
    struct net *net;
    assert_int_equal(net_open(&net, "wide stride", (struct shape){ 16, 5, columns }, 5), 0);
    window.kernel_h = window.kernel_w = kernel;
    window.stride_h = window.stride_w = stride;
    const int64_t conv = net_conv2d(net, "conv", NET_INPUT, 32, window, true);
    if (conv >= 0) {
        net_softmax_loss(net, "loss", (uint32_t)net_dense(net, "classes", (uint32_t)conv, net->classes, true));
        if (net_finish(net) == 0)
            return net;
    }
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
    struct samples samples;
    samples_draw(&samples, net, 5);
    const struct rig_options options = { 1, 0, LAYOUT_AUTO };
    struct outcome expected = step_fixture_once(&backend_reference_ops, net, options, &samples, 4);
    struct outcome actual = step_fixture_once(&backend_onednn_ops, net, options, &samples, 4);
    outcome_assert_close(&actual, &expected, 1e-4);
    free(actual.gradients);
    free(expected.gradients);
    free(samples.pixels);
}

TEST(strides_wider_than_the_image_match_the_reference)
{
    for_each_wide_stride(assert_matches_the_reference);
}

/* oneDNN 2.6 fails on the data gradient of such a layer with weights in its own layout. */
TEST(wide_dense_layers_of_few_values_match_the_reference_on_several_threads)
{
    for (uint32_t inputs = 1; inputs <= 32; inputs *= 2) {
        struct net *net;
        struct samples samples;
        assert_int_equal(net_open(&net, "narrow", (struct shape){ 3, 4, 4 }, 5), 0);
        int64_t at = net_relu(net, "relu1", (uint32_t)net_dense(net, "fc1", NET_INPUT, inputs, true));
        at = net_relu(net, "relu2", (uint32_t)net_dense(net, "fc2", (uint32_t)at, 2048, true));
        net_softmax_loss(net, "loss", (uint32_t)net_dense(net, "fc3", (uint32_t)at, net->classes, true));
        assert_int_equal(net_finish(net), 0);
        samples_draw(&samples, net, 7);
        struct outcome expected =
            step_fixture_once(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO }, &samples, 4);
        struct outcome actual = step_fixture_once(&backend_onednn_ops, net, (struct rig_options){ 2, 0, LAYOUT_AUTO },
                                                  &samples, 4);
        outcome_assert_close(&actual, &expected, 1e-4);
        free(actual.gradients);
        free(expected.gradients);
        free(samples.pixels);
        net_close(net);
    }
}

static void outcome_add(struct outcome *sum, const struct outcome *part)
{
    for (size_t i = 0; i < sum->count; i++)
        sum->gradients[i] += part->gradients[i];
    sum->result.loss_sum += part->result.loss_sum;
    sum->result.counted += part->result.counted;
}

TEST(slices_of_any_size_share_memory_and_sum_to_the_whole)
{
    struct net *net = net_of_model("mnist_cnn", true);
    struct samples samples;
    struct step_fixture rig;
    samples_draw(&samples, net, 4);
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 9, LAYOUT_AUTO });
    struct outcome whole = step_fixture_run(&rig, &samples, 0, 9);
    struct outcome sum = step_fixture_run(&rig, &samples, 0, 1);
    for (uint32_t first = 1, count = 2; first < 9; first += count, count = 6) {
        struct outcome part = step_fixture_run(&rig, &samples, first, count);
        outcome_add(&sum, &part);
        free(part.gradients);
    }
    outcome_assert_close(&sum, &whole, 1e-5);
    free(sum.gradients);
    free(whole.gradients);
    step_fixture_close(&rig);
    free(samples.pixels);
    net_close(net);
}

TEST(a_step_gives_the_same_bits_after_other_steps)
{
    struct net *net = net_of_model("mnist_cnn", true);
    struct samples samples;
    struct step_fixture rig;
    struct plan *plan, *larger;
    samples_draw(&samples, net, 8);
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 12, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, 5, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    step_fixture_run_plan(&rig, plan, &samples, 3);
    float *once = malloc(rig.arenas.trained.count * sizeof(*once));
    memcpy(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    assert_int_equal(rig.ops->plan(rig.backend, 12, true, &larger), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    step_fixture_run_plan(&rig, larger, &samples, 0);
    assert_memory_not_equal(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    step_fixture_run_plan(&rig, plan, &samples, 3);
    assert_memory_equal(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    free(once);
    rig.ops->plan_close(larger);
    rig.ops->plan_close(plan);
    step_fixture_close(&rig);
    free(samples.pixels);
    net_close(net);
}

TEST(stored_relu_masks_give_the_same_bits)
{
    struct net *net = net_of_model("mnist_cnn", true);
    struct samples samples;
    struct outcome outcomes[2];
    samples_draw(&samples, net, 9);
    for (int i = 0; i < 2; i++) {
        struct step_fixture rig;
        struct plan *plan;
        step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 11, LAYOUT_AUTO });
        rig.backend->large_value_bytes = i ? 0 : SIZE_MAX;
        assert_int_equal(rig.ops->plan(rig.backend, 11, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
        step_fixture_run_plan(&rig, plan, &samples, 0);
        outcome_read(&rig, &outcomes[i]);
        rig.ops->plan_close(plan);
        step_fixture_close(&rig);
    }
    assert_memory_equal(outcomes[0].gradients, outcomes[1].gradients, outcomes[0].count * sizeof(float));
    free(outcomes[0].gradients);
    free(outcomes[1].gradients);
    free(samples.pixels);
    net_close(net);
}

/* Two convolutions with a ReLU, whose results are joined, and one that reads the result. */
static struct net *net_of_branches(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "branches", (struct shape){ 3, 12, 12 }, 4), 0);
    for (uint32_t i = 0; i < 2; i++) {
        net_conv2d(net, i == 0 ? "a" : "b", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), true);
        net_relu(net, i == 0 ? "a.relu" : "b.relu", 2 * i);
    }
    net_concat(net, "both", (const uint32_t[]){ 1, 3 }, 2);
    net_conv2d(net, "c", 4, 16, window_square(3, 1, PADDING_SAME), true);
    net_relu(net, "c.relu", 5);
    net_dense(net, "fc", 6, 4, true);
    net_softmax_loss(net, "loss", 7);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* The last use of the result of a layer with its ReLU. */
static uint32_t held_until(const struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    return plan->base.values.buffers[plan->base.values.values[value].buffer].last;
}

TEST(copied_results_are_not_kept_for_their_relu)
{
    struct net *const net = net_of_branches();
    struct plan *plan;
    struct step_fixture rig;
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, SAMPLES_MAX, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, SAMPLES_MAX, true, &plan), 0);
    assert_int_equal(held_until(plan, 0), time_forward(4));
    assert_int_equal(held_until(plan, 2), time_forward(4));
    assert_int_equal(held_until(plan, 5), time_parameters(&plan->base.values, 5));
    rig.ops->plan_close(plan);
    step_fixture_close(&rig);
    net_close(net);
}

TEST(a_smaller_plan_takes_no_more_memory)
{
    struct net *net = net_of_model("mnist_cnn", true);
    struct step_fixture rig;
    struct plan *large, *small, *evaluation;
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 12, LAYOUT_AUTO });
    struct backend_needs needs, of_all;
    assert_int_equal(rig.ops->plan(rig.backend, 12, true, &large), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    rig.ops->needs(rig.backend, &needs);
    assert_int_equal(rig.ops->plan(rig.backend, 5, true, &small), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    assert_int_equal(rig.ops->plan(rig.backend, 12, false, &evaluation), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    rig.ops->needs(rig.backend, &of_all);
    /* At least the values and gradients of the second convolution. */
    assert_true(needs.values > 12 * 32 * (26 * 26 + 24 * 24) * sizeof(float));
    assert_int_equal(of_all.values, needs.values);
    rig.ops->plan_close(evaluation);
    rig.ops->plan_close(small);
    rig.ops->plan_close(large);
    step_fixture_close(&rig);
    net_close(net);
}

TEST(evaluation_sees_every_value_and_training_drops_some)
{
    struct net *with = net_of_model("mnist_cnn", true), *without = net_of_model("mnist_cnn", false);
    struct samples samples;
    double losses[2];
    struct net *nets[] = { with, without };
    samples_draw(&samples, with, 6);
    for (int i = 0; i < 2; i++) {
        const struct backend_input input = { .pixels = samples.pixels, .labels = samples.labels };
        struct backend_result result;
        struct step_fixture rig;
        struct plan *plan;
        step_fixture_open(&rig, &backend_onednn_ops, nets[i], (struct rig_options){ 1, 8, LAYOUT_AUTO });
        assert_int_equal(rig.ops->plan(rig.backend, 8, false, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
        assert_int_equal(rig.ops->input(plan, &input), 0);
        assert_int_equal(rig.ops->forward(plan), 0);
        assert_int_equal(rig.ops->result(plan, &result), 0);
        losses[i] = result.loss_sum;
        rig.ops->plan_close(plan);
        struct outcome trained = step_fixture_run(&rig, &samples, 0, 8);
        assert_int_equal(fabs(trained.result.loss_sum - losses[i]) < 1e-5, i == 1);
        free(trained.gradients);
        step_fixture_close(&rig);
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-9);
    free(samples.pixels);
    net_close(with);
    net_close(without);
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
            struct net *net = net_of_model(models[m], true);
            struct description description = { 0 };
            struct step_fixture rig;
            struct plan *plan;
            step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, count, LAYOUT_AUTO });
            assert_int_equal(rig.ops->plan(rig.backend, count, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
            rig.ops->plan_describe(plan, line_note, &description);
            assert_int_equal(description.lines, net->layer_count);
            assert_false(description.names_ref);
            assert_true(description.names_relu);
            rig.ops->plan_close(plan);
            step_fixture_close(&rig);
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
    struct net *net = net_of_model("mnist_cnn", true);
    char text[1024];
    struct nn_call call;
    struct nn_op op;
    struct step_fixture rig;
    struct plan *plan;
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 2, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, 2, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    ref_op_init(&op);
    const int refused = CAPTURE(text, call_open(plan, &call, 0, &op, NULL, NULL, 0, 0, NULL));
    assert_int_equal(refused, -ENOTSUP);
    assert_non_null(strstr(text, "conv1"));
    assert_non_null(strstr(text, "forward"));
    assert_non_null(strstr(text, "28x28"));
    assert_non_null(strstr(text, "devices.allow_ref"));
    call_close(&call);
    rig.backend->spec.allow_ref = true;
    assert_int_equal(call_open(plan, &call, 0, &op, NULL, NULL, 0, 0, NULL), 0);
    assert_true(nn_pd_is_ref(call.pd));
    call_close(&call);
    nn_md_release(op.src);
    nn_md_release(op.dst);
    rig.ops->plan_close(plan);
    step_fixture_close(&rig);
    net_close(net);
}

int main(int argc, char **argv)
{
    (void)argc;
    teams_sleep(argv);
    return tests_run(NULL, NULL);
}
