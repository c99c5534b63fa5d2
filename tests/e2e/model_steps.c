/* What this build computes with a model, from and to plain files, for torch_parity.py to compare with.
 *
 *     model_steps BACKEND MODEL SIZE RATE STEPS DIRECTORY
 *
 * SIZE is the height and width of the images (0: the model's own).
 * There is no dropout, and a model that has an auxiliary head trains with it. Exit status 77: the backend is
 * not in this build. DIRECTORY holds
 *     pixels (bytes, N,H,W,C), labels      the batch
 *     before.NAME                          parameters before the steps, floats
 * and gets
 *     parameters                           a line each: name, dimensions
 *     logits                               of evaluation before the steps, N x classes, floats
 *     probabilities                        of the first step, N x classes, doubles; unless the loss reads a layer
 *                                          without a bias
 *     gradients.NAME                       of the first step's loss, summed over the samples
 *     statistics.NAME                      after the first step, of what is not trained
 *     after.NAME                           parameters after the steps
 *     losses                               of every step and, last, of evaluation: sums, doubles */
#include <stdio.h>
#include <stdlib.h>

#include "compute/model.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

enum { STEPS_MAX = 10, THREADS = 2 };

static const struct optimizer optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };

static const char *directory;
static uint32_t samples, step_count;
static float learning_rate;

static FILE *open_file(const char *group, const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s%s", directory, group, name);
    FILE *const file = fopen(path, mode);
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void load(const char *group, const char *name, void *data, size_t bytes)
{
    FILE *const file = open_file(group, name, "rb");
    if (fread(data, 1, bytes, file) != bytes || fgetc(file) != EOF) {
        fprintf(stderr, "%s%s: does not hold %zu bytes\n", group, name, bytes);
        exit(1);
    }
    fclose(file);
}

static size_t bytes_of(const char *name)
{
    FILE *const file = open_file("", name, "rb");
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    fclose(file);
    return bytes > 0 ? (size_t)bytes : 0;
}

static void save(const char *group, const char *name, const void *data, size_t bytes)
{
    FILE *const file = open_file(group, name, "wb");
    const bool is_written = fwrite(data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !is_written) {
        perror(name);
        exit(1);
    }
}

static void save_names(const struct net *net)
{
    FILE *const file = open_file("", "parameters", "w");
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const struct parameter *const parameter = &net->parameters[p];
        fputs(parameter->name, file);
        for (uint32_t i = 0; i < parameter->rank; i++)
            fprintf(file, " %u", parameter->dims[i]);
        fputc('\n', file);
    }
    fclose(file);
}

typedef float *(*take_numbers)(struct network *network, uint32_t parameter);

static void save_numbers(struct network *network, const char *group, uint32_t parameter, take_numbers take)
{
    float *const numbers = take(network, parameter);
    const struct parameter *const what = &network->net->parameters[parameter];
    save(group, what->name, numbers, what->count * sizeof(float));
    free(numbers);
}

static void save_first_step(struct network *network)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++)
        if (network->net->parameters[p].is_trained)
            save_numbers(network, "gradients.", p, network_gradient);
        else
            save_numbers(network, "statistics.", p, network_numbers);
}

static void set_initial(struct network *network)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        const struct parameter *const parameter = &network->net->parameters[p];
        float *const plain = malloc(parameter->count * sizeof(float));
        load("before.", parameter->name, plain, parameter->count * sizeof(float));
        network_write(network, network_arena(network, p), p, plain);
        free(plain);
    }
}

/* The bias of the layer that the loss reads. */
static uint32_t class_bias(const struct net *net)
{
    return net->layers[net->layers[net->layer_count - 1].inputs[0]].parameters[PARAMETER_BIAS];
}

/* With the label `other` for one sample and none for the rest, the gradient of the classes' bias is that
 * sample's probabilities, but for that of `other`, which is less by 1. */
static void take_slopes(struct network *network, const struct backend_input *one, uint32_t other, double *out)
{
    network_run(network, one, 0, samples, true);
    float *const slopes = network_gradient(network, class_bias(network->net));
    for (uint32_t c = 0; c < network->net->classes; c++)
        if (c != other)
            out[c] = (double)slopes[c];
    free(slopes);
}

static void save_logits(struct network *network, const struct backend_input *input)
{
    const size_t count = (size_t)samples * network->net->classes;
    float *const logits = malloc(count * sizeof(*logits));
    const uint32_t loss = network->net->layer_count - 1;
    (void)network_forward(network, input, samples, false);
    assert_int_equal(network->ops->values(network_plan(network, samples, false), loss, logits), 0);
    save("", "logits", logits, count * sizeof(*logits));
    free(logits);
}

