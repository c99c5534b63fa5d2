/* Tests of kernels on the simulated CUDA: every thread runs, barriers and shuffles work as on a device, and results
 * that depend on an order differ from launch to launch. */
#include <math.h>
#include <stdbool.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_fixture.h"

TEST(every_thread_of_every_block_runs_once)
{
    enum { COUNT = 2 * 3 * 2 * 4 * 3 * 2 };
    cudaStream_t stream = stream_new();
    float *const in = device_new(COUNT * sizeof(float)), *const out = device_new(COUNT * sizeof(float));
    float *const host = pinned_new(COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(1000 * i);
    assert_cuda(cudaMemcpyAsync(in, host, COUNT * sizeof(float), cudaMemcpyHostToDevice, stream));
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(cudaMemsetAsync(out, 0xFF, COUNT * sizeof(float), stream));
        assert_cuda(test_scale(stream, (dim3){ 2, 3, 2 }, (dim3){ 4, 3, 2 }, 2, in, out));
        assert_cuda(cudaMemcpyAsync(host, out, COUNT * sizeof(float), cudaMemcpyDeviceToHost, stream));
        assert_cuda(cudaStreamSynchronize(stream));
        for (int i = 0; i < COUNT; i++)
            assert_true(host[i] == (float)(2001 * i));
    }
    assert_int_equal(test_scale(stream, (dim3){ 0, 1, 1 }, (dim3){ 1, 1, 1 }, 2, in, out),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(test_scale(stream, (dim3){ 1, 1, 1 }, (dim3){ 1024, 2, 1 }, 2, in, out),
                     cudaErrorInvalidConfiguration);
    assert_cuda(cudaFree(in));
    assert_cuda(cudaFree(out));
    assert_cuda(cudaFreeHost(host));
    assert_cuda(cudaStreamDestroy(stream));
}

static void sum_once(uint32_t threads, uint32_t count)
{
    cudaStream_t stream = stream_new();
    float *const in = device_new(count * sizeof(float)), *const partials = device_new(count * sizeof(float));
    float *const total = device_new(sizeof(float)), *const host = pinned_new((count + 1) * sizeof(float));
    unsigned int *const counter = device_new(sizeof(*counter));
    for (uint32_t i = 0; i < count; i++)
        host[i] = (float)i;
    assert_cuda(cudaMemcpyAsync(in, host, count * sizeof(float), cudaMemcpyHostToDevice, stream));
    assert_cuda(cudaMemsetAsync(counter, 0, sizeof(*counter), stream));
    for (int launch = 0; launch < 3; launch++) {
        assert_cuda(test_sum(stream, threads, count, in, partials, counter, total));
        assert_cuda(cudaMemcpyAsync(host + count, total, sizeof(float), cudaMemcpyDeviceToHost, stream));
        assert_cuda(cudaStreamSynchronize(stream));
        assert_true(host[count] == (float)(count * (count - 1) / 2));
    }
    assert_cuda(cudaFree(in));
    assert_cuda(cudaFree(partials));
    assert_cuda(cudaFree(total));
    assert_cuda(cudaFree(counter));
    assert_cuda(cudaFreeHost(host));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(threads_of_a_block_meet_at_barriers_and_shuffles)
{
    sum_once(32, 1);
    sum_once(32, 77);
    sum_once(256, 5000);
    sum_once(1024, 2049);
}

TEST(lanes_give_each_other_their_values)
{
    cudaStream_t stream = stream_new();
    uint32_t *const all = device_new(3 * 32 * sizeof(*all));
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(test_shuffles(stream, all, all + 32, all + 64));
        for (uint32_t lane = 0; lane < 32; lane++) {
            assert_int_equal(peek(all, lane), lane + 3 < 32 ? lane + 3 : lane);
            assert_int_equal(peek(all, 32 + lane), 100 + (lane ^ 5));
            assert_int_equal(peek(all, 64 + lane), 207);
        }
    }
    assert_cuda(cudaFree(all));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(narrow_types_round_as_on_the_device)
{
    static const float in[] = { 0, -1, 1.0f / 3, 65504, 65520, 1e-8f, 3.1415927f };
    static const float fp16[] = { 0, -1, 0.33325195f, 65504, INFINITY, 0, 3.140625f };
    static const float bf16[] = { 0, -1, 0.33398438f, 65536, 65536, 1.0011718e-8f, 3.140625f };
    enum { COUNT = sizeof(in) / sizeof(*in) };
    cudaStream_t stream = stream_new();
    float *const memory = device_new(3 * sizeof(in));
    const float *const out = memory + COUNT;
    memcpy(memory, in, sizeof(in));
    assert_cuda(test_round(stream, COUNT, memory, memory + COUNT, memory + 2 * COUNT));
    assert_cuda(cudaStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++) {
        assert_true(out[i] == fp16[i]);
        assert_true(fabsf(out[COUNT + i] - bf16[i]) <= 1e-6f * fabsf(bf16[i]));
    }
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(dependence_on_the_order_of_blocks_and_threads_shows)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(64 * sizeof(*memory));
    uint32_t found[2];
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
        assert_cuda(test_order(stream, 4, memory));
        found[launch] = peek(memory, 0);
    }
    assert_int_not_equal(found[0], found[1]);
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(test_neighbour(stream, 64, true, memory));
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(peek(memory, i), 1000 + (i + 1) % 64);
    }
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(test_neighbour(stream, 64, false, memory));
        found[launch] = peek(memory, 5);
    }
    assert_int_not_equal(found[0], found[1]);
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(two_streams_run_kernels_with_barriers_at_once)
{
    enum { COUNT = 600, LAUNCHES = 20 };
    cudaStream_t streams[2] = { stream_new(), stream_new() };
    float *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = device_new((2 * COUNT + 2) * sizeof(float));
        assert_cuda(cudaMemsetAsync(memory[i], 0, (2 * COUNT + 2) * sizeof(float), streams[i]));
        assert_cuda(test_fill(streams[i], (uint32_t *)memory[i], COUNT, 0x3F800000));
    }
    for (int launch = 0; launch < LAUNCHES; launch++)
        for (int i = 0; i < 2; i++)
            assert_cuda(test_sum(streams[i], 64, COUNT, memory[i], memory[i] + COUNT,
                                 (unsigned int *)memory[i] + 2 * COUNT, memory[i] + 2 * COUNT + 1));
    for (int i = 0; i < 2; i++) {
        assert_cuda(cudaStreamSynchronize(streams[i]));
        assert_true(memory[i][2 * COUNT + 1] == COUNT);
        assert_cuda(cudaFree(memory[i]));
        assert_cuda(cudaStreamDestroy(streams[i]));
    }
}

TEST(numbers_of_32_bits_and_of_more_are_divided_alike)
{
    static const size_t numbers[] = { 0, 1, 7, 4294967294u, 4294967295u, 4294967296u, 4294967301u, (size_t)1 << 40 };
    static const uint32_t by[] = { 1, 2, 3, 7, 4294967295u };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (size_t k = 0; k < sizeof(by) / sizeof(by[0]); k++) {
            uint32_t rest;
            assert_int_equal(test_divided(numbers[i], by[k], &rest), numbers[i] / by[k]);
            assert_int_equal(rest, numbers[i] % by[k]);
        }
}

int main(void)
{
    sim_setup(2, 64 << 20);
    return tests_run(NULL, NULL);
}
