/* Saves weights. Tensors are sorted by name, as the original writer of the format does. The header is made once at the
 * start with the longest possible texts, so that making it for the file needs no more memory. */
#include "tools/lib/results/weights.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_file.h"
#include "stage/text/decimal.h"
#include "stage/text/text_stream.h"
#include "tools/lib/results/tensor_writer.h"

#define OWN_TEXTS 2u            /* number of metadata texts other than hashes and weights_about: format, steps */
#define BEST_TEXTS 6u           /* number of further ones of weights_save_best */
#define OWN_TEXT_BYTES 1024u    /* upper limit of each, with the start of the buffer for the header */
#define ABOUT_TEXT_BYTES 1024u  /* upper limit of a text of weights_about, except the network and class names */
#define LAYER_TEXT_BYTES 512u   /* upper limit of twice the length of a line of the network's text; usually some 100 */

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

/* Make the network's text; if it cannot represent a name, there is no text. */
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

struct weights {
    struct weights_spec spec;
    struct weights_about *about;
    struct tensor_writer file;
    uint32_t *parameters;       /* in the order of the file */
    float *data;                /* buffer of all tensors that have none elsewhere, concatenated */
    float *between;             /* room for any one tensor, to convert it in its snapshot; NULL: `data` has all */
};

static bool is_borrowed(struct weights_spec spec, uint32_t parameter)
{
    return spec.borrows && spec.net->parameters[parameter].is_trained;
}

/* The number of floats of the tensors that need a buffer. */
static size_t float_count(struct weights_spec spec)
{
    size_t count = 0;
    for (uint32_t i = 0; i < spec.net->parameter_count; i++)
        count += is_borrowed(spec, i) ? 0 : spec.net->parameters[i].count;
    return count;
}

/* What weights_save_best needs in addition, with the texts in the header. */
static size_t best_bytes(struct weights_spec spec)
{
    if (spec.best_settings == NULL)
        return 0;
    return (spec.borrows ? net_most_numbers(spec.net) * sizeof(float) : 0) + 2 * strlen(spec.best_settings) +
           BEST_TEXTS * OWN_TEXT_BYTES;
}

size_t weights_bytes(struct weights_spec spec)
{
    if (spec.net == NULL)
        return 0;
    const size_t count = spec.net->parameter_count;
    return best_bytes(spec) + sizeof(struct weights) + OWN_TEXTS * OWN_TEXT_BYTES + weights_about_bytes(spec.net) +
           tensor_writer_bytes(spec.net->parameter_count) + count * sizeof(uint32_t) +
           float_count(spec) * sizeof(float);
}

size_t weights_file_bytes(const struct net *net)
{
    return weights_bytes((struct weights_spec){ .net = net });
}

/* ---- opening ---- */

static int take_room(struct weights *weights)
{
    const size_t count = weights->spec.net->parameter_count, data_bytes = float_count(weights->spec) * sizeof(float);
    weights->parameters = calloc(count + 1, sizeof(*weights->parameters));
    weights->data = malloc(data_bytes + sizeof(float));
    const bool converts = weights->spec.best_settings != NULL && weights->spec.borrows;
    if (converts)
        weights->between = malloc(net_most_numbers(weights->spec.net) * sizeof(float) + sizeof(float));
    if (weights->parameters == NULL || weights->data == NULL || (converts && weights->between == NULL))
        return -ENOMEM;
    memset(weights->data, 0, data_bytes);       /* the kernel allocates the pages at the first write */
    return tensor_writer_open(&weights->file, weights->spec.net->parameter_count,
                              OWN_TEXTS + BEST_TEXTS + WEIGHTS_ABOUT_TEXTS,
                              SAFETENSORS_ALIGNMENT);
}

/* The position of a parameter in the order of names. */
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
        weights->parameters[place] = i;
        tensor_writer_name(&weights->file, place, net->parameters[i].name, &net->parameters[i], 0);
    }
}

static int make_header(struct weights *weights, uint64_t count)
{
    char steps[24];
    const struct safetensors_text texts[OWN_TEXTS] = { { "format", "pt" }, { WEIGHTS_STEPS, steps } };
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(weights->about, &about_count);
    snprintf(steps, sizeof(steps), "%" PRIu64, count);
    return tensor_writer_head(&weights->file, texts, OWN_TEXTS, about, about_count);
}

static int make_best_header(struct weights *weights, const struct checkpoint_metadata *metadata)
{
    char steps[24], position[72], epoch[16], value[DECIMAL_SIZE] = "";
    const struct safetensors_text texts[OWN_TEXTS + BEST_TEXTS] = {
        { "format", "pt" },
        { WEIGHTS_STEPS, steps },
        { WEIGHTS_EPOCH, epoch },
        { WEIGHTS_BEST_BY, metadata->best_by },
        { WEIGHTS_BEST_VALUE, value },
        { CHECKPOINT_KEY_SETTINGS, weights->spec.best_settings },
        { CHECKPOINT_KEY_POSITION, position },
        { CHECKPOINT_KEY_PROGRESS, metadata->progress },
    };
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(weights->about, &about_count);
    snprintf(steps, sizeof(steps), "%" PRIu64, metadata->position.step);
    checkpoint_position_write(metadata->position, position, sizeof(position));
    snprintf(epoch, sizeof(epoch), "%" PRIu32, checkpoint_epoch(metadata->position));
    if (isfinite(metadata->best_value))
        decimal_write(metadata->best_value, value, sizeof(value));
    return tensor_writer_head(&weights->file, texts, OWN_TEXTS + BEST_TEXTS, about, about_count);
}