static void save_probabilities(struct network *network, const struct backend_input *input)
{
    const uint32_t classes = network->net->classes;
    int32_t *const labels = malloc(samples * sizeof(*labels));
    double *const all = malloc((size_t)samples * classes * sizeof(*all));
    struct backend_input one = *input;
    one.labels = labels;
    for (uint32_t n = 0; n < samples; n++)
        for (uint32_t other = 0; other < 2; other++) {
            for (uint32_t i = 0; i < samples; i++)
                labels[i] = i == n ? (int32_t)other : -1;
            take_slopes(network, &one, other, all + (size_t)n * classes);
        }
    save("", "probabilities", all, (size_t)samples * classes * sizeof(*all));
    free(all);
    free(labels);
}

static void update(struct network *network, uint64_t number, float *momenta)
{
    const struct optimizer_range range = {
        .weights = network->weights,
        .gradients = network->gradients,
        .states = { momenta },
        .count = network->arenas.trained.count,
    };
    const struct optimizer_step step = { number, learning_rate, 1.0f / (float)samples };
    assert_int_equal(network->ops->update(network->backend, &optimizer, &step, &range, 1), 0);
}

static void take_steps(struct network *network, const struct backend_input *input)
{
    double losses[STEPS_MAX + 1];
    const size_t bytes = network->arenas.trained.count * sizeof(float);
    float *const momenta = device_memory_make(network->compute, NULL, bytes);
    for (uint32_t step = 0; step < step_count; step++) {
        losses[step] = network_run(network, input, 0, samples, true).loss_sum;
        if (step == 0)
            save_first_step(network);
        update(network, step, momenta);
    }
    losses[step_count] = network_forward(network, input, samples, false).loss_sum;
    save("", "losses", losses, (step_count + 1) * sizeof(*losses));
    network->device->ops->free(network->device, momenta);
}

static struct backend_input input_load(const struct net *net)
{
    samples = (uint32_t)(bytes_of("labels") / sizeof(int32_t));
    const size_t bytes = samples * shape_count(net->input);
    uint8_t *const pixels = malloc(bytes);
    int32_t *const labels = malloc(samples * sizeof(*labels));
    load("", "pixels", pixels, bytes);
    load("", "labels", labels, samples * sizeof(*labels));
    return (struct backend_input){ .pixels = pixels, .labels = labels };
}

static void compute(const char *backend, const struct net *net)
{
    struct network network;
    save_names(net);
    struct backend_input input = input_load(net);
    network_open(&network, backend, net, samples, THREADS);
    set_initial(&network);
    save_logits(&network, &input);
    if (class_bias(net) != NET_NO_PARAMETER)
        save_probabilities(&network, &input);
    set_initial(&network);
    take_steps(&network, &input);
    for (uint32_t p = 0; p < net->parameter_count; p++)
        save_numbers(&network, "after.", p, network_numbers);
    network_close(&network);
    network_input_release(&input);
}

static int open_net(struct net **net_out, const char *name, uint32_t size)
{
    const struct model *const model = model_find(name);
    if (model == NULL)
        return -1;
    const struct shape image = { model->input.channels, size > 0 ? size : model->input.height,
                                 size > 0 ? size : model->input.width };
    assert_int_equal(net_open(net_out, name, image, model->classes), 0);
    model->build(*net_out, &(struct model_options){ .auxiliary = true }, model->variant);
    return net_finish(*net_out);
}

int main(int argc, char **argv)
{
    struct net *net;
    step_count = argc == 7 ? (uint32_t)atoi(argv[5]) : 0;
    if (step_count < 1 || step_count > STEPS_MAX || open_net(&net, argv[2], (uint32_t)atoi(argv[3])) != 0) {
        fprintf(stderr, "usage: model_steps BACKEND MODEL SIZE RATE STEPS DIRECTORY, with a known model and at most %d "
                "steps\n", STEPS_MAX);
        return 2;
    }
    if (backend_find(argv[1]) == NULL) {
        fprintf(stderr, "model_steps: no backend '%s' in this build\n", argv[1]);
        return 77;
    }
    learning_rate = strtof(argv[4], NULL);
    directory = argv[6];
    compute(argv[1], net);
    net_close(net);
    return 0;
}
