/* Snapshots of a tower. Queued from the tower's thread, read by the thread that saves. */
#include "compute/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PART_ALIGNMENT ((size_t)64)

/* The parts of a snapshot. */
enum part_kind {
    PART_WEIGHTS,
    PART_GRADIENTS,
    PART_STATISTICS,
    PART_AVERAGES,
    PART_AVERAGED_STATISTICS,
    PART_CARRIED,
    PART_STATES,
    PART_COUNT = PART_STATES + TOWER_STATES_MAX
};

/* A range of device memory, from float `first` of an arena on, and the offset of its copy in the block; stays: it is not
 * copied. */
struct part { const void *memory; size_t first, bytes, offset; bool stays; };

struct snapshot {
    struct tower *tower;        /* lent */
    enum snapshot_kind kind;
    struct part parts[PART_COUNT];
    char *block;                /* pinned */
    struct event *copied;
};

static const void *find_carried(struct tower *tower, size_t *bytes_out)
{
    const struct backend_ops *const backend = tower_spec(tower)->backend;
    *bytes_out = 0;
    return backend->carried != NULL ? backend->carried(tower_backend(tower), bytes_out) : NULL;
}

/* Does a snapshot of this kind contain the part? All kinds contain the weights. While averages are shown they are
 * stored in the place of weights and statistics. */
static bool is_wanted(enum part_kind part, enum snapshot_kind kind)
{
    if (kind == SNAPSHOT_EVALUATED)
        return part == PART_WEIGHTS || part == PART_STATISTICS;
    return part == PART_WEIGHTS || (part == PART_GRADIENTS) == (kind == SNAPSHOT_SHOWN);
}

static bool may_stay(enum part_kind part, enum snapshot_kind kind)
{
    return kind == SNAPSHOT_LAST && (part == PART_WEIGHTS || part >= PART_STATES);
}

/* Are the things that all towers have in the snapshot of another tower? */
static bool is_rest(const struct tower *tower)
{
    return tower_has_parts(tower) && tower_spec(tower)->parts.first > 0;
}

/* Floats [first, end) of an arena, which is NULL as long as it is not allocated. */
static struct part arena_part(const float *arena, size_t first, size_t end)
{
    return (struct part){ .memory = arena != NULL ? arena + first : NULL, .first = first,
                          .bytes = (end - first) * sizeof(float) };
}

static void find_memory(struct tower *tower, struct part parts[PART_COUNT])
{
    const struct arena *const arena = tower_arena(tower);
    const uint32_t states = tower_state_count(tower_spec(tower));
    const bool has_average = tower_spec(tower)->average_decay > 0;
    const size_t first = is_rest(tower) ? arena->shared : 0;
    const size_t statistics = is_rest(tower) ? 0 : tower_statistics_count(tower);
    memset(parts, 0, PART_COUNT * sizeof(*parts));
    parts[PART_WEIGHTS] = arena_part(tower_weights(tower), first, arena->count);
    parts[PART_GRADIENTS] = arena_part(tower_gradients(tower), first, arena->updated);
    parts[PART_STATISTICS] = arena_part(tower_statistics(tower), 0, statistics);
    if (has_average) {
        parts[PART_AVERAGES] = arena_part(tower_average_weights(tower), first, arena->updated);
        parts[PART_AVERAGED_STATISTICS] = arena_part(tower_average_statistics(tower), 0, statistics);
    }
    if (!is_rest(tower))
        parts[PART_CARRIED].memory = find_carried(tower, &parts[PART_CARRIED].bytes);
    for (uint32_t i = 0; i < states; i++)
        parts[PART_STATES + i] = arena_part(tower_state(tower, i), first, arena->updated);
}

