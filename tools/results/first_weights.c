/* Weights to begin with. What the file holds is compared by names and shapes before anything is started. */
#include "tools/results/first_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/finite.h"
#include "tools/results/tensor_file.h"

#define NAMED_MAX 4u            /* tensors that are named of each kind of difference */
#define LIST_BYTES 512u

struct first_weights {
    const struct net *net;
    struct tensor_file file;
    const struct safetensors_tensor *tensors[NET_PARAMETERS_MAX];   /* by parameter */
};

/* ---- what differs ---- */

enum difference { DIFFERENCE_MISSING, DIFFERENCE_UNKNOWN, DIFFERENCE_SHAPE, DIFFERENCE_COUNT };

static const char *const difference_words[DIFFERENCE_COUNT] = {
    [DIFFERENCE_MISSING] = "not in the file",
    [DIFFERENCE_UNKNOWN] = "not of the network",
    [DIFFERENCE_SHAPE] = "of another shape or type",
};

/* How many there are of each, and the first of them. */
struct differences {
    uint32_t count[DIFFERENCE_COUNT];
    char names[DIFFERENCE_COUNT][LIST_BYTES];
};

static void add_difference(struct differences *differences, enum difference which, const char *text)
{
    char *const names = differences->names[which];
    const size_t used = strlen(names);
    if (differences->count[which]++ < NAMED_MAX)
        snprintf(names + used, LIST_BYTES - used, "%s%.100s", used == 0 ? "" : ", ", text);
}

static void shape_text(const uint64_t *dims, uint32_t rank, char *text, size_t text_size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < rank; i++)
        snprintf(text + strlen(text), text_size - strlen(text), "%s%" PRIu64, i == 0 ? "" : "x", dims[i]);
}

static bool has_shape(const struct safetensors_tensor *tensor, const struct parameter *parameter)
{
    bool is_same = strcmp(tensor->dtype, "F32") == 0 && tensor->rank == parameter->rank;
    for (uint32_t i = 0; is_same && i < parameter->rank; i++)
        is_same = tensor->dims[i] == parameter->dims[i];
    return is_same;
}

static void add_shape(struct differences *differences, const struct safetensors_tensor *tensor,
                      const struct parameter *parameter)
{
    char text[256], theirs[96], ours[96];
    uint64_t dims[4];
    for (uint32_t i = 0; i < parameter->rank; i++)
        dims[i] = parameter->dims[i];
    shape_text(tensor->dims, tensor->rank, theirs, sizeof(theirs));
    shape_text(dims, parameter->rank, ours, sizeof(ours));
    snprintf(text, sizeof(text), "%s (%.8s %.30s, not F32 %.30s)", parameter->name, tensor->dtype, theirs, ours);
    add_difference(differences, DIFFERENCE_SHAPE, text);
}

/* What a saved state holds besides weights and statistics (tools/checkpoint/layout.h). */
static bool is_of_a_state(const struct first_weights *weights, const char *name)
{
    static const char *const fronts[] = { "optim.", "tower.", "carried" };
    if (safetensors_index_text(&weights->file.index, "pipetrain.checkpoint") == NULL)
        return false;
    for (size_t i = 0; i < sizeof(fronts) / sizeof(*fronts); i++)
        if (strncmp(name, fronts[i], strlen(fronts[i])) == 0)
            return true;
    return false;
}

/* How often PyTorch's batch normalisation was trained: nothing here depends on it. */
static bool is_batch_count(const char *name)
{
    static const char end[] = ".num_batches_tracked";
    const size_t length = strlen(name);
    return length >= sizeof(end) - 1 && strcmp(name + length - (sizeof(end) - 1), end) == 0;
}

static uint32_t parameter_of(const struct net *net, const char *name)
{
    uint32_t i = 0;
    while (i < net->parameter_count && strcmp(net->parameters[i].name, name) != 0)
        i++;
    return i;
}

static void compare(struct first_weights *weights, struct differences *differences)
{
    const struct net *const net = weights->net;
    *differences = (struct differences){ .count = { 0 } };
    for (size_t i = 0; i < weights->file.index.count; i++) {
        const struct safetensors_tensor *const tensor = &weights->file.index.tensors[i];
        const uint32_t parameter = parameter_of(net, tensor->name);
        if (parameter < net->parameter_count)
            weights->tensors[parameter] = tensor;
        else if (!is_batch_count(tensor->name) && !is_of_a_state(weights, tensor->name))
            add_difference(differences, DIFFERENCE_UNKNOWN, tensor->name);
    }
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct safetensors_tensor *const tensor = weights->tensors[i];
        if (tensor == NULL)
            add_difference(differences, DIFFERENCE_MISSING, net->parameters[i].name);
        else if (!has_shape(tensor, &net->parameters[i]))
            add_shape(differences, tensor, &net->parameters[i]);
    }
}

static int tell(const struct first_weights *weights, const struct differences *differences, const char *path,
                struct problems *problems)
{
    const uint32_t *const count = differences->count;
    if (count[DIFFERENCE_MISSING] + count[DIFFERENCE_UNKNOWN] + count[DIFFERENCE_SHAPE] == 0)
        return 0;
    problems_add(problems, path, "holds the weights of another network than '%s', which has %u tensors:",
                 weights->net->model, weights->net->parameter_count);
    for (enum difference which = 0; which < DIFFERENCE_COUNT; which++)
        if (count[which] > 0)
            problems_add(problems, path, "%u %s: %s%s", count[which], difference_words[which],
                         differences->names[which], count[which] > NAMED_MAX ? ", ..." : "");
    return -EINVAL;
}

/* ---- the contract ---- */

int first_weights_open(struct first_weights **weights_out, const char *path, const struct net *net,
                       struct problems *problems)
{
    char problem[256] = "";
    struct differences differences;
    struct first_weights *const weights = calloc(1, sizeof(*weights));
    if (weights == NULL) {
        problems_add(problems, "pipetrain", "%s: %s", path, strerror(ENOMEM));
        return -ENOMEM;
    }
    *weights = (struct first_weights){ .net = net, .file = { .fd = -1 } };
    int rc = tensor_file_open(&weights->file, AT_FDCWD, path, problem, sizeof(problem));
    if (rc != 0) {
        problems_add(problems, path, "%s", problem[0] != '\0' ? problem : strerror(-rc));
    } else {
        compare(weights, &differences);
        rc = tell(weights, &differences, path, problems);
    }
    if (rc == 0)
        *weights_out = weights;
    else
        first_weights_close(weights);
    return rc;
}

static int write_parameter(const struct first_weights *weights, struct tower *tower, uint32_t parameter, float *numbers)
{
    const size_t count = weights->net->parameters[parameter].count;
    const int rc = tensor_file_read(&weights->file, weights->tensors[parameter], numbers);
    if (rc != 0)
        return rc;
    if (finite_count(numbers, count) != count)
        return -EDOM;
    return tower_write(tower, parameter, numbers) == 0 ? 0 : -EREMOTEIO;
}

const char *first_weights_text(const struct first_weights *weights, const char *key)
{
    return safetensors_index_text(&weights->file.index, key);
}

int first_weights_write(const struct first_weights *weights, struct tower *tower)
{
    const struct net *const net = weights->net;
    size_t most = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (net->parameters[i].count > most)
            most = net->parameters[i].count;
    float *const numbers = malloc(most * sizeof(*numbers));
    int rc = numbers == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++)
        rc = write_parameter(weights, tower, i, numbers);
    free(numbers);
    return rc;
}

void first_weights_close(struct first_weights *weights)
{
    if (weights == NULL)
        return;
    tensor_file_close(&weights->file);
    free(weights);
}
