/* Saves weights. Tensors are sorted by name, as the format's own writer does. The header is made once at the start with
 * the longest possible texts, so that making it for the file needs no more memory. */
#include "tools/lib/results/weights.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compute/floats.h"
#include "compute/netfile/net_file.h"
#include "formats/safetensors.h"
#include "stage/text/text_stream.h"
#include "tools/lib/results/tensor_file.h"

#define FIXED_TEXTS 2u          /* metadata besides hashes and weights_about: format, steps */
#define TENSOR_TEXT_BYTES 1024u /* upper limit in the header; usually some 200 */
#define FRONT_PARTS 2u          /* of the file: the length of the header, the header */
#define ABOUT_TEXT_BYTES 1024u  /* upper limit of a text of weights_about, except for the two below */
#define LAYER_TEXT_BYTES 512u   /* upper limit of twice a line of the network's text; usually some 100 */

/* ---- metadata that make a file usable on its own ---- */

struct weights_about {
    const struct net *net;
    struct pixels_text pixels;
    char setting_keys[PIXELS_SETTINGS][64];
    char *net_text, *class_names;       /* NULL: there is none */
    char trained_on[WEIGHTS_SHARDS_BYTES];
    struct safetensors_text texts[WEIGHTS_ABOUT_TEXTS];
    uint32_t count;
};

size_t weights_about_bytes(const struct net *net)
{
    return sizeof(struct weights_about) + WEIGHTS_ABOUT_TEXTS * ABOUT_TEXT_BYTES +
           (size_t)net->layer_count * LAYER_TEXT_BYTES + (size_t)net->classes * WEIGHTS_CLASS_BYTES;
}

static void add_text(struct weights_about *about, const char *key, const char *text)
{
    about->texts[about->count++] = (struct safetensors_text){ key, text };
}

static void add_pixels(struct weights_about *about)
{
    const struct pixels_text *const pixels = &about->pixels;
    add_text(about, "pipetrain.input", "(pixel / divisor - mean) / deviation");
    add_text(about, "pipetrain.input.divisor", pixels->divisor);
    add_text(about, "pipetrain.input.mean", pixels->mean);
    add_text(about, "pipetrain.input.deviation", pixels->deviation);
    add_text(about, "pipetrain.images.train", pixels->images[PHASE_TRAIN]);
    add_text(about, "pipetrain.images.validation", pixels->images[PHASE_EVALUATE]);
    for (size_t i = 0; i < PIXELS_SETTINGS; i++) {
        char *const key = about->setting_keys[i];
        if (i >= PIXELS_LABEL_KEY && i < PIXELS_VALIDATION_SPLIT &&
            strcmp(pixels->settings[i], pixels_option(i)->initial) == 0)
            continue;
        snprintf(key, sizeof(about->setting_keys[i]), WEIGHTS_SETTING "%s", pixels_settings[i]);
        add_text(about, key, pixels->settings[i]);
    }
}