/* Returns the bytes of the block: all copied parts with their padding, never 0. */
static size_t find_parts(struct tower *tower, enum snapshot_kind kind, struct part parts[PART_COUNT])
{
    size_t offset = 0;
    find_memory(tower, parts);
    for (int i = 0; i < PART_COUNT; i++) {
        if (!is_wanted(i, kind))
            parts[i].bytes = 0;
        parts[i].stays = may_stay(i, kind);
        parts[i].offset = offset;
        offset += parts[i].stays ? 0 : (parts[i].bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    }
    return offset > 0 ? offset : PART_ALIGNMENT;
}

size_t snapshot_bytes(struct tower *tower, enum snapshot_kind kind)
{
    struct part parts[PART_COUNT];
    return find_parts(tower, kind, parts);
}

size_t snapshot_carried_bytes(struct tower *tower)
{
    size_t bytes;
    find_carried(tower, &bytes);
    return bytes;
}

static int open_block(struct snapshot *snapshot, struct device *device)
{
    void *block;
    const size_t bytes = find_parts(snapshot->tower, snapshot->kind, snapshot->parts);
    const int rc = device->ops->alloc_pinned(device, bytes, &block);
    if (rc != 0)
        return rc;
    snapshot->block = block;
    return device->ops->event_open(device, EVENT_ORDER, &snapshot->copied);
}

int snapshot_open(struct snapshot **snapshot_out, struct tower *tower, enum snapshot_kind kind)
{
    const struct tower_spec *const spec = tower_spec(tower);
    assert(kind != SNAPSHOT_LAST ||
           (spec->device->ops->host_memory && spec->average_decay <= 0 && !spec->defers));
    struct snapshot *const snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL)
        return -ENOMEM;
    *snapshot = (struct snapshot){ .tower = tower, .kind = kind };
    const int rc = open_block(snapshot, spec->device);
    if (rc != 0) {
        snapshot_close(snapshot);
        return rc;
    }
    *snapshot_out = snapshot;
    return 0;
}

void snapshot_close(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    struct device *const device = tower_spec(snapshot->tower)->device;
    if (snapshot->copied != NULL)
        device->ops->event_close(snapshot->copied);
    if (snapshot->block != NULL)
        device->ops->free_pinned(device, snapshot->block);
    free(snapshot);
}

int snapshot_queue(struct snapshot *snapshot)
{
    const struct tower_spec *const spec = tower_spec(snapshot->tower);
    int rc = tower_show_average(snapshot->tower, snapshot->kind == SNAPSHOT_EVALUATED);
    for (int i = 0; i < PART_COUNT && rc == 0; i++) {
        const struct part *const part = &snapshot->parts[i];
        if (part->bytes > 0 && !part->stays)
            rc = spec->device->ops->copy(spec->compute, snapshot->block + part->offset, part->memory,
                                         part->bytes, COPY_FROM_DEVICE);
    }
    return rc == 0 ? stream_record(spec->compute, snapshot->copied) : rc;
}

struct event *snapshot_end(struct snapshot *snapshot)
{
    return snapshot->copied;
}

enum snapshot_kind snapshot_kind(const struct snapshot *snapshot)
{
    return snapshot->kind;
}

uint32_t snapshot_parameter(const struct snapshot *snapshot, uint32_t whole, uint32_t part)
{
    return tower_part(snapshot->tower, whole, part);
}

/* The offset of a parameter in a part, in floats. */
static size_t offset_in(const struct snapshot *snapshot, const struct part *part, uint32_t parameter)
{
    const struct arena_range *const range = &tower_arena_of(snapshot->tower, parameter)->ranges[parameter];
    assert(range->offset >= part->first);
    assert(part->bytes >= (range->offset - part->first + range->count) * sizeof(float));
    return range->offset - part->first;
}

static int read_plain(const struct snapshot *snapshot, int kind, uint32_t parameter, float *plain_out)
{
    const struct part *const part = &snapshot->parts[kind];
    const void *const copy = snapshot->block + part->offset;
    const float *const floats = part->stays ? part->memory : copy;
    return tower_spec(snapshot->tower)->backend->plain(tower_backend(snapshot->tower), parameter,
                                                       floats + offset_in(snapshot, part, parameter), plain_out);
}

static bool is_trained(const struct tower *tower, uint32_t parameter)
{
    return tower_net(tower)->parameters[parameter].is_trained;
}

static float *find_room(const struct snapshot *snapshot, float *arena, uint32_t parameter)
{
    if (snapshot->kind != SNAPSHOT_LAST || !is_trained(snapshot->tower, parameter))
        return NULL;
    return arena + tower_arena(snapshot->tower)->ranges[parameter].offset;
}

