/* Fixture of the CUDA backend's tests: a backend (CUDA or the reference) with arenas, random weights and an input, and
 * its passes and updates. All but cuda_fixture_open_backend assert that they succeed. Include it after cmocka's
 * headers. */
#ifndef PIPETRAIN_BACKEND_CUDA_FIXTURE_H
#define PIPETRAIN_BACKEND_CUDA_FIXTURE_H

#include "compute/backend.h"
#include "tests/sim/sim.h"

enum { SAMPLES = 8, FIXTURE_PLANS_MAX = 4, FIXTURE_READS_MAX = 256 };

/* Memory of each simulated device. */
#define FIXTURE_DEVICE_BYTES ((size_t)64 << 20)

struct fixture {
    const struct backend_ops *ops;
    struct device *device;
    struct stream *compute;
    const struct net *net;
    struct backend *backend;
    struct arenas arenas;
    float *weights, *gradients, *statistics;
    struct plan *plans[FIXTURE_PLANS_MAX];
    uint32_t plan_count;
    uint8_t *pixels;            /* SAMPLES, in device memory, as are the labels */
    int32_t *labels;
    struct backend_input input; /* the same on the host */
    bool is_coarse;             /* weights and pixels */
    struct backend_result *result;      /* pinned */
    uint32_t done[NET_LAYERS_MAX], done_count;  /* layers reported by the last backward */
    struct net *own_net;
    float *reads[FIXTURE_READS_MAX];    /* results of cuda_fixture_read */
    uint32_t read_count;
};

/* A convolution with and one without a ReLU, pools, in-place layers, dense layers. */
struct net *small_net(float dropout);
/* Residual blocks with batch normalisation, one with a shortcut that halves the image. */
struct net *residual_net(void);
/* Convolutions with batch normalisation: before a ReLU, alone, before a sum and a ReLU, before a sum. */
struct net *folded_net(void);
/* A densely connected block of four layers. */
struct net *dense_block_net(void);
/* For slices of up to SAMPLES, without graphs. */
struct backend_spec cuda_fixture_spec(const struct net *net, enum precision precision);

/* `is_coarse`: weights and pixels with which the forward pass is exact in every precision. */
void cuda_fixture_open_with(struct fixture *fixture, const char *backend, const struct backend_spec *spec,
                            bool is_coarse);
void cuda_fixture_open(struct fixture *fixture, const char *backend, const struct net *net, enum precision precision);
/* The CUDA backend on a net that cuda_fixture_close closes. */
void cuda_fixture_open_own(struct fixture *fixture, struct net *net, enum precision precision);
void cuda_fixture_close(struct fixture *fixture);
/* Only the backend and the layout of the arenas, for a fixture with ops, device, compute and net; then the memory of
 * the arenas. 0 or a negative errno. */
int cuda_fixture_open_backend(struct fixture *fixture, const struct backend_spec *spec);
int cuda_fixture_bind(struct fixture *fixture);

/* Offset of a parameter in its arena, and the arena: weights or statistics. */
size_t cuda_fixture_offset(const struct fixture *fixture, uint32_t parameter);
float *cuda_fixture_arena(const struct fixture *fixture, uint32_t parameter);
/* A parameter of an arena in the plain layout; the fixture frees what is read. */
float *cuda_fixture_read(struct fixture *fixture, const float *arena, uint32_t parameter);
void cuda_fixture_write(struct fixture *fixture, float *arena, uint32_t parameter, const float *plain);

/* The plan of this kind; the first call makes it and allocates. */
struct plan *cuda_fixture_plan(struct fixture *fixture, uint32_t count, bool training);
struct backend_needs cuda_fixture_needs(const struct fixture *fixture);
/* Queue forward, and backward in training; and the same with a wait for the result, for the first `count` samples. */
void cuda_fixture_queue(struct fixture *fixture, struct plan *plan);
struct backend_result cuda_fixture_run(struct fixture *fixture, uint32_t count, bool training);
/* Update the whole arena, with a learning rate of 0.05 or the given one. */
void cuda_fixture_update(struct fixture *fixture, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX]);
void cuda_fixture_update_by(struct fixture *fixture, enum optimizer_kind kind,
                            float *const states[OPTIMIZER_STATES_MAX], float learning_rate);

/* For segment(): two layers. The caller frees it. */
bool *cuda_fixture_ends(const struct net *net, uint32_t first, uint32_t second);

#endif
