/* Fixture for tests of the simulated cuDNN: graphs of one convolution, a device with memory for its tensors, and a
 * plain loop as reference. Include it after cmocka's headers. */
#ifndef PIPETRAIN_SIM_CUDNN_FIXTURE_H
#define PIPETRAIN_SIM_CUDNN_FIXTURE_H

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn.h"

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)
#define assert_cudnn(call) assert_int_equal((call), CUDNN_STATUS_SUCCESS)

typedef cudnnBackendDescriptor_t part;

enum { X = 1, W, Y, BIAS, PRODUCT, SUM };
enum pass { FORWARD, DATA, WEIGHT, PASSES };

struct shape { int n, c, h, w, k, r, s, stride_h, stride_w, top, bottom, left, right; };

#define SHAPES 4
#define TYPES 3
extern const struct shape shapes[SHAPES];
extern const cudnnDataType_t types[TYPES];

struct tensor {
    int64_t id;
    cudnnDataType_t type;
    int64_t dims[4];
    bool is_virtual, planar;            /* planar: channels outermost in memory */
};

/* A graph to be built. Tests change its fields before. */
struct wish {
    struct shape shape;
    enum pass pass;
    cudnnDataType_t type;
    bool bias, relu;
    float alpha, beta;          /* alpha 0: not set */
    struct tensor tensors[SUM + 1];     /* by id */
};

/* Descriptors to be freed together. */
struct parts { part all[24]; int count; };

struct bench {
    cudnnHandle_t handle;
    cudaStream_t stream;
    unsigned char *memory[BIAS + 1], *workspace;
};

part part_new(cudnnBackendDescriptorType_t type);
void part_free(part old);
void set(part to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
         const void *values);
void set_part(part to, cudnnBackendAttributeName_t name, part value);
/* Functions named `start` do not finalise. */
part tensor_start(const struct tensor *tensor);
part tensor_new(const struct tensor *tensor);
part window_new(const struct shape *shape);

/* A valid graph. Weight gradients get the same padding on both sides. */
struct wish wish_for(const struct shape *shape, enum pass pass, cudnnDataType_t type);
part keep(struct parts *parts, part made);
void parts_free(struct parts *parts);
part add_tensor(struct parts *parts, const struct wish *wish, int id);
part convolution_start(struct parts *parts, const struct wish *wish, part y);
/* The graph is the last one of `parts`. */
part graph_start(struct parts *parts, const struct wish *wish);
part graph_new(struct parts *parts, const struct wish *wish);
part config_new(struct parts *parts, part graph, int64_t index);
/* config NULL: not set. */
part plan_start(struct parts *parts, const struct bench *bench, part config);
part plan_new(struct parts *parts, const struct bench *bench, const struct wish *wish, int64_t engine);
part pack_new(struct parts *parts, const struct bench *bench);
/* Destroys all descriptors before the device runs the plan. */
void sim_run(const struct bench *bench, const struct wish *wish, int64_t engine);
size_t sim_count_of(const struct tensor *tensor);

/* Multiples of 1/8 from 1 to 2, of either sign. `fine`: and a little more, which tf32 rounds
 * away. */
void sim_fill(struct bench *bench, const struct wish *wish, bool fine);
double sim_value(const struct bench *bench, const struct wish *wish, int id, size_t i, bool tf32);
/* The sums of all products, by the plain loop; to be freed. */
double *sim_expected(const struct bench *bench, const struct wish *wish, int result, bool tf32);
/* How many elements of the result are not the sums, rounded once. */
size_t sim_wrong(const struct bench *bench, const struct wish *wish, int result, const double *sums);
/* The same for the pass run by an engine. */
size_t errors_of(struct bench *bench, const struct wish *wish, int64_t engine, bool fine, bool tf32);

int64_t workspace_of(part plan);
int64_t index_of(part engine);

/* Setup and teardown; nothing of cuDNN may be left. */
int sim_bench_open(void **state);
int sim_bench_close(void **state);
#define BENCH_TEST(name) TEST_WITH(name, sim_bench_open, sim_bench_close)

#endif
