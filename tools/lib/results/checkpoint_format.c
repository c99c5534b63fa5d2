/* The tensors of a checkpoint, and the names of files. */
#include "tools/lib/results/checkpoint_format.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "stage/text/decimal.h"

#define FILE_BEGINS "checkpoint-"
#define FILE_ENDS ".safetensors"

void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES])
{
    snprintf(name_out, CHECKPOINT_FILE_BYTES, FILE_BEGINS "%08" PRIu64 FILE_ENDS, step);
}

uint64_t checkpoint_file_step(const char *name)
{
    char again[CHECKPOINT_FILE_BYTES];
    uint64_t step;
    if (strncmp(name, FILE_BEGINS, strlen(FILE_BEGINS)) != 0 ||
        decimal_u64_start(name + strlen(FILE_BEGINS), &step) == NULL)
        return UINT64_MAX;
    checkpoint_file_name(step, again);
    return strcmp(name, again) == 0 ? step : UINT64_MAX;
}

void checkpoint_position_write(struct position position, char *text_out, size_t text_size)
{
    snprintf(text_out, text_size, "%" PRIu32 " %" PRIu64 " %" PRIu64, position.epoch, position.step,
             position.evaluated);
}

int checkpoint_position_read(struct position *position_out, const char *text)
{
    uint64_t epoch;
    struct position position;
    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &epoch, &position.step, &position.evaluated) != 3 ||
        epoch > UINT32_MAX)
        return -EINVAL;
    position.epoch = (uint32_t)epoch;
    *position_out = position;
    return 0;
}

/* A shorter last epoch has no position in a next one. */
uint32_t checkpoint_epoch(struct position position)
{
    return position.evaluated > 0 ? position.epoch + 1 : position.epoch;
}

/* ---- tensors ---- */

void checkpoint_name(const struct net *net, struct checkpoint_place place, char name_out[TENSOR_NAME_BYTES])
{
    char tower[24] = "", state[24] = "";
    if (place.tower > 0)
        snprintf(tower, sizeof(tower), "tower.%u.", place.tower);
    if (place.part == CHECKPOINT_STATE)
        snprintf(state, sizeof(state), "optim.%u.", place.state);
    else if (place.part == CHECKPOINT_RAW)
        snprintf(state, sizeof(state), "raw.");
    snprintf(name_out, TENSOR_NAME_BYTES, "%s%s%s", tower, state,
             place.part == CHECKPOINT_CARRIED ? "carried" : net->parameters[place.parameter].name);
}

bool checkpoint_name_is_state(const char *name)
{
    static const char *const prefixes[] = { "optim.", "raw.", "tower.", "carried" };
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

bool checkpoint_has(const struct checkpoint_shape *shape, struct checkpoint_place place)
{
    if (place.tower > 0 && shape->is_same)
        return false;
    if (place.part == CHECKPOINT_CARRIED)
        return shape->carried_bytes > 0;
    const struct parameter *const parameter = &shape->net->parameters[place.parameter];
    if (place.part == CHECKPOINT_RAW && !shape->averages)
        return false;
    if (place.part == CHECKPOINT_STATE && !parameter_is_updated(parameter))
        return false;
    return place.tower == 0 || !parameter->is_trained || (shape->weights_differ && !parameter->is_frozen);
}

bool checkpoint_is_here(const struct checkpoint_shape *shape, uint32_t tower)
{
    return shape->here.count == 0 || (tower >= shape->here.first && tower - shape->here.first < shape->here.count);
}

/* The pieces of a parameter. */
static uint32_t piece_count(const struct checkpoint_shape *shape, uint32_t parameter)
{
    const bool is_divided = shape->parts.all > 0 && shape->net->parameters[parameter].layer >= shape->parts.first;
    return is_divided ? shape->parts.all : 1;
}

bool checkpoint_has_others(const struct checkpoint_shape *shape)
{
    bool has = checkpoint_has(shape, (struct checkpoint_place){ CHECKPOINT_CARRIED, 1, 0, 0, 0 });
    for (uint32_t i = 0; i < shape->net->parameter_count; i++)
        has = has || checkpoint_has(shape, (struct checkpoint_place){ CHECKPOINT_VALUE, 1, 0, i, 0 });
    return shape->towers > 1 && (has || shape->parts.all > 0);
}

uint32_t checkpoint_snapshots(const struct checkpoint_shape *shape)
{
    const uint32_t here = shape->here.count > 0 ? shape->here.count : shape->towers;
    return shape->is_same && shape->parts.all == 0 ? shape->here.first == 0 : here;
}

static uint32_t tensors_most(const struct checkpoint_shape *shape)
{
    const uint32_t towers = shape->is_same ? 1 : shape->towers;
    return towers * (shape->net->parameter_count * (2 + shape->states) + 1);
}

static uint32_t pieces_most(const struct checkpoint_shape *shape)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < shape->net->parameter_count; i++)
        more += (piece_count(shape, i) - 1) * (2 + shape->states);
    return tensors_most(shape) + more;
}

