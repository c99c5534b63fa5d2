/* A tower with its device and a slot, for tests: on the host, or on the first CUDA device, depending on the backend.
 * All functions assert that they succeed. */
#ifndef PIPETRAIN_TOWER_FIXTURE_H
#define PIPETRAIN_TOWER_FIXTURE_H

#include "compute/snapshot.h"
#include "compute/tower.h"
#include "tests/helpers/network/network.h"

enum { FIXTURE_BATCH = 6, FIXTURE_READY_MAX = 32 };

struct tower_fixture {
    struct device *device;
    struct stream *compute;
    struct slot slot;
    struct tower *tower;
    struct backend_result *result;      /* pinned */
    size_t ready[FIXTURE_READY_MAX];      /* prefixes that the last backward reported */
    uint32_t ready_count;
    float *prefix;              /* the gradients at the moment when each became ready */
};

/* A small net with every kind of layer. */
struct net *tower_fixture_net(float dropout);
/* A convolution with batch normalisation. */
struct net *tower_fixture_norm_net(uint32_t filters, float dropout);
/* Batches of FIXTURE_BATCH, plain SGD. */
struct tower_spec tower_fixture_spec(struct tower_fixture *fixture, const char *backend, const struct net *net);
void tower_fixture_open_device(struct tower_fixture *fixture, const char *backend);
void tower_fixture_open_tower(struct tower_fixture *fixture, const struct tower_spec *spec);
void tower_fixture_open(struct tower_fixture *fixture, const char *backend, const struct net *net);
void tower_fixture_close(struct tower_fixture *fixture);

/* Fill the slot with samples [first, first + count) of the input. */
void tower_fixture_fill(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input,
                        uint32_t first, uint32_t count);
/* The compute stream waits for the slot, then forward. */
void tower_fixture_forward(struct tower_fixture *fixture, bool training);
/* Forward, backward; forward without training; the result of what was queued last. */
struct backend_result tower_fixture_train(struct tower_fixture *fixture);
struct backend_result tower_fixture_evaluate(struct tower_fixture *fixture);
struct backend_result tower_fixture_result(struct tower_fixture *fixture);
/* Callback of tower_backward: record the prefix. */
void tower_fixture_note_ready(void *fixture, size_t floats);
/* The first update of a run, of the whole arena, with a rate of 0.5. */
extern const struct optimizer_step tower_fixture_step;
void tower_fixture_update(struct tower_fixture *fixture);
/* The same after the check that some updates need. */
void tower_fixture_check_and_update(struct tower_fixture *fixture);

size_t tower_fixture_floats(const struct tower_fixture *fixture);
/* Read the gradient arena, which the caller frees; write it. */
float *tower_fixture_gradients(struct tower_fixture *fixture);
void tower_fixture_set_gradients(struct tower_fixture *fixture, const float *gradients);
void tower_fixture_assert_gradients_zero(struct tower_fixture *fixture);
void tower_fixture_assert_gradients_equal(struct tower_fixture *a, struct tower_fixture *b);
/* Read all weights and statistics, parameter by parameter, which the caller frees; write them. */
float *tower_fixture_weights(struct tower_fixture *fixture, const struct net *net);
void tower_fixture_set_weights(struct tower_fixture *fixture, const struct net *net, const float *weights);
/* A complete snapshot of the present state. */
struct snapshot *tower_fixture_snapshot(const struct tower_fixture *fixture, enum snapshot_kind kind);
void tower_fixture_assert_weights_near(struct tower_fixture *a, struct tower_fixture *b, const struct net *net,
                                       double tolerance);

#endif
