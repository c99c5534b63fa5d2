/* What the tests of the CUDA backend share: a backend, that one or the reference, with arenas,
 * drawn weights and an input, and its passes and updates. Everything but rig_open_backend
 * asserts that it succeeds. After cmocka's headers. */
#ifndef PIPETRAIN_BACKEND_CUDA_RIG_H
#define PIPETRAIN_BACKEND_CUDA_RIG_H

#include "compute/backend.h"
#include "tests/sim/sim.h"

enum { SAMPLES = 8, RIG_PLANS_MAX = 4 };

/* Of each simulated device. */
#define RIG_DEVICE_BYTES ((size_t)64 << 20)

struct rig {
    const struct backend_ops *ops;
    struct device *device;
    struct stream *compute;
    const struct net *net;
    struct backend *backend;
    struct arenas arenas;
    float *weights, *gradients, *statistics;
    struct plan *plans[RIG_PLANS_MAX];
    uint32_t plan_count;
    uint8_t *pixels;            /* SAMPLES of both, in device memory */
    int32_t *labels;
    struct backend_input input; /* the same on the host */
    bool is_coarse;             /* weights and pixels */
    struct backend_result *result;      /* pinned */
    uint32_t done[NET_LAYERS_MAX], done_count;  /* layers the last backward told of */
};

/* A convolution with and one without a ReLU, pools, in-place layers, dense layers. */
struct net *rig_net(float dropout);
/* Residual blocks with batch normalisation, one with a shortcut that halves the image. */
struct net *rig_graph(void);
/* Convolutions with batch normalisation: before a ReLU, alone, before a sum and a ReLU, before a sum. */
struct net *rig_folded(void);
/* A densely connected block of four layers. */
struct net *rig_dense(void);
/* Slices of up to SAMPLES, steps not recorded. */
struct backend_spec rig_spec(const struct net *net, enum precision precision);

/* `coarse`: weights and pixels with which every precision computes forward without rounding. */
void rig_open_with(struct rig *rig, const char *backend, const struct backend_spec *spec, bool is_coarse);
void cuda_rig_open(struct rig *rig, const char *backend, const struct net *net, enum precision precision);
void cuda_rig_close(struct rig *rig);
/* Backend and the layout of the arenas alone, for a rig with ops, device, compute and net; and the
 * arenas' memory to the backend. 0 or a negative errno. */
int rig_open_backend(struct rig *rig, const struct backend_spec *spec);
int rig_bind(struct rig *rig);

/* Where a parameter lies in an arena, and the arena it lies in: weights or statistics. */
size_t rig_offset(const struct rig *rig, uint32_t parameter);
float *rig_arena(const struct rig *rig, uint32_t parameter);
/* A parameter of an arena, in the plain layout: read, to be freed; and written. */
float *rig_read(struct rig *rig, const float *arena, uint32_t parameter);
void rig_write(struct rig *rig, float *arena, uint32_t parameter, const float *plain);

/* The one plan of this kind; made, and given memory, when it is asked for first. */
struct plan *rig_plan(struct rig *rig, uint32_t count, bool training);
/* What all plans made so far need. */
struct backend_needs rig_needs(const struct rig *rig);
/* The first `count` samples: forward, with training also backward. Queued; and waited for. */
void rig_queue(struct rig *rig, struct plan *plan);
struct backend_result cuda_rig_run(struct rig *rig, uint32_t count, bool training);
/* Update the whole arena by the gradients, at a rate of 0.05 or the given one. */
void rig_update(struct rig *rig, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX]);
void rig_update_by(struct rig *rig, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX],
                   float learning_rate);

/* For segment(): two layers, to be freed. */
bool *rig_ends(const struct net *net, uint32_t first, uint32_t second);

#endif