size_t checkpoint_layout_bytes(const struct checkpoint_shape *shape)
{
    return (tensors_most(shape) + 1u) * sizeof(struct checkpoint_tensor) +
           (pieces_most(shape) + 1u) * sizeof(struct checkpoint_piece);
}

static void add_tensor(struct checkpoint_layout *layout, const struct checkpoint_shape *shape,
                       struct checkpoint_place place)
{
    if (!checkpoint_has(shape, place))
        return;
    struct checkpoint_tensor *const tensor = &layout->tensors[layout->count++];
    tensor->place = place;
    tensor->bytes = place.part == CHECKPOINT_CARRIED ? shape->carried_bytes
                                                     : shape->net->parameters[place.parameter].count * sizeof(float);
    checkpoint_name(shape->net, place, tensor->name);
    layout->bytes += tensor->bytes;
}

static void add_tower(struct checkpoint_layout *layout, const struct checkpoint_shape *shape, uint32_t tower)
{
    for (uint32_t i = 0; i < shape->net->parameter_count; i++) {
        add_tensor(layout, shape, (struct checkpoint_place){ CHECKPOINT_VALUE, tower, 0, i, 0 });
        add_tensor(layout, shape, (struct checkpoint_place){ CHECKPOINT_RAW, tower, 0, i, 0 });
        for (uint32_t s = 0; s < shape->states; s++)
            add_tensor(layout, shape, (struct checkpoint_place){ CHECKPOINT_STATE, tower, s, i, 0 });
    }
}

static void add_pieces(struct checkpoint_layout *layout, const struct checkpoint_shape *shape, uint32_t tensor)
{
    const struct checkpoint_tensor *const whole = &layout->tensors[tensor];
    const bool is_carried = whole->place.part == CHECKPOINT_CARRIED;
    const uint32_t count = is_carried ? 1 : piece_count(shape, whole->place.parameter);
    for (uint32_t i = 0; i < count; i++) {
        struct checkpoint_piece *const piece = &layout->pieces[layout->piece_count++];
        *piece = (struct checkpoint_piece){ .tensor = tensor, .place = whole->place, .bytes = whole->bytes / count };
        piece->place.piece = i;
        if (count > 1)
            piece->place.tower = i / (count / shape->towers);
    }
}

static int compare_names(const void *a, const void *b)
{
    const struct checkpoint_tensor *const left = a, *const right = b;
    return strcmp(left->name, right->name);
}

/* Carried data, which are bytes, come last, so that floats are aligned. */
int checkpoint_layout_open(struct checkpoint_layout *layout, const struct checkpoint_shape *shape)
{
    *layout = (struct checkpoint_layout){
        .tensors = calloc(tensors_most(shape) + 1u, sizeof(*layout->tensors)),
        .pieces = calloc(pieces_most(shape) + 1u, sizeof(*layout->pieces)),
    };
    if (layout->tensors == NULL || layout->pieces == NULL) {
        checkpoint_layout_close(layout);
        return -ENOMEM;
    }
    for (uint32_t t = 0; t < shape->towers; t++)
        add_tower(layout, shape, t);
    for (uint32_t t = 0; t < shape->towers; t++)
        add_tensor(layout, shape, (struct checkpoint_place){ CHECKPOINT_CARRIED, t, 0, 0, 0 });
    if (shape->by_name)
        qsort(layout->tensors, layout->count, sizeof(*layout->tensors), compare_names);
    for (uint32_t i = 0; i < layout->count; i++)
        add_pieces(layout, shape, i);
    return 0;
}

