/* Tests of the CUDA backend's failures on the simulated CUDA: too little memory, refusals, and every library call
 * failing once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>
#include <cudnn.h>

#include "compute/share.h"
#include "tests/cuda/backend_cuda_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test.h"

/* ---- memory ---- */

static char messages[1024];     /* of the last attempt */

static int plan_once(struct network *fixture, uint32_t count)
{
    struct plan *plan = NULL;
    int rc = fixture->ops->plan(fixture->backend, &(struct plan_spec){ .count = count, .training = true }, &plan);
    if (rc == 0)
        rc = fixture->ops->allocate(fixture->backend);
    if (plan != NULL)
        fixture->ops->plan_close(plan);
    return rc;
}

static int try_plan(struct network *fixture, uint32_t count)
{
    return CAPTURE(messages, plan_once(fixture, count));
}

TEST(reports_how_many_samples_would_fit)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0), PRECISION_FP32);
    assert_int_equal(try_plan(&fixture, 20000), -ENOMEM);
    unsigned samples, fitting;
    assert_int_equal(sscanf(messages, "pipetrain: cuda0: a tower of %u samples needs", &samples), 1);
    assert_int_equal(samples, 20000);
    const char *hint = strstr(messages, "iB are free: ");
    assert_non_null(hint);
    assert_int_equal(sscanf(hint, "iB are free: %u samples a tower would fit", &fitting), 1);
    assert_int_equal(try_plan(&fixture, fitting * 6 / 5), -ENOMEM);
    assert_int_equal(try_plan(&fixture, fitting), 0);
    cuda_fixture_close(&fixture);
}

TEST(plans_share_their_memory)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0), PRECISION_FP32);
    network_plan(&fixture, 1, true);
    const struct backend_needs small = cuda_fixture_needs(&fixture);
    network_plan(&fixture, SAMPLES, true);
    const struct backend_needs large = cuda_fixture_needs(&fixture);
    network_plan(&fixture, SAMPLES, false);
    const struct backend_needs all = cuda_fixture_needs(&fixture);
    assert_true(small.values > 0 && small.values < large.values);
    assert_memory_equal(&all, &large, sizeof(all));
    cuda_fixture_close(&fixture);
}

static size_t free_memory(struct network *fixture)
{
    size_t free_bytes, total_bytes;
    assert_int_equal(fixture->device->ops->memory(fixture->device, &free_bytes, &total_bytes), 0);
    return free_bytes;
}

/* With timed plans and without; what is allocated then is what was reported. */
TEST(plans_allocate_only_when_asked)
{
    struct net *net = small_net(0);
    for (uint32_t measured = 0; measured < 2; measured++) {
        struct network fixture;
        struct plan *plan;
        struct backend_spec spec = cuda_fixture_spec(net, PRECISION_BF16);
        spec.time_plans = measured != 0;
        spec.workspace_max = 1 << 20;
        cuda_fixture_open_with(&fixture, "cuda", &spec, false);
        const size_t before = free_memory(&fixture);
        const struct plan_spec wanted = { .count = SAMPLES, .training = true };
        assert_int_equal(fixture.ops->plan(fixture.backend, &wanted, &plan), 0);
        assert_int_equal(free_memory(&fixture), before);
        const struct backend_needs needs = cuda_fixture_needs(&fixture);
        assert_int_equal(fixture.ops->allocate(fixture.backend), 0);
        const size_t taken = before - free_memory(&fixture), said = needs.values + needs.workspace + needs.weights;
        assert_true(taken >= said && taken < said + 4096);
        assert_int_equal(fixture.ops->allocate(fixture.backend), 0);
        assert_int_equal(before - free_memory(&fixture), taken);
        fixture.ops->plan_close(plan);
        cuda_fixture_close(&fixture);
    }
    net_close(net);
}

/* Two slices, and the head for these and those of another tower. */
TEST(a_share_that_does_not_fit_is_reported_with_the_samples_of_its_tower)
{
    struct net *const net = small_net(0), *share;
    struct network fixture;
    struct head head;
    struct plan *plans[3];
    const struct part_range own = { 0, 1 };
    assert_int_equal(head_find(&head, net, 1, &(struct unsupported_reason){ 0 }), 0);
    assert_int_equal(share_open(&share, net, &head, own), 0);
    const struct backend_spec spec = cuda_fixture_spec(share, PRECISION_FP32);
    const struct plan_spec specs[] = { { 10000, true, share_trunk(&head), 0 }, { 10000, true, share_trunk(&head), 1 },
                                       { 40000, true, share_stage(&head, own, 0, 0), 2 } };
    cuda_fixture_open_with(&fixture, "cuda", &spec, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture.ops->plan(fixture.backend, &specs[i], &plans[i]), 0);
    assert_int_equal(CAPTURE(messages, fixture.ops->allocate(fixture.backend)), -ENOMEM);
    assert_non_null(strstr(messages, "a tower of 20000 samples needs"));
    for (int i = 0; i < 3; i++)
        fixture.ops->plan_close(plans[i]);
    cuda_fixture_close(&fixture);
    net_close(share);
    net_close(net);
}

