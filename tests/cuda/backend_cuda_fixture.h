/* Fixture of the CUDA backend's tests: networks (tests/helpers/network/network.h) on CUDA or the reference, with random
 * weights and SAMPLES samples in the device's memory, and updates. All functions assert that they succeed. Include it
 * after cmocka's headers. */
#ifndef PIPETRAIN_BACKEND_CUDA_FIXTURE_H
#define PIPETRAIN_BACKEND_CUDA_FIXTURE_H

#include "tests/helpers/network/network.h"
#include "tests/sim/sim.h"

enum { SAMPLES = 8 };

/* Memory of each simulated device. */
#define FIXTURE_DEVICE_BYTES ((size_t)64 << 20)

/* A convolution with and one without a ReLU, pools, in-place layers, dense layers. */
struct net *small_net(float dropout);
/* Residual blocks with batch normalisation, one with a shortcut that halves the image. */
struct net *residual_net(void);
/* Convolutions with batch normalisation: before a ReLU, alone, before a sum and a ReLU, before a sum. */
struct net *folded_net(void);
/* A densely connected block of four layers. */
struct net *dense_block_net(void);
/* For batches of up to SAMPLES, without graphs. */
struct backend_spec cuda_fixture_spec(const struct net *net, enum precision precision);

/* `is_coarse`: weights and pixels with which the forward pass is exact in every precision. */
void cuda_fixture_open_with(struct network *network, const char *backend, const struct backend_spec *spec,
                            bool is_coarse);
void cuda_fixture_open(struct network *network, const char *backend, const struct net *net, enum precision precision);
/* The CUDA backend on a net that cuda_fixture_close closes. */
void cuda_fixture_open_own(struct network *network, struct net *net, enum precision precision);
/* Also frees all results of cuda_fixture_read. */
void cuda_fixture_close(struct network *network);

/* A parameter of an arena in the plain layout. */
float *cuda_fixture_read(struct network *network, const float *arena, uint32_t parameter);
struct backend_needs cuda_fixture_needs(const struct network *network);
/* Queues a pass over the first `count` samples and waits for its result. */
struct backend_result cuda_fixture_run(struct network *network, uint32_t count, bool training);
/* Updates the whole arena, with a learning rate of 0.05 or the given one. SGD needs no states: NULL. */
void cuda_fixture_update(struct network *network, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX]);
void cuda_fixture_update_by(struct network *network, enum optimizer_kind kind,
                            float *const states[OPTIMIZER_STATES_MAX], float learning_rate);

/* For segment(): two layers. The caller frees it. */
bool *cuda_fixture_ends(const struct net *net, uint32_t first, uint32_t second);

#endif
