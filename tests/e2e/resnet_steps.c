/* What this build computes with resnet20_v1, as plain files for torch_resnet20.py to compare with.
 *
 *     resnet_steps BACKEND DIRECTORY
 *
 * DIRECTORY is there and gets
 *     parameters                           a line each: name, 1 when trained, dimensions
 *     pixels (bytes, N,H,W,C), labels      the batch
 *     before.NAME, after.NAME              parameters before and after the steps, floats
 *     gradients.NAME                       of the first step's loss, summed over the samples
 *     probabilities                        of the first step, N x classes
 *     losses                               of every step and, last, of evaluation: sums, doubles */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "compute/init.h"
#include "compute/model.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network_check.h"

/* With these images no value comes nearer to 0 than 1.6e-6 in front of a ReLU, in all ten steps: on the
 * other side a gradient would jump by more than what is compared. */
enum { SAMPLES = 2, STEPS = 10, WEIGHTS_SEED = 1, IMAGES_SEED = 19 };

static const float learning_rate = 0.005f;
static const struct optimizer optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };

static const char *directory;

static FILE *create(const char *group, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s%s", directory, group, name);
    FILE *const file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void save(const char *group, const char *name, const void *data, size_t bytes)
{
    FILE *const file = create(group, name);
    const bool is_written = fwrite(data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !is_written) {
        perror(name);
        exit(1);
    }
}

static void save_names(const struct net *net)
{
    FILE *const file = create("", "parameters");
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const struct parameter *const parameter = &net->parameters[p];
        fprintf(file, "%s %d", parameter->name, parameter->is_trained);
        for (uint32_t i = 0; i < parameter->rank; i++)
            fprintf(file, " %u", parameter->dims[i]);
        fputc('\n', file);
    }
    fclose(file);
}

static void save_all(struct network *network, const char *group, float *(*take)(struct network *, uint32_t))
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        if (take == network_gradient && !network->net->parameters[p].is_trained)
            continue;
        float *const numbers = take(network, p);
        save(group, network->net->parameters[p].name, numbers, network->net->parameters[p].count * sizeof(float));
        free(numbers);
    }
}

static void set_initial(struct network *network)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        float *const plain = malloc(network->net->parameters[p].count * sizeof(float));
        init_parameter(network->net, p, WEIGHTS_SEED, 1, plain);
        network_write(network, network_arena(network, p), p, plain);
        free(plain);
    }
}

/* With a label for one sample only, the gradient of the class layer's bias is that sample's
 * probabilities, less 1 at the label. */
static void save_probabilities(struct network *network, const struct backend_input *input)
{
    const struct net *const net = network->net;
    int32_t labels[SAMPLES];
    float *const all = calloc((size_t)SAMPLES * net->classes, sizeof(*all));
    struct backend_input one = *input;
    one.labels = labels;
    for (uint32_t n = 0; n < SAMPLES; n++) {
        for (uint32_t i = 0; i < SAMPLES; i++)
            labels[i] = i == n ? input->labels[i] : -1;
        network_run(network, &one, 0, SAMPLES, true);
        network_read(network, network->gradients, net->parameter_count - 1, all + n * net->classes);
        all[n * net->classes + (uint32_t)labels[n]] += 1;
    }
    save("", "probabilities", all, (size_t)SAMPLES * net->classes * sizeof(*all));
    free(all);
}

static void update(struct network *network, float *momenta)
{
    const struct optimizer_range range = {
        .weights = network->weights,
        .gradients = network->gradients,
        .states = { momenta },
        .count = network->arenas.trained.count,
    };
    assert_int_equal(network->ops->update(network->backend, &optimizer, learning_rate, 1.0f / SAMPLES, &range, 1), 0);
}

static void take_steps(struct network *network, const struct backend_input *input)
{
    double losses[STEPS + 1];
    const size_t bytes = network->arenas.trained.count * sizeof(float);
    float *const momenta = device_memory_make(network->compute, NULL, bytes);
    for (uint32_t step = 0; step < STEPS; step++) {
        losses[step] = network_run(network, input, 0, SAMPLES, true).loss_sum;
        if (step == 0)
            save_all(network, "gradients.", network_gradient);
        update(network, momenta);
    }
    losses[STEPS] = network_forward(network, input, SAMPLES, false).loss_sum;
    save("", "losses", losses, sizeof(losses));
    network->device->ops->free(network->device, momenta);
}

int main(int argc, char **argv)
{
    struct net *net;
    struct network network;
    if (argc != 3 || backend_find(argv[1]) == NULL ||
        model_open(&net, "resnet20_v1", &(struct model_options){ .classes = 0 }) != 0) {
        fprintf(stderr, "usage: resnet_steps BACKEND DIRECTORY, with a backend of this build\n");
        return 2;
    }
    directory = argv[2];
    struct backend_input input = network_input(net, SAMPLES, IMAGES_SEED);
    network_open(&network, argv[1], net, SAMPLES, 1);
    save_names(net);
    save("", "pixels", input.pixels, SAMPLES * shape_count(net->input));
    save("", "labels", input.labels, SAMPLES * sizeof(*input.labels));
    set_initial(&network);
    save_probabilities(&network, &input);
    set_initial(&network);
    save_all(&network, "before.", network_numbers);
    take_steps(&network, &input);
    save_all(&network, "after.", network_numbers);
    network_close(&network);
    network_input_release(&input);
    net_close(net);
    return 0;
}