/* Make the longest header that a file may need. */
static int make_longest_header(struct weights *weights)
{
    struct checkpoint_metadata most = { .position = { UINT32_MAX - 1, UINT64_MAX, UINT64_MAX },
                                        .best_by = "a measure with a longer name than any", .best_value = -DBL_MIN };
    memset(most.progress, '0', sizeof(most.progress) - 1);
    return weights->spec.best_settings != NULL ? make_best_header(weights, &most) : make_header(weights, UINT64_MAX);
}

int weights_open(struct weights **weights_out, struct weights_spec spec, const struct pixels_text *pixels)
{
    struct weights *const weights = calloc(1, sizeof(*weights));
    if (weights == NULL)
        return -ENOMEM;
    weights->spec = spec;
    int rc = take_room(weights);
    if (rc == 0) {
        name_tensors(weights);
        rc = weights_about_open(&weights->about, spec.net, pixels);
    }
    if (rc == 0 && spec.learned != NULL)
        weights_about_learned(weights->about, spec.learned);
    if (rc == 0)
        rc = make_longest_header(weights);
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
    return make_longest_header(weights);
}

int weights_name_shards(struct weights *weights, const char text[static WEIGHTS_SHARDS_BYTES])
{
    struct weights_about *const about = weights->about;
    memcpy(about->trained_on, text, sizeof(about->trained_on));
    add_text(about, WEIGHTS_SHARDS, about->trained_on);
    return make_longest_header(weights);
}

const struct weights_about *weights_about(const struct weights *weights)
{
    return weights->about;
}

void weights_close(struct weights *weights)
{
    if (weights == NULL)
        return;
    tensor_writer_close(&weights->file);
    weights_about_close(weights->about);
    free(weights->between);
    free(weights->data);
    free(weights->parameters);
    free(weights);
}

/* ---- saving ---- */

/* The memory of a parameter's gradients: a tower stores them in the layout of its weights, which needs at least as much
 * space as plain floats. */
static float *gradients_of(uint32_t parameter, struct tower *tower)
{
    const struct arena_range *const range = &tower_arena(tower)->ranges[parameter];
    assert(tower_gradients(tower) != NULL && tower_spec(tower)->device->ops->host_memory);
    assert(range->count >= tower_spec(tower)->net->parameters[parameter].count);
    return tower_gradients(tower) + range->offset;
}

/* Read all tensors, up to the first one that is not finite; nothing is written then. */
static int read_tensors(struct weights *weights, struct tower *tower)
{
    struct tensor_writer *const file = &weights->file;
    float *next = weights->data;
    int rc = 0;
    for (uint32_t i = 0; i < file->count && rc == 0 && file->broken == NULL; i++) {
        const uint32_t parameter = weights->parameters[i];
        const bool borrows = is_borrowed(weights->spec, parameter);
        float *const data = borrows ? gradients_of(parameter, tower) : next;
        next += borrows ? 0 : weights->spec.net->parameters[parameter].count;
        rc = tower_read(tower, parameter, data);
        if (rc == 0)
            tensor_writer_put(file, i, data, true);
    }
    return rc == 0 || rc == -ENOMEM ? rc : -EREMOTEIO;
}

/* Convert a parameter of the snapshot: into `next`, or within the snapshot if only one at a time has room elsewhere. */
static int take_plain(struct weights *weights, struct snapshot *snapshot, uint32_t parameter, float *next,
                      const float **plain_out)
{
    if (weights->between != NULL)
        return snapshot_value_in_place(snapshot, parameter, weights->between, plain_out);
    *plain_out = next;
    return snapshot_value(snapshot, parameter, next);
}

static int read_snapshot(struct weights *weights, struct snapshot *snapshot)
{
    struct tensor_writer *const file = &weights->file;
    float *next = weights->data;
    int rc = 0;
    for (uint32_t i = 0; i < file->count && rc == 0; i++) {
        const uint32_t parameter = weights->parameters[i];
        const float *plain;
        rc = take_plain(weights, snapshot, parameter, next, &plain);
        if (rc == 0)
            tensor_writer_put(file, i, plain, true);
        next += weights->between != NULL ? 0 : weights->spec.net->parameters[parameter].count;
    }
    return rc == 0 || rc == -ENOMEM ? rc : -EREMOTEIO;
}

int weights_save_best(struct weights *weights, struct run_directory *directory, struct snapshot *snapshot,
                      const struct checkpoint_metadata *metadata, const char **broken_out)
{
    struct tensor_writer *const writer = &weights->file;
    writer->broken = NULL;
    int rc = read_snapshot(weights, snapshot);
    *broken_out = writer->broken;
    if (writer->broken != NULL)
        return -EDOM;
    if (rc == 0)
        rc = make_best_header(weights, metadata);
    if (rc != 0)
        return rc;
    tensor_writer_join(writer);
    return whole_file_write(run_directory_fd(directory), CHECKPOINT_BEST_FILE, writer->parts, writer->part_count);
}

int weights_save(struct weights *weights, struct run_directory *directory, const char *file, struct tower *tower,
                 uint64_t steps, const char **broken_out)
{
    struct tensor_writer *const writer = &weights->file;
    writer->broken = NULL;
    int rc = read_tensors(weights, tower);
    if (writer->broken != NULL) {
        *broken_out = writer->broken;
        return -EDOM;
    }
    if (rc == 0)
        rc = make_header(weights, steps);
    if (rc != 0)
        return rc;
    tensor_writer_join(writer);
    return whole_file_write(run_directory_fd(directory), file, writer->parts, writer->part_count);
}
