/* Fixture for tests of convolutions on the simulated cuDNN: a device with a handle and memory, shapes, values, and a
 * plain loop as reference. Include it after cmocka's headers. */
#ifndef PIPETRAIN_CUDNN_CONV_FIXTURE_H
#define PIPETRAIN_CUDNN_CONV_FIXTURE_H

#include <cuda_runtime_api.h>
#include <library_types.h>

#include "compute/cuda/cudnn_conv.h"
#include "tests/helpers/file_fixture.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn.h"

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)
#define MEMORY ((size_t)1 << 18)
#define WORKSPACE_MAX ((size_t)1 << 20)
#define DESCRIPTION 128

/* STATISTICS (the second half above 0), GAMMA, BETA and SUMS are floats, the others of the type of the shape. */
enum { IN, WEIGHT, BIAS, OUT, ADDEND, RELU_OUT, SCALE, SHIFT, VALUES, STATISTICS, GAMMA, BETA, SUMS, TENSORS };

struct bench {
    cudnnHandle_t handle;
    cudaStream_t stream;
    unsigned char *memory[TENSORS], *workspace, *scratch;
    struct conv_planner planner;
};

/* Setup and teardown, also of the folder of tests/helpers/file_fixture.h; no object of cuDNN may be left. */
int conv_bench_open(void **state);
int conv_bench_close(void **state);

struct conv_shape random_shape(enum product_pass pass, enum precision precision);
/* A forward convolution with bias and ReLU. */
struct conv_shape fused_shape(enum precision precision);
/* A data gradient with an addition, a mask or both; a forward pass or weight gradient with a scale and a ReLU before
 * it. */
struct conv_shape after_shape(enum precision precision, enum conv_after after);
struct conv_shape before_shape(enum product_pass pass, enum precision precision);
/* A forward pass with statistics of its result. */
struct conv_shape statistics_shape(enum precision precision);
cudaDataType_t value_type(const struct conv_shape *shape);
size_t conv_count_of(const struct conv_shape *shape, int tensor);
size_t bytes_of(const struct conv_shape *shape, int tensor);
int result_of(const struct conv_shape *shape);

/* Multiples of 1/8 from 1 to 2, of either sign. `fine` adds bits that tf32 rounds away. */
void conv_fill(struct bench *bench, const struct conv_shape *shape, bool fine);
double conv_value(const struct bench *bench, const struct conv_shape *shape, int tensor, size_t i, bool tf32);
/* The expected result, by a plain loop, for free(). `apart`: rounded before the bias or the addend is
 * added. */
float *conv_expected(const struct bench *bench, const struct conv_shape *shape, bool tf32, bool apart);
/* Number of wrong elements. */
size_t conv_wrong(const struct bench *bench, const struct conv_shape *shape, const float *results);

int conv_run(const struct bench *bench, struct conv_plan *plan, const struct conv_shape *shape);
/* Open, run, close; the plan's description. */
int open_and_run(const struct bench *bench, const struct conv_planner *planner, const struct conv_shape *shape,
                 char *description);
/* The same, and checks the result. */
void assert_computes(struct bench *bench, const struct conv_planner *planner, const struct conv_shape *shape,
                     bool apart, char *description);
/* A planner that times candidates. */
struct conv_planner timing_planner(const struct bench *bench);

#define BENCH_TEST(name) TEST_WITH(name, conv_bench_open, conv_bench_close)

#endif
