/* Saving weights. Tensors are sorted by name, as the format's own writer does. */
#include "tools/run/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "formats/safetensors.h"

/* Metadata besides the hashes: format, model, steps. */
#define FIXED_TEXTS 3u

struct tensor { const struct parameter *parameter; float *data; char hash_key[80], hash[24]; };

struct weights {
    const struct net *net;
    struct tensor *tensors;     /* parameter_count, sorted by name */
    char steps[24];
};

static int compare_names(const void *left, const void *right)
{
    const struct tensor *const a = left, *const b = right;
    return strcmp(a->parameter->name, b->parameter->name);
}

static bool is_finite(const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return false;
    return true;
}

static int read_tensor(struct tensor *tensor, const struct net *net, struct tower *tower, uint32_t parameter)
{
    tensor->parameter = &net->parameters[parameter];
    const size_t count = tensor->parameter->count;
    tensor->data = malloc(count * sizeof(float));
    if (tensor->data == NULL)
        return -ENOMEM;
    const int rc = tower_read(tower, parameter, tensor->data);
    snprintf(tensor->hash_key, sizeof(tensor->hash_key), "pipetrain.xxh3.%s", tensor->parameter->name);
    if (rc != 0)
        return -EREMOTEIO;
    snprintf(tensor->hash, sizeof(tensor->hash), "%016" PRIx64, XXH3_64bits(tensor->data, count * sizeof(float)));
    return is_finite(tensor->data, count) ? 0 : -EDOM;
}

static int make_header(const struct weights *weights, uint8_t **header_out, size_t *bytes_out)
{
    const uint32_t count = weights->net->parameter_count;
    struct safetensors_entry *const entries = calloc(count, sizeof(*entries));
    struct safetensors_text *const texts = calloc(count + FIXED_TEXTS, sizeof(*texts));
    int rc = -ENOMEM;
    if (entries != NULL && texts != NULL) {
        texts[0] = (struct safetensors_text){ "format", "pt" };
        texts[1] = (struct safetensors_text){ "pipetrain.model", weights->net->model };
        texts[2] = (struct safetensors_text){ "pipetrain.steps", weights->steps };
        for (uint32_t i = 0; i < count; i++) {
            const struct tensor *const tensor = &weights->tensors[i];
            const struct parameter *const parameter = tensor->parameter;
            entries[i] = (struct safetensors_entry){ .name = parameter->name, .dtype = "F32", .rank = parameter->rank,
                                                    .bytes = parameter->count * sizeof(float) };
            for (uint32_t axis = 0; axis < parameter->rank; axis++)
                entries[i].dims[axis] = parameter->dims[axis];
            texts[FIXED_TEXTS + i] = (struct safetensors_text){ tensor->hash_key, tensor->hash };
        }
        rc = safetensors_header(entries, count, texts, count + FIXED_TEXTS, header_out, bytes_out);
    }
    free(entries);
    free(texts);
    return rc;
}

static int put(FILE *out, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, out) == bytes ? 0 : -EIO;
}

static int write_weights(void *arg, FILE *out)
{
    const struct weights *const weights = arg;
    uint8_t *header = NULL;
    size_t header_bytes = 0;
    int rc = make_header(weights, &header, &header_bytes);
    if (rc == 0)
        rc = put(out, header, header_bytes);
    for (uint32_t i = 0; i < weights->net->parameter_count && rc == 0; i++)
        rc = put(out, weights->tensors[i].data, weights->tensors[i].parameter->count * sizeof(float));
    free(header);
    return rc;
}

int weights_save(struct run_directory *directory, const char *file, const struct net *net, struct tower *tower,
                 uint64_t steps, const char **broken_out)
{
    const uint32_t count = net->parameter_count;
    struct weights weights = { .net = net, .tensors = calloc(count, sizeof(*weights.tensors)) };
    if (weights.tensors == NULL)
        return -ENOMEM;
    snprintf(weights.steps, sizeof(weights.steps), "%" PRIu64, steps);
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        rc = read_tensor(&weights.tensors[i], net, tower, i);
        if (rc == -EDOM)
            *broken_out = net->parameters[i].name;
    }
    if (rc == 0) {
        qsort(weights.tensors, count, sizeof(*weights.tensors), compare_names);
        rc = run_directory_write(directory, file, write_weights, &weights);
    }
    for (uint32_t i = 0; i < count; i++)
        free(weights.tensors[i].data);
    free(weights.tensors);
    return rc;
}
