/* Saving weights. Tensors are sorted by name, as the format's own writer does. The header is made
 * once at the start, with the longest texts, so that it fits when it is made for the file. */
#include "tools/results/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compute/finite.h"
#include "formats/safetensors.h"
#include "tools/results/tensor_file.h"

#define FIXED_TEXTS 2u          /* metadata besides the hashes and what the file says of itself: format, steps */
#define TENSOR_TEXT_BYTES 1024u /* at most, in the header; in fact some 200 */

struct tensor { uint32_t parameter; float *data; char hash_key[80], hash[24]; };

struct weights {
    const struct net *net;
    struct tensor *tensors;     /* parameter_count, sorted by name */
    struct safetensors_entry *entries;  /* of the tensors */
    struct safetensors_text *texts;     /* FIXED_TEXTS, a hash of every tensor, and those of about */
    struct weights_about *about;
    float *data;                /* of all tensors, one behind the other */
    size_t data_bytes;
    struct json header;
    char steps[24];
};

static size_t float_count(const struct net *net)
{
    size_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        count += net->parameters[i].count;
    return count;
}

size_t weights_bytes(const struct net *net)
{
    const size_t per_tensor = sizeof(struct tensor) + sizeof(struct safetensors_entry) +
                              sizeof(struct safetensors_text) + TENSOR_TEXT_BYTES;
    const size_t texts = FIXED_TEXTS * TENSOR_TEXT_BYTES + weights_about_bytes(net);
    return sizeof(struct weights) + texts + net->parameter_count * per_tensor + float_count(net) * sizeof(float);
}

/* ---- opening ---- */

static int take_room(struct weights *weights)
{
    const size_t count = weights->net->parameter_count;
    weights->data_bytes = float_count(weights->net) * sizeof(float);
    weights->tensors = calloc(count + 1, sizeof(*weights->tensors));
    weights->entries = calloc(count + 1, sizeof(*weights->entries));
    weights->texts = calloc(count + FIXED_TEXTS + WEIGHTS_ABOUT_TEXTS, sizeof(*weights->texts));
    weights->data = malloc(weights->data_bytes + sizeof(float));
    if (weights->tensors == NULL || weights->entries == NULL || weights->texts == NULL || weights->data == NULL)
        return -ENOMEM;
    memset(weights->data, 0, weights->data_bytes);      /* the kernel gives memory when it is written */
    return 0;
}

static struct safetensors_entry entry_of(const struct parameter *parameter)
{
    struct safetensors_entry entry = { .name = parameter->name, .dtype = "F32", .rank = parameter->rank,
                                      .bytes = parameter->count * sizeof(float) };
    for (uint32_t axis = 0; axis < parameter->rank; axis++)
        entry.dims[axis] = parameter->dims[axis];
    return entry;
}

/* The place of a parameter among the names. */
static uint32_t place_of(const struct net *net, uint32_t parameter)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        place += strcmp(net->parameters[i].name, net->parameters[parameter].name) < 0;
    return place;
}

static void name_tensors(struct weights *weights)
{
    const struct net *const net = weights->net;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const uint32_t place = place_of(net, i);
        struct tensor *const tensor = &weights->tensors[place];
        tensor->parameter = i;
        snprintf(tensor->hash_key, sizeof(tensor->hash_key), TENSOR_HASH_KEY "%s", net->parameters[i].name);
        snprintf(tensor->hash, sizeof(tensor->hash), "%016x", 0u);
        weights->entries[place] = entry_of(&net->parameters[i]);
        weights->texts[FIXED_TEXTS + place] = (struct safetensors_text){ tensor->hash_key, tensor->hash };
    }
}

static void place_fixed_texts(struct weights *weights)
{
    weights->texts[0] = (struct safetensors_text){ "format", "pt" };
    weights->texts[1] = (struct safetensors_text){ WEIGHTS_STEPS, weights->steps };
}

static void place_data(struct weights *weights)
{
    float *next = weights->data;
    for (uint32_t i = 0; i < weights->net->parameter_count; i++) {
        weights->tensors[i].data = next;
        next += weights->net->parameters[weights->tensors[i].parameter].count;
    }
}

static int make_header(struct weights *weights, uint64_t steps)
{
    const uint32_t count = weights->net->parameter_count;
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(weights->about, &about_count);
    memcpy(weights->texts + FIXED_TEXTS + count, about, about_count * sizeof(*about));
    snprintf(weights->steps, sizeof(weights->steps), "%" PRIu64, steps);
    return safetensors_header(&weights->header, weights->entries, count, weights->texts,
                              count + FIXED_TEXTS + about_count, SAFETENSORS_ALIGNMENT);
}

int weights_open(struct weights **weights_out, const struct net *net, const struct pixels_text *pixels)
{
    struct weights *const weights = calloc(1, sizeof(*weights));
    if (weights == NULL)
        return -ENOMEM;
    weights->net = net;
    json_init(&weights->header, false);
    int rc = take_room(weights);
    if (rc == 0) {
        name_tensors(weights);
        place_fixed_texts(weights);
        place_data(weights);
        rc = weights_about_open(&weights->about, net, pixels);
    }
    if (rc == 0)
        rc = make_header(weights, UINT64_MAX);
    if (rc != 0) {
        weights_close(weights);
        return rc;
    }
    *weights_out = weights;
    return 0;
}

int weights_name_classes(struct weights *weights, char *names)
{
    weights_about_classes(weights->about, names);
    return make_header(weights, UINT64_MAX);
}

const struct weights_about *weights_about(const struct weights *weights)
{
    return weights->about;
}

void weights_close(struct weights *weights)
{
    if (weights == NULL)
        return;
    json_release(&weights->header);
    weights_about_close(weights->about);
    free(weights->data);
    free(weights->texts);
    free(weights->entries);
    free(weights->tensors);
    free(weights);
}

/* ---- saving ---- */

static int read_tensor(const struct weights *weights, struct tensor *tensor, struct tower *tower)
{
    const size_t count = weights->net->parameters[tensor->parameter].count;
    const int read = tower_read(tower, tensor->parameter, tensor->data);
    if (read != 0)
        return read == -ENOMEM ? read : -EREMOTEIO;
    snprintf(tensor->hash, sizeof(tensor->hash), "%016" PRIx64,
             (uint64_t)XXH3_64bits(tensor->data, count * sizeof(float)));
    return finite_count(tensor->data, count) == count ? 0 : -EDOM;
}

static int read_tensors(const struct weights *weights, struct tower *tower, const char **broken_out)
{
    int rc = 0;
    for (uint32_t i = 0; i < weights->net->parameter_count && rc == 0; i++) {
        rc = read_tensor(weights, &weights->tensors[i], tower);
        if (rc == -EDOM)
            *broken_out = weights->entries[i].name;
    }
    return rc;
}

int weights_save(struct weights *weights, struct run_directory *directory, const char *file, struct tower *tower,
                 uint64_t steps, const char **broken_out)
{
    int rc = read_tensors(weights, tower, broken_out);
    if (rc == 0)
        rc = make_header(weights, steps);
    if (rc != 0)
        return rc;
    uint8_t length[SAFETENSORS_LENGTH_BYTES];
    safetensors_length(weights->header.bytes, length);
    const struct file_part parts[] = { { length, sizeof(length) },
                                       { weights->header.text, weights->header.bytes },
                                       { weights->data, weights->data_bytes } };
    return run_directory_write(directory, file, parts, sizeof(parts) / sizeof(parts[0]));
}