void checkpoint_layout_close(struct checkpoint_layout *layout)
{
    free(layout->tensors);
    free(layout->pieces);
    *layout = (struct checkpoint_layout){ .count = 0 };
}

/* ---- the hash of the header ---- */

/* The position of the hash in the header; NULL: there is none. */
static char *find_hash(char *header, size_t bytes)
{
    static const char key[] = "\"" CHECKPOINT_KEY_HEADER "\":\"";
    char *const place = memmem(header, bytes, key, sizeof(key) - 1);
    if (place == NULL || (size_t)(header + bytes - place) < sizeof(key) - 1 + TENSOR_HASH_DIGITS)
        return NULL;
    return place + sizeof(key) - 1;
}

void checkpoint_header_seal(char *header, size_t bytes)
{
    char *const place = find_hash(header, bytes);
    assert(place != NULL && memcmp(place, CHECKPOINT_NO_HASH, TENSOR_HASH_DIGITS) == 0);
    const struct tensor_hash hash = tensor_hash_of("", XXH3_64bits(header, bytes));
    memcpy(place, hash.text, TENSOR_HASH_DIGITS);
}

bool checkpoint_header_is_intact(char *header, size_t bytes)
{
    char *const place = find_hash(header, bytes);
    char found[TENSOR_HASH_DIGITS];
    if (place == NULL)
        return false;
    memcpy(found, place, sizeof(found));
    memset(place, '0', sizeof(found));
    checkpoint_header_seal(header, bytes);
    return memcmp(place, found, sizeof(found)) == 0;
}

/* ---- tensors in snapshots ---- */

static struct snapshot *snapshot_of(const struct checkpoint_shape *shape, struct checkpoint_place place,
                                    struct snapshot *const *snapshots)
{
    assert(checkpoint_is_here(shape, place.tower));
    return snapshots[place.tower - shape->here.first];
}

bool checkpoint_has_room(const struct checkpoint_shape *shape, struct checkpoint_place place)
{
    return shape->stays && checkpoint_is_here(shape, place.tower) && place.part != CHECKPOINT_CARRIED &&
           shape->net->parameters[place.parameter].is_trained;
}

void *checkpoint_room(const struct checkpoint_shape *shape, struct checkpoint_place place,
                      struct snapshot *const *snapshots)
{
    if (!checkpoint_has_room(shape, place))
        return NULL;
    const struct snapshot *const snapshot = snapshot_of(shape, place, snapshots);
    const uint32_t parameter = snapshot_parameter(snapshot, place.parameter, place.piece);
    return place.part == CHECKPOINT_STATE ? snapshot_state_room(snapshot, place.state, parameter)
                                          : snapshot_value_room(snapshot, parameter);
}

int checkpoint_take(const struct checkpoint_shape *shape, struct checkpoint_place place,
                    struct snapshot *const *snapshots, void *out)
{
    const struct snapshot *const snapshot = snapshot_of(shape, place, snapshots);
    size_t bytes;
    if (place.part == CHECKPOINT_CARRIED) {
        const void *const carried = snapshot_carried(snapshot, &bytes);
        memcpy(out, carried, bytes);
        return 0;
    }
    const uint32_t parameter = snapshot_parameter(snapshot, place.parameter, place.piece);
    if (place.part == CHECKPOINT_VALUE && shape->averages)
        return snapshot_average(snapshot, parameter, out);
    if (place.part == CHECKPOINT_STATE)
        return snapshot_state(snapshot, place.state, parameter, out);
    return snapshot_value(snapshot, parameter, out);
}

int checkpoint_take_in_place(const struct checkpoint_shape *shape, struct checkpoint_place place,
                             struct snapshot *const *snapshots, float *between, const float **plain_out)
{
    struct snapshot *const snapshot = snapshot_of(shape, place, snapshots);
    const uint32_t parameter = snapshot_parameter(snapshot, place.parameter, place.piece);
    return snapshot_value_in_place(snapshot, parameter, between, plain_out);
}

int checkpoint_read(const struct checkpoint_shape *shape, struct checkpoint_place place, struct tower *const *towers,
                    float *out)
{
    assert(checkpoint_is_here(shape, place.tower) && place.part == CHECKPOINT_VALUE);
    struct tower *const tower = towers[place.tower - shape->here.first];
    return tower_read_piece(tower, tower_part(tower, place.parameter, place.piece), out);
}