float *snapshot_value_room(const struct snapshot *snapshot, uint32_t parameter)
{
    return find_room(snapshot, tower_gradients(snapshot->tower), parameter);
}

float *snapshot_state_room(const struct snapshot *snapshot, uint32_t state, uint32_t parameter)
{
    struct tower *const tower = snapshot->tower;
    return find_room(snapshot, state > 0 ? tower_state(tower, state - 1) : tower_weights(tower), parameter);
}

int snapshot_value(const struct snapshot *snapshot, uint32_t parameter, float *plain_out)
{
    const int kind = is_trained(snapshot->tower, parameter) ? PART_WEIGHTS : PART_STATISTICS;
    return read_plain(snapshot, kind, parameter, plain_out);
}

/* The stored form has at least as many floats as the plain one. */
int snapshot_value_in_place(struct snapshot *snapshot, uint32_t parameter, float *between, const float **plain_out)
{
    const int kind = is_trained(snapshot->tower, parameter) ? PART_WEIGHTS : PART_STATISTICS;
    const struct part *const part = &snapshot->parts[kind];
    const size_t count = tower_net(snapshot->tower)->parameters[parameter].count;
    void *const stored = snapshot->block + part->offset + offset_in(snapshot, part, parameter) * sizeof(float);
    assert(snapshot->kind == SNAPSHOT_EVALUATED);
    assert(tower_arena_of(snapshot->tower, parameter)->ranges[parameter].count >= count);
    const int rc = snapshot_value(snapshot, parameter, between);
    if (rc == 0)
        memcpy(stored, between, count * sizeof(float));
    *plain_out = stored;
    return rc;
}

int snapshot_gradient(const struct snapshot *snapshot, uint32_t parameter, float *plain_out)
{
    return read_plain(snapshot, PART_GRADIENTS, parameter, plain_out);
}

static bool is_frozen(const struct tower *tower, uint32_t parameter)
{
    return is_trained(tower, parameter) && !parameter_is_updated(&tower_net(tower)->parameters[parameter]);
}

/* The average of a frozen weight is the weight itself. */
int snapshot_average(const struct snapshot *snapshot, uint32_t parameter, float *plain_out)
{
    const int kind = is_trained(snapshot->tower, parameter) ? PART_AVERAGES : PART_AVERAGED_STATISTICS;
    if (is_frozen(snapshot->tower, parameter))
        return snapshot_value(snapshot, parameter, plain_out);
    return read_plain(snapshot, kind, parameter, plain_out);
}

int snapshot_state(const struct snapshot *snapshot, uint32_t state, uint32_t parameter, float *plain_out)
{
    return read_plain(snapshot, PART_STATES + (int)state, parameter, plain_out);
}

const void *snapshot_carried(const struct snapshot *snapshot, size_t *bytes_out)
{
    *bytes_out = snapshot->parts[PART_CARRIED].bytes;
    return snapshot->block + snapshot->parts[PART_CARRIED].offset;
}

/* Write a parameter to an arena that has the layout of its own arena. */
static int write_plain(struct tower *tower, float *arena, uint32_t parameter, const float *plain)
{
    const size_t offset = tower_arena_of(tower, parameter)->ranges[parameter].offset;
    return tower_spec(tower)->backend->pack(tower_backend(tower), parameter, plain, arena + offset);
}

int snapshot_write_state(struct tower *tower, uint32_t state, uint32_t parameter, const float *plain)
{
    return write_plain(tower, tower_state(tower, state), parameter, plain);
}

int snapshot_write_average(struct tower *tower, uint32_t parameter, const float *plain)
{
    if (is_frozen(tower, parameter))
        return 0;
    float *const average = is_trained(tower, parameter) ? tower_average_weights(tower)
                                                        : tower_average_statistics(tower);
    return write_plain(tower, average, parameter, plain);
}

int snapshot_write_carried(struct tower *tower, const void *carried, size_t bytes)
{
    size_t expected;
    find_carried(tower, &expected);
    if (bytes != expected)
        return -EINVAL;
    return bytes > 0 ? tower_spec(tower)->backend->carry(tower_backend(tower), carried) : 0;
}
