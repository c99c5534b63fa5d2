/* A network on a backend, without a tower, for tests: arenas, random weights from a seed, and the results of a training
 * step in the plain layout. */
#ifndef PIPETRAIN_NETWORK_H
#define PIPETRAIN_NETWORK_H

#include "compute/backend.h"

enum { NETWORK_PLANS_MAX = 4 };

struct network {
    const struct backend_ops *ops;
    const struct net *net;
    struct device *device;
    struct stream *compute;
    struct backend *backend;
    struct arenas arenas;
    float *weights, *gradients, *statistics;
    struct plan *plans[NETWORK_PLANS_MAX];
    uint32_t plan_count;
    uint8_t *pixels;                    /* device memory: the input of the last run */
    int32_t *labels;
    struct backend_result *result;      /* pinned */
    uint32_t done[NET_LAYERS_MAX];      /* layers reported by the last backward, in order */
    uint32_t done_count;
    struct net *own_net;                /* closed with the network, or NULL */
};

/* A random chain of layers, with windows, strides, paddings and widths of any size. dropout: the rate of its dropout
 * layers. The caller closes it. */
struct net *network_random_net(uint32_t seed, float dropout);

/* The groups for a convolution of the next layer: those of a depthwise one, two, or one, in turn. They fit on every
 * backend. */
uint32_t network_groups(const struct net *net, uint32_t channels, uint32_t filters);

/* A random graph: branches of different length that are added, values that are read up to three times or added to
 * themselves, batch normalisation, both kinds of pools, padded channels, windows that are not square, convolutions
 * without bias. The caller closes it. */
struct net *network_random_graph(uint32_t seed, float dropout);

/* A net to which the caller adds layers; and its end: a dense layer after layer `from`, and the loss. The caller closes
 * it. */
struct net *network_net_begin(const char *name, struct shape input, uint32_t classes);
struct net *network_net_end(struct net *net, int64_t from);

/* Call check(backend) for every backend of this build for the test's kind of device. */
void network_for_each_backend(void (*check)(const char *backend));
/* A test (tests/helpers/test.h) whose body runs once per backend, with its name as `backend`. */
#define TEST_ON_EACH_BACKEND(name)                  \
    static void name##_on(const char *backend);     \
    TEST(name)                                      \
    {                                               \
        network_for_each_backend(name##_on);        \
    }                                               \
    static void name##_on(const char *backend)

/* All functions assert that they succeed, except those that return an errno. */

/* Open a device, a stream, and a backend as the spec says. */
void network_open_with(struct network *network, const char *backend, const struct backend_spec *spec);
/* The same in steps: device and stream; the backend with the layout of its arenas; their memory. 0 or a negative
 * errno. */
void network_open_device(struct network *network, const char *backend, const struct net *net);
int network_open_backend(struct network *network, const struct backend_spec *spec);
int network_bind(struct network *network);
void network_open(struct network *network, const char *backend, const struct net *net, uint32_t local_max,
                  uint32_t threads);
/* With threads (0: one), layout, precision and so on as in `settings`; net and seed are set here. */
void network_open_settings(struct network *network, const char *backend, const struct net *net,
                           struct backend_spec settings);
/* Also after the first of these steps only. */
void network_close(struct network *network);
/* Offset of a parameter in its arena. */
size_t network_offset(const struct network *network, uint32_t parameter);
/* The parameter's arena: weights or statistics. */
float *network_arena(const struct network *network, uint32_t parameter);
/* Set every parameter at random, scaled to keep activations near 1. */
void network_draw_weights(struct network *network, uint64_t seed);
void network_read(struct network *network, const float *arena, uint32_t parameter, float *plain_out);
void network_write(struct network *network, float *arena, uint32_t parameter, const float *plain);
/* The plan for this count and phase; the first call makes it and allocates. */
struct plan *network_plan(struct network *network, uint32_t count, bool training);
/* Queue forward, in training also backward, and the result, for the samples in device memory. */
void network_queue(struct network *network, struct plan *plan);
/* Run samples [first, first + count) of `input` forward, in training also backward. */
struct backend_result network_run(struct network *network, const struct backend_input *input, uint32_t first,
                                  uint32_t count, bool training);
/* Run the first `count` samples of `input` forward only. */
struct backend_result network_forward(struct network *network, const struct backend_input *input, uint32_t count,
                                      bool training);
/* Random pixels and labels of `count` samples; freed by network_input_release. */
struct backend_input network_input(const struct net *net, uint32_t count, uint64_t seed);
void network_input_release(struct backend_input *input);

#endif
