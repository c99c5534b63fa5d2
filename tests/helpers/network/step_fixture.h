/* Steps of one backend over random samples, for tests that look at how it stores parameters and at what its plans
 * give. All assert. */
#ifndef PIPETRAIN_TESTS_STEP_FIXTURE_H
#define PIPETRAIN_TESTS_STEP_FIXTURE_H

#include "compute/backend.h"

#define SAMPLES_MAX 16

/* A backend with bound arenas and weights of the seed. */
struct step_fixture {
    struct device *device;
    struct stream *compute;
    const struct backend_ops *ops;
    struct backend *backend;
    const struct net *net;
    struct arenas arenas;
    size_t *stored_counts;
    float *weights, *gradients;
};

struct rig_options { uint32_t threads, slice_max; enum layout layout; };

/* Random pixels and labels, some samples without a label. */
struct samples {
    uint8_t *pixels;
    int32_t labels[SAMPLES_MAX];
};

/* What a step gives, gradients as plain parameters one behind the other. */
struct outcome {
    struct backend_result result;
    float *gradients;
    size_t count;
};

/* Glorot weights of a parameter, and biases that are not zero, as they are counted. */
void plain_draw(const struct net *net, uint32_t parameter, float *plain);
/* Room for a parameter; free it. */
float *plain_alloc(const struct net *net, uint32_t parameter);
/* A backend with weights drawn so. */
void step_fixture_open(struct step_fixture *rig, const struct backend_ops *ops, const struct net *net,
                       struct rig_options options);
void step_fixture_close(struct step_fixture *rig);
/* Free the pixels. */
void samples_draw(struct samples *samples, const struct net *net, uint64_t seed);
/* Forward and backward over samples from `first` on; layers are done from the last to the first. */
void step_fixture_run_plan(const struct step_fixture *rig, struct plan *plan, const struct samples *samples,
                           uint32_t first);
/* One step over samples [first, first + count). */
struct outcome step_fixture_run(const struct step_fixture *rig, const struct samples *samples, uint32_t first,
                                uint32_t count);
/* A step of `count` samples by a rig of its own; of an even number with all ReLU masks noted. */
struct outcome step_fixture_once(const struct backend_ops *ops, const struct net *net, struct rig_options options,
                                 const struct samples *samples, uint32_t count);
/* The gradients of what ran last; free them. */
void outcome_read(const struct step_fixture *rig, struct outcome *outcome);
/* Within `tolerance` of the largest gradient. */
void outcome_assert_close(const struct outcome *actual, const struct outcome *expected, double tolerance);
/* Nets are finished; close them. */
struct net *net_of_model(const char *name, bool dropout);
/* A chain of random layers. */
struct net *net_of_seed(uint64_t seed);

#endif
