/* A tower with the device and the one slot it needs, for tests: on the host's device or on
 * the first CUDA device, as its backend wants. Everything asserts that it succeeds. */
#ifndef PIPETRAIN_TOWER_STAND_H
#define PIPETRAIN_TOWER_STAND_H

#include "compute/tower.h"
#include "tests/helpers/network/network.h"

enum { STAND_BATCH = 6, STAND_READY_MAX = 32 };

struct stand {
    struct device *device;
    struct stream *compute;
    struct slot slot;
    struct tower *tower;
    struct backend_result *result;      /* pinned */
    size_t ready[STAND_READY_MAX];      /* prefixes the last backward named */
    uint32_t ready_count;
    float *prefix;              /* the gradients as they were when each became ready */
};

/* A small net with every kind of layer. */
struct net *stand_net(float dropout);
/* Batches of STAND_BATCH, plain SGD. */
struct tower_spec stand_spec(struct stand *stand, const char *backend, const struct net *net);
void stand_open_device(struct stand *stand, const char *backend);
void stand_open_tower(struct stand *stand, const struct tower_spec *spec);
void stand_open(struct stand *stand, const char *backend, const struct net *net);
void stand_close(struct stand *stand);

/* The slot holds samples [first, first + count) of the input. */
void stand_fill(struct stand *stand, const struct net *net, const struct backend_input *input, uint32_t first,
                uint32_t count);
/* The compute stream waits for the slot, then forward. */
void stand_forward(struct stand *stand, bool training);
/* Forward, backward; forward without training; the result of what was queued last. */
struct backend_result stand_train(struct stand *stand);
struct backend_result stand_evaluate(struct stand *stand);
struct backend_result stand_result(struct stand *stand);
/* For tower_backward: remembers the prefix. */
void stand_note_ready(void *stand, size_t floats);
/* One update of the whole arena: the run's first, at rate 0.5. */
extern const struct optimizer_step stand_step;
void stand_update(struct stand *stand);

size_t stand_floats(const struct stand *stand);
/* The gradient arena, to be freed; and back. */
float *stand_gradients(struct stand *stand);
void stand_set_gradients(struct stand *stand, const float *gradients);
void stand_assert_gradients_zero(struct stand *stand);
void stand_assert_gradients_equal(struct stand *a, struct stand *b);
/* All weights, parameter after parameter, to be freed. */
float *stand_weights(struct stand *stand, const struct net *net);
void stand_assert_weights_near(struct stand *a, struct stand *b, const struct net *net, double tolerance);

#endif