/* No text if a name of the network cannot be written in one. */
static int add_net(struct weights_about *about)
{
    size_t bytes;
    FILE *const out = open_memstream(&about->net_text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    const int rc = net_file_write(about->net, out);
    const int ended = text_stream_end(out, &about->net_text);
    if (rc == 0 && ended == 0)
        add_text(about, WEIGHTS_NET, about->net_text);
    return rc == -EINVAL ? 0 : rc != 0 ? -ENOMEM : ended;
}

void weights_about_close(struct weights_about *about)
{
    if (about == NULL)
        return;
    free(about->net_text);
    free(about->class_names);
    free(about);
}

int weights_about_open(struct weights_about **about_out, const struct net *net, const struct pixels_text *pixels)
{
    struct weights_about *const about = calloc(1, sizeof(*about));
    if (about == NULL)
        return -ENOMEM;
    about->net = net;
    about->pixels = *pixels;
    add_text(about, "pipetrain.model", net->model);
    add_pixels(about);
    const int rc = add_net(about);
    if (rc != 0)
        weights_about_close(about);
    else
        *about_out = about;
    return rc;
}

static void weights_about_classes(struct weights_about *about, char *names)
{
    const bool is_short = strlen(names) <= (size_t)about->net->classes * WEIGHTS_CLASS_BYTES / 2;
    about->class_names = names;
    if (is_short)
        add_text(about, WEIGHTS_CLASS_NAMES, names);
}

static void weights_about_learned(struct weights_about *about, const char *learned)
{
    add_text(about, WEIGHTS_LEARNED, learned);
}

const struct safetensors_text *weights_about_texts(const struct weights_about *about, uint32_t *count_out)
{
    *count_out = about->count;
    return about->texts;
}

/* ---- the tensors ---- */

struct tensor {
    uint32_t parameter;
    float *data;                /* NULL: the tower's gradients are used as a buffer */
    char hash_key[80], hash[24];
};

struct weights {
    struct weights_spec spec;
    struct tensor *tensors;     /* parameter_count, sorted by name */
    struct safetensors_entry *entries;  /* of the tensors */
    struct safetensors_text *texts;     /* FIXED_TEXTS, a hash of every tensor, and those of about */
    struct weights_about *about;
    float *data;                /* buffer of the tensors that have no other, concatenated */
    struct file_part *parts;    /* the file: FRONT_PARTS, then the tensors */
    struct json header;
    char steps[24];
};

static bool is_borrowed(struct weights_spec spec, uint32_t parameter)
{
    return spec.borrows && spec.net->parameters[parameter].is_trained;
}

/* Floats of the tensors that need a buffer. */
static size_t float_count(struct weights_spec spec)
{
    size_t count = 0;
    for (uint32_t i = 0; i < spec.net->parameter_count; i++)
        count += is_borrowed(spec, i) ? 0 : spec.net->parameters[i].count;
    return count;
}

size_t weights_bytes(struct weights_spec spec)
{
    if (spec.net == NULL)
        return 0;
    const size_t per_tensor = sizeof(struct tensor) + sizeof(struct safetensors_entry) +
                              sizeof(struct safetensors_text) + sizeof(struct file_part) + TENSOR_TEXT_BYTES;
    const size_t texts = FIXED_TEXTS * TENSOR_TEXT_BYTES + weights_about_bytes(spec.net);
    return sizeof(struct weights) + texts + spec.net->parameter_count * per_tensor + float_count(spec) * sizeof(float);
}

size_t weights_file_bytes(const struct net *net)
{
    return weights_bytes((struct weights_spec){ .net = net });
}

/* ---- opening ---- */

static int take_room(struct weights *weights)
{
    const size_t count = weights->spec.net->parameter_count;
    const size_t data_bytes = float_count(weights->spec) * sizeof(float);
    weights->tensors = calloc(count + 1, sizeof(*weights->tensors));
    weights->entries = calloc(count + 1, sizeof(*weights->entries));
    weights->texts = calloc(count + FIXED_TEXTS + WEIGHTS_ABOUT_TEXTS, sizeof(*weights->texts));
    weights->parts = calloc(count + FRONT_PARTS, sizeof(*weights->parts));
    weights->data = malloc(data_bytes + sizeof(float));
    if (weights->tensors == NULL || weights->entries == NULL || weights->texts == NULL || weights->parts == NULL ||
        weights->data == NULL)
        return -ENOMEM;
    memset(weights->data, 0, data_bytes);       /* the kernel provides memory at the first write */
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

/* The rank of a parameter in the order of names. */
static uint32_t place_of(const struct net *net, uint32_t parameter)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        place += strcmp(net->parameters[i].name, net->parameters[parameter].name) < 0;
    return place;
}

static void name_tensors(struct weights *weights)
{
    const struct net *const net = weights->spec.net;
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
    for (uint32_t i = 0; i < weights->spec.net->parameter_count; i++) {
        struct tensor *const tensor = &weights->tensors[i];
        if (is_borrowed(weights->spec, tensor->parameter))
            continue;
        tensor->data = next;
        next += weights->spec.net->parameters[tensor->parameter].count;
    }
}

static int make_header(struct weights *weights, uint64_t steps)
{
    const uint32_t count = weights->spec.net->parameter_count;
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(weights->about, &about_count);
    memcpy(weights->texts + FIXED_TEXTS + count, about, about_count * sizeof(*about));
    snprintf(weights->steps, sizeof(weights->steps), "%" PRIu64, steps);
    return safetensors_header(&weights->header, weights->entries, count, weights->texts,
                              count + FIXED_TEXTS + about_count, SAFETENSORS_ALIGNMENT);
}

int weights_open(struct weights **weights_out, struct weights_spec spec, const struct pixels_text *pixels)
{
    struct weights *const weights = calloc(1, sizeof(*weights));
    if (weights == NULL)
        return -ENOMEM;
    weights->spec = spec;
    json_init(&weights->header, false);
    int rc = take_room(weights);
    if (rc == 0) {
        name_tensors(weights);
        place_fixed_texts(weights);
        place_data(weights);
        rc = weights_about_open(&weights->about, spec.net, pixels);
    }
    if (rc == 0 && spec.learned != NULL)
        weights_about_learned(weights->about, spec.learned);
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

int weights_name_shards(struct weights *weights, const char text[static WEIGHTS_SHARDS_BYTES])
{
    struct weights_about *const about = weights->about;
    memcpy(about->trained_on, text, sizeof(about->trained_on));
    add_text(about, WEIGHTS_SHARDS, about->trained_on);
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
    free(weights->parts);
    free(weights->texts);
    free(weights->entries);
    free(weights->tensors);
    free(weights);
}

/* ---- saving ---- */

/* A tower stores gradients in the layout of its weights, which needs at least as much space as plain floats. */
static float *room_of(const struct tensor *tensor, struct tower *tower)
{
    if (tensor->data != NULL)
        return tensor->data;
    const struct arena_range *const range = &tower_arena(tower)->ranges[tensor->parameter];
    assert(tower_gradients(tower) != NULL && tower_spec(tower)->device->ops->host_memory);
    assert(range->count >= tower_spec(tower)->net->parameters[tensor->parameter].count);
    return tower_gradients(tower) + range->offset;
}

/* Reads a tensor into its buffer, which becomes a part of the file. */
static int read_tensor(const struct weights *weights, struct tensor *tensor, struct tower *tower,
                       struct file_part *part)
{
    const size_t count = weights->spec.net->parameters[tensor->parameter].count;
    float *const data = room_of(tensor, tower);
    const int read = tower_read(tower, tensor->parameter, data);
    if (read != 0)
        return read == -ENOMEM ? read : -EREMOTEIO;
    *part = (struct file_part){ data, count * sizeof(float) };
    snprintf(tensor->hash, sizeof(tensor->hash), "%016" PRIx64, (uint64_t)XXH3_64bits(data, part->bytes));
    return floats_find_nonfinite(data, count) == count ? 0 : -EDOM;
}

static int read_tensors(const struct weights *weights, struct tower *tower, const char **broken_out)
{
    int rc = 0;
    for (uint32_t i = 0; i < weights->spec.net->parameter_count && rc == 0; i++) {
        rc = read_tensor(weights, &weights->tensors[i], tower, &weights->parts[FRONT_PARTS + i]);
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
    weights->parts[0] = (struct file_part){ length, sizeof(length) };
    weights->parts[1] = (struct file_part){ weights->header.text, weights->header.bytes };
    return run_directory_write(directory, file, weights->parts, FRONT_PARTS + weights->spec.net->parameter_count);
}