TEST(convolutions_without_memory_to_time_them_are_planned_untimed)
{
    struct net *net = small_net(0);
    struct network fixture;
    struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP32);
    spec.time_plans = true;
    spec.workspace_max = FIXTURE_DEVICE_BYTES;
    cuda_fixture_open_with(&fixture, "cuda", &spec, false);
    assert_int_equal(try_plan(&fixture, SAMPLES), 0);
    assert_non_null(strstr(messages, "are not measured"));
    cuda_fixture_close(&fixture);
    net_close(net);
}

/* ---- refusals ---- */

static int try_open(const char *backend, const struct backend_spec *spec, const char *kind)
{
    struct network fixture;
    network_open_device(&fixture, kind, spec->net);
    fixture.ops = backend_find(backend);
    const int rc = CAPTURE(messages, network_open_backend(&fixture, spec));
    network_close(&fixture);
    return rc;
}

TEST(unsupported_options_are_refused)
{
    struct net *net = small_net(0);
    struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP32);
    assert_int_equal(try_open("cuda", &spec, "reference"), -ENOTSUP);
    assert_non_null(strstr(messages, "kind cpu"));
    spec.layout = LAYOUT_NCHW;
    assert_int_equal(try_open("cuda", &spec, "cuda"), -ENOTSUP);
    assert_non_null(strstr(messages, "nchw"));
    spec = cuda_fixture_spec(net, PRECISION_FP32);
    spec.convolution = CONVOLUTION_WINOGRAD;
    assert_int_equal(try_open("cuda", &spec, "cuda"), -ENOTSUP);
    assert_non_null(strstr(messages, "cuDNN chooses"));
    spec = cuda_fixture_spec(net, PRECISION_BF16);
    assert_int_equal(try_open("reference", &spec, "reference"), -ENOTSUP);
    assert_non_null(strstr(messages, "fp32 only"));
    net_close(net);
}

/* One loss scale for all gradients would need to know those of other towers. */
TEST(fp16_is_refused_for_a_share_of_a_net)
{
    struct net *const net = small_net(0), *share;
    struct unsupported_reason reason;
    struct head head;
    assert_int_equal(head_find(&head, net, 1, &reason), 0);
    assert_int_equal(share_open(&share, net, &head, (struct part_range){ 0, 1 }), 0);
    struct backend_spec spec = cuda_fixture_spec(share, PRECISION_FP16);
    assert_int_equal(try_open("cuda", &spec, "cuda"), -ENOTSUP);
    assert_non_null(strstr(messages, "devices.precision = bf16"));
    spec.precision = PRECISION_BF16;
    assert_int_equal(try_open("cuda", &spec, "cuda"), 0);
    net_close(share);
    net_close(net);
}

TEST(too_large_windows_are_refused)
{
    struct net *const net = network_net_begin("wide", (struct shape){ 1, 16, 16 }, 2);
    net_max_pool(net, "pool", NET_INPUT, window_square(16, 16, PADDING_VALID));
    network_net_end(net, 0);
    struct network fixture;
    cuda_fixture_open(&fixture, "cuda", net, PRECISION_FP32);
    assert_int_equal(try_plan(&fixture, 1), -ENOTSUP);
    assert_non_null(strstr(messages, "pool"));
    cuda_fixture_close(&fixture);
    net_close(net);
}

TEST(sizes_that_overflow_are_refused)
{
    struct net *const net = network_net_begin("huge", (struct shape){ 1, 10000, 10000 }, 2);
    net_max_pool(net, "pool", NET_INPUT, window_square(10, 10, PADDING_VALID));
    net_max_pool(net, "pool2", 0, window_square(10, 10, PADDING_VALID));
    net_max_pool(net, "pool3", 1, window_square(10, 10, PADDING_VALID));
    network_net_end(net, 2);
    struct network fixture;
    const struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP32);
    network_open_device(&fixture, "cuda", net);
    assert_int_equal(network_open_backend(&fixture, &spec), 0);
    struct plan *plan = NULL;
    const struct plan_spec wanted = { .count = 2, .training = true };
    assert_int_equal(fixture.ops->plan(fixture.backend, &wanted, &plan), 0);    /* gigabytes, not allocated yet */
    fixture.ops->plan_close(plan);
    assert_int_equal(try_plan(&fixture, 3), -EOVERFLOW);
    assert_non_null(strstr(messages, "10000x10000"));
    assert_non_null(strstr(messages, "at most 2 samples"));
    network_close(&fixture);
    net_close(net);
}

/* ---- failures ---- */

