/* Fixture for tests of the simulated cuDNN: graphs of one convolution, a device with memory for its tensors, and a
 * plain loop as reference. Include it after cmocka's headers. */
#ifndef PIPETRAIN_SIM_CUDNN_FIXTURE_H
#define PIPETRAIN_SIM_CUDNN_FIXTURE_H

#include "tests/cuda/cudnn_conv_fixture.h"

#define assert_cudnn(call) assert_int_equal((call), CUDNN_STATUS_SUCCESS)

typedef cudnnBackendDescriptor_t part;

/* Tensors, by id; BIAS is another one. The first four are in the device's memory. */
enum { X = IN, W = WEIGHT, Y = OUT, PRODUCT = TENSORS, SUM };

#define SHAPES 4
#define TYPES 3
extern const struct conv_shape shapes[SHAPES];
extern const enum precision precisions[TYPES];  /* one for each type of values */

struct tensor {
    int64_t id;
    cudnnDataType_t type;
    int64_t dims[4];
    bool is_virtual, planar;            /* planar: channels outermost in memory */
};

/* A graph to be built. Tests change its fields before. */
struct wish {
    struct conv_shape shape;
    float alpha, beta;          /* alpha 0: not set */
    struct tensor tensors[SUM + 1];     /* by id */
};

/* Descriptors to be freed together. */
struct parts { part all[24]; int count; };

part part_new(cudnnBackendDescriptorType_t type);
void part_free(part old);
void set(part to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
         const void *values);
void set_part(part to, cudnnBackendAttributeName_t name, part value);
/* Like tensor_new, but the descriptor is not finalised, so that a test can set more attributes. */
part tensor_start(const struct tensor *tensor);
part tensor_new(const struct tensor *tensor);
part window_new(const struct conv_shape *shape);

/* A valid graph. Weight gradients get the same padding on both sides. */
struct wish wish_for(const struct conv_shape *shape, int pass, enum precision precision);
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
/* Number of elements of the engine's result that are not the sums of the plain loop, rounded once. `fine`, tf32: as in
 * conv_fill and conv_expected. */
size_t errors_of(struct bench *bench, const struct wish *wish, int64_t engine, bool fine, bool tf32);

int64_t workspace_of(part plan);
int64_t index_of(part engine);

#endif
