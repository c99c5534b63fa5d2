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
    struct checkpoint_shape shape;
    struct checkpoint_layout layout;
    struct checkpoint_source source;
    struct tensor_writer file;
    float *data;                /* buffer of all pieces that have none elsewhere, concatenated */
    float *between;             /* room for any one piece, to convert it in its snapshot; NULL: `data` has all */
};

struct checkpoint_shape weights_shape(struct weights_spec spec)
{
    return (struct checkpoint_shape){ .net = spec.net, .parts = spec.parts, .is_same = true, .by_name = true,
                                      .towers = spec.parts.all > 0 ? spec.towers : 1, .here = spec.here };
}

static bool is_borrowed(struct weights_spec spec, const struct checkpoint_shape *shape,
                        const struct checkpoint_piece *piece)
{
    return spec.borrows && checkpoint_is_here(shape, piece->place.tower) &&
           spec.net->parameters[piece->place.parameter].is_trained;
}

/* The bytes of the pieces that need a buffer. */
static size_t data_bytes(struct weights_spec spec, const struct checkpoint_shape *shape,
                         const struct checkpoint_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < layout->piece_count; i++)
        bytes += is_borrowed(spec, shape, &layout->pieces[i]) ? 0 : layout->pieces[i].bytes;
    return bytes;
}

/* The bytes of weights.between. */
static size_t between_bytes(struct weights_spec spec, const struct checkpoint_layout *layout)
{
    size_t most = 0;
    for (uint32_t i = 0; i < layout->piece_count; i++)
        most = layout->pieces[i].bytes > most ? layout->pieces[i].bytes : most;
    return spec.best_settings != NULL && spec.borrows ? most : 0;
}

size_t weights_bytes(struct weights_spec spec)
{
    const struct checkpoint_shape shape = weights_shape(spec);
    struct checkpoint_layout layout;
    if (spec.net == NULL || checkpoint_layout_open(&layout, &shape) != 0)
        return 0;
    const size_t best_bytes = spec.best_settings == NULL ? 0 : 2 * strlen(spec.best_settings) +
                                                               BEST_TEXTS * OWN_TEXT_BYTES;
    const size_t bytes = best_bytes + sizeof(struct weights) + OWN_TEXTS * OWN_TEXT_BYTES +
                         weights_about_bytes(spec.net) + checkpoint_layout_bytes(&shape) +
                         tensor_writer_bytes(layout.count, layout.piece_count) + between_bytes(spec, &layout) +
                         data_bytes(spec, &shape, &layout);
    checkpoint_layout_close(&layout);
    return bytes;
}

size_t weights_file_bytes(const struct net *net)
{
    return weights_bytes((struct weights_spec){ .net = net });
}

/* ---- opening ---- */

static int take_room(struct weights *weights)
{
    const size_t data = data_bytes(weights->spec, &weights->shape, &weights->layout);
    const size_t between = between_bytes(weights->spec, &weights->layout);
    weights->data = malloc(data + sizeof(float));
    if (between > 0)
        weights->between = malloc(between);
    if (weights->data == NULL || (between > 0 && weights->between == NULL))
        return -ENOMEM;
    memset(weights->data, 0, data);     /* the kernel allocates the pages at the first write */
    return tensor_writer_open(&weights->file, weights->layout.count, weights->layout.piece_count,
                              OWN_TEXTS + BEST_TEXTS + WEIGHTS_ABOUT_TEXTS, SAFETENSORS_ALIGNMENT);
}