/* Everything up to the first step, in existing arenas. */
static int set_up(struct network *fixture, const struct backend_spec *spec)
{
    bool *ends = cuda_fixture_ends(spec->net, 6, 0);
    int rc = network_open_backend(fixture, spec);
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        const struct plan_spec wanted = { .count = i == 0 ? SAMPLES : 5, .training = i == 0 };
        rc = fixture->ops->plan(fixture->backend, &wanted, &fixture->plans[i]);
        fixture->plan_count += rc == 0;
    }
    if (rc == 0)
        rc = network_bind(fixture);
    for (uint32_t p = 0; p < spec->net->parameter_count && rc == 0; p++) {
        float *const plain = calloc(spec->net->parameters[p].count, sizeof(*plain));
        assert_non_null(plain);
        rc = fixture->ops->pack(fixture->backend, p, plain, fixture->weights + network_offset(fixture, p));
        if (rc == 0)
            rc = fixture->ops->unpack(fixture->backend, p, fixture->weights + network_offset(fixture, p), plain);
        free(plain);
    }
    if (rc == 0)
        rc = fixture->ops->allocate(fixture->backend);
    if (rc == 0)
        rc = fixture->ops->segment(fixture->backend, ends);
    free(ends);
    return rc;
}

/* Set up with the number-th call of `function` failing; nothing may leak. Writes the number of calls to *calls_out. */
static int set_up_failing(const struct backend_spec *spec, const char *function, uint32_t number, int status,
                          uint32_t *calls_out)
{
    enum { FLOATS = 1 << 16 };
    struct network fixture;
    struct capture capture;
    char text[8192];
    network_open_device(&fixture, "cuda", spec->net);
    const size_t before = free_memory(&fixture);
    fixture.weights = device_memory_make(fixture.compute, NULL, FLOATS * sizeof(float));
    fixture.gradients = device_memory_make(fixture.compute, NULL, FLOATS * sizeof(float));
    sim_calls_clear();
    sim_fail(function, number, status);
    capture_begin(&capture);
    const int rc = set_up(&fixture, spec);
    *calls_out = (uint32_t)sim_calls(function);
    sim_fail_clear();
    for (uint32_t i = 0; i < fixture.plan_count; i++)
        fixture.ops->plan_close(fixture.plans[i]);
    if (fixture.backend != NULL)
        fixture.ops->close(fixture.backend);
    capture_end(&capture, text, sizeof(text));
    if (rc != 0 && text[0] == '\0')
        fail_msg("%s failing the %u. time is not reported", function, number);
    fixture.device->ops->free(fixture.device, fixture.weights);
    fixture.device->ops->free(fixture.device, fixture.gradients);
    arenas_release(&fixture.arenas);
    assert_int_equal(free_memory(&fixture), before);
    device_memory_close(fixture.device, fixture.compute);
    return rc;
}

TEST(every_failing_call_is_a_clean_error)
{
    static const struct { const char *function; int status; } calls[] = {
        { "cudaMalloc", cudaErrorMemoryAllocation }, { "cudaHostAlloc", cudaErrorMemoryAllocation },
        { "cudaEventCreateWithFlags", cudaErrorUnknown }, { "cudaEventRecord", cudaErrorUnknown },
        { "cudaMemGetInfo", cudaErrorUnknown }, { "cudaMemcpyAsync", cudaErrorUnknown },
        { "cudaMemsetAsync", cudaErrorUnknown }, { "cudaStreamBeginCapture", cudaErrorUnknown },
        { "cudaGraphInstantiate", cudaErrorUnknown }, { "cudaGraphUpload", cudaErrorUnknown },
        { "cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED }, { "cudnnSetStream", CUDNN_STATUS_BAD_PARAM },
        { "cudnnGraphVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnOpsVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnCnnVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnBackendCreateDescriptor", CUDNN_STATUS_ALLOC_FAILED },
        { "cudnnBackendSetAttribute", CUDNN_STATUS_INTERNAL_ERROR },
        { "cudnnBackendFinalize", CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED },
        { "cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED },
        { "cudaLaunchKernelEx", cudaErrorLaunchOutOfResources },
        { "cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED }, { "cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED },
        { "cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED },
        { "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INTERNAL_ERROR },
        { "cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED },
    };
    struct net *net = small_net(0.5f);
    struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP16);
    spec.graph = GRAPH_ON;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        uint32_t count, ignored;
        assert_int_equal(set_up_failing(&spec, calls[i].function, UINT32_MAX, 0, &count), 0);
        print_message("%s: %u calls\n", calls[i].function, count);
        assert_true(count > 0);
        /* The first ones and some more: calls in a loop fail alike. */
        for (uint32_t number = 1; number <= count; number += 1 + number / 12)
            if (set_up_failing(&spec, calls[i].function, number, calls[i].status, &ignored) >= 0)
                fail_msg("%s failing the %u. time was not seen", calls[i].function, number);
    }
    net_close(net);
}

TEST(a_cancelled_device_ends_copies)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0), PRECISION_FP32);
    float *plain = cuda_fixture_read(&fixture, fixture.weights, 0);
    device_cancel(fixture.device);
    const float *stored = fixture.weights + network_offset(&fixture, 0);
    assert_int_equal(fixture.ops->unpack(fixture.backend, 0, stored, plain), -ECANCELED);
    cuda_fixture_close(&fixture);
}

int main(void)
{
    sim_setup(2, FIXTURE_DEVICE_BYTES);
    return tests_run(NULL, NULL);
}
