/* Device memory with guards, and numbers of every type, for the tests of kernels. */
#include "tests/cuda/kernel_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim_values.h"

cudaStream_t stream;

const size_t odd_counts[10] = { 0, 1, 7, 8, 9, 255, 2047, 2048, 2049, 5003 };

static int open_stream(void **state)
{
    (void)state;
    return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess ? 0 : -1;
}

static int close_stream(void **state)
{
    (void)state;
    return cudaStreamDestroy(stream) == cudaSuccess ? 0 : -1;
}

int kernel_tests_run(int (*run)(CMFixtureFunction set_up, CMFixtureFunction tear_down))
{
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0)
        return run(open_stream, close_stream);
    fprintf(stderr, "SKIPPED: no CUDA device: %s\n", cudaGetErrorString(status));
    return 77;
}

/* ---- memory ---- */

enum { GUARD = 256, AREAS_MAX = 128, GUARD_BYTE = 0xa5 };

struct area { unsigned char *memory; size_t bytes; };

struct host_block { struct host_block *next; _Alignas(16) unsigned char bytes[]; };

static struct host_block *host_blocks;
static struct area areas[AREAS_MAX];
static size_t area_count;

static void copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_OK(cudaMemcpyAsync(to, from, bytes, kind, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
}

void *area_new(const void *from, size_t bytes)
{
    struct area *area = &areas[area_count];
    unsigned char *host = host_new(bytes + 2 * GUARD);
    assert_true(area_count < AREAS_MAX);
    memset(host, GUARD_BYTE, bytes + 2 * GUARD);
    memset(host + GUARD, POISON_BYTE, bytes);
    if (from != NULL && bytes)
        memcpy(host + GUARD, from, bytes);
    CUDA_OK(cudaMalloc((void **)&area->memory, bytes + 2 * GUARD));
    area->bytes = bytes;
    area_count++;
    copy(area->memory, host, bytes + 2 * GUARD, cudaMemcpyHostToDevice);
    return area->memory + GUARD;
}

static void area_check_guards(const struct area *area)
{
    unsigned char guard[GUARD];
    for (int side = 0; side < 2; side++) {
        copy(guard, area->memory + (side ? GUARD + area->bytes : 0), GUARD, cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < GUARD; i++)
            assert_int_equal(guard[i], GUARD_BYTE);
    }
}

void *host_new(size_t bytes)
{
    struct host_block *const block = calloc(1, sizeof(*block) + bytes);
    assert_non_null(block);
    block->next = host_blocks;
    host_blocks = block;
    return block->bytes;
}

void *device_copy(const void *device, size_t bytes)
{
    void *const copy = host_new(bytes);
    read_back(device, copy, bytes);
    return copy;
}

void areas_close(void)
{
    while (host_blocks != NULL) {
        struct host_block *const block = host_blocks;
        host_blocks = block->next;
        free(block);
    }
    while (area_count > 0) {
        area_check_guards(&areas[--area_count]);
        CUDA_OK(cudaFree(areas[area_count].memory));
    }
}

void read_back(const void *from, void *to, size_t bytes)
{
    CUDA_OK(cudaStreamSynchronize(stream));
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
}

void assert_holds(const void *device, const void *expected, size_t bytes)
{
    assert_memory_equal(device_copy(device, bytes), expected, bytes);
}

/* ---- values of a type ---- */

static cudaDataType_t data_type(enum value_type type)
{
    return type == VALUE_FP32 ? CUDA_R_32F : type == VALUE_FP16 ? CUDA_R_16F : CUDA_R_16BF;
}

float rounded(enum value_type type, float value)
{
    uint32_t stored = 0;
    sim_value_write(data_type(type), &stored, 0, value);
    return sim_value_read(data_type(type), &stored, 0);
}

static void *encode(enum value_type type, const float *values, size_t count)
{
    void *stored = host_new(count * value_bytes(type));
    for (size_t i = 0; i < count; i++)
        sim_value_write(data_type(type), stored, i, values[i]);
    return stored;
}

void *values_new(enum value_type type, const float *values, size_t count)
{
    return area_new(encode(type, values, count), count * value_bytes(type));
}

void *values_poison(enum value_type type, size_t count)
{
    return area_new(NULL, count * value_bytes(type));
}

void values_write(enum value_type type, void *device, const float *values, size_t count)
{
    copy(device, encode(type, values, count), count * value_bytes(type), cudaMemcpyHostToDevice);
}

void assert_values(enum value_type type, const void *device, const float *expected, size_t count)
{
    assert_holds(device, encode(type, expected, count), count * value_bytes(type));
}

float *values_read(enum value_type type, const void *device, size_t count)
{
    const void *const stored = device_copy(device, count * value_bytes(type));
    float *const values = floats_new(count);
    for (size_t i = 0; i < count; i++)
        values[i] = sim_value_read(data_type(type), stored, i);
    return values;
}

float *floats_new(size_t count)
{
    return host_new((count + 1) * sizeof(float));
}

float *draw(enum value_type type, uint32_t what, size_t count)
{
    const struct random_key key = random_key(4711, RANDOM_DRAW, what);
    float *values = floats_new(count);
    for (size_t i = 0; i < count; i++)
        values[i] = rounded(type, random_normal(key, i));
    return values;
}

float *draw_whole(uint32_t what, size_t count, uint32_t limit)
{
    const struct random_key key = random_key(4712, RANDOM_DRAW, what);
    float *values = floats_new(count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(random_u64(key, i) % (2 * limit + 1)) - (float)limit;
    return values;
}

void assert_within(double found, double expected, double relative, double absolute)
{
    if (!(fabs(found - expected) <= relative * fabs(expected) + absolute))
        fail_msg("%.9g instead of %.9g", found, expected);
}