static void name_tensors(struct weights *weights)
{
    for (uint32_t i = 0; i < weights->layout.count; i++) {
        const struct checkpoint_tensor *const tensor = &weights->layout.tensors[i];
        tensor_writer_name(&weights->file, i, tensor->name, &weights->spec.net->parameters[tensor->place.parameter], 0);
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
    weights->shape = weights_shape(spec);
    int rc = checkpoint_layout_open(&weights->layout, &weights->shape);
    if (rc == 0)
        rc = take_room(weights);
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

void weights_set_source(struct weights *weights, const struct checkpoint_source *source)
{
    weights->source = *source;
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
    checkpoint_layout_close(&weights->layout);
    free(weights);
}

/* ---- saving ---- */

/* Where the weights are read from: one is NULL. */
struct weights_origin {
    struct tower *const *towers;
    struct snapshot *const *snapshots;
};

/* The memory of a piece's gradients: a tower stores them in the layout of its weights, which needs at least as much
 * space as plain floats. */
static float *gradients_of(const struct weights *weights, const struct checkpoint_piece *piece,
                           struct tower *const *towers)
{
    struct tower *const tower = towers[piece->place.tower - weights->shape.here.first];
    const uint32_t parameter = tower_part(tower, piece->place.parameter, piece->place.piece);
    const struct arena_range *const range = &tower_arena(tower)->ranges[parameter];
    assert(tower_gradients(tower) != NULL && tower_spec(tower)->device->ops->host_memory);
    assert(range->count * sizeof(float) >= piece->bytes);
    return tower_gradients(tower) + range->offset;
}

/* Convert a piece of this process: to the memory of gradients, within its snapshot, or to `next`. */
static int take_here(const struct weights *weights, const struct checkpoint_piece *piece,
                     const struct weights_origin *origin, float *next, const float **plain_out)
{
    if (origin->snapshots != NULL && weights->between != NULL)
        return checkpoint_take_in_place(&weights->shape, piece->place, origin->snapshots, weights->between, plain_out);
    const bool borrows = origin->towers != NULL && is_borrowed(weights->spec, &weights->shape, piece);
    float *const data = borrows ? gradients_of(weights, piece, origin->towers) : next;
    *plain_out = data;
    return origin->towers != NULL ? checkpoint_read(&weights->shape, piece->place, origin->towers, data)
                                  : checkpoint_take(&weights->shape, piece->place, origin->snapshots, data);
}

static int take_piece(const struct weights *weights, const struct checkpoint_piece *piece,
                      const struct weights_origin *origin, float *next, const float **plain_out)
{
    if (checkpoint_is_here(&weights->shape, piece->place.tower))
        return take_here(weights, piece, origin, next, plain_out);
    *plain_out = next;
    return weights->source.take(weights->source.arg, piece->place.tower, next, piece->bytes);
}

/* Read all pieces. Those of other processes are received completely even after an error or a number that is not finite,
 * because they are sent. */
static int read_pieces(struct weights *weights, const struct weights_origin *origin)
{
    float *next = weights->data;
    int rc = 0;
    tensor_writer_begin(&weights->file);
    for (uint32_t i = 0; i < weights->layout.piece_count; i++) {
        const struct checkpoint_piece *const piece = &weights->layout.pieces[i];
        const float *plain;
        const bool is_here = checkpoint_is_here(&weights->shape, piece->place.tower);
        const int taken = rc == 0 || !is_here ? take_piece(weights, piece, origin, next, &plain) : 0;
        rc = rc != 0 ? rc : taken;
        if (rc == 0)
            tensor_writer_put(&weights->file, piece->tensor, plain, piece->bytes, true);
        next += is_borrowed(weights->spec, &weights->shape, piece) ? 0 : piece->bytes / sizeof(float);
    }
    return rc == 0 || rc == -ENOMEM || rc == -ECANCELED ? rc : -EREMOTEIO;
}

static int write_file(struct weights *weights, struct run_directory *directory, const char *name)
{
    tensor_writer_join(&weights->file);
    return whole_file_write(run_directory_fd(directory), name, weights->file.parts, weights->file.part_count);
}

/* 0, or -EDOM and its name if a number is not finite. */
static int check_finite(const struct weights *weights, const char **broken_out)
{
    *broken_out = weights->file.broken;
    return weights->file.broken != NULL ? -EDOM : 0;
}

int weights_save_best(struct weights *weights, struct run_directory *directory, struct snapshot *const *snapshots,
                      const struct checkpoint_metadata *metadata, const char **broken_out)
{
    int rc = read_pieces(weights, &(struct weights_origin){ .snapshots = snapshots });
    if (rc == 0)
        rc = check_finite(weights, broken_out);
    if (rc == 0)
        rc = make_best_header(weights, metadata);
    return rc == 0 ? write_file(weights, directory, CHECKPOINT_BEST_FILE) : rc;
}

int weights_save(struct weights *weights, struct run_directory *directory, const char *file, struct tower *const *towers,
                 uint64_t steps, const char **broken_out)
{
    int rc = read_pieces(weights, &(struct weights_origin){ .towers = towers });
    if (rc == 0)
        rc = check_finite(weights, broken_out);
    if (rc == 0)
        rc = make_header(weights, steps);
    return rc == 0 ? write_file(weights, directory, file) : rc;
}
