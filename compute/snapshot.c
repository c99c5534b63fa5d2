/* A tower's state on the host. Queued from the tower's thread, read by whoever saves it. */
#include "compute/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define PART_ALIGNMENT ((size_t)64)

/* What a state consists of. The optimizer's buffers are the last. */
enum part_kind {
    PART_WEIGHTS,
    PART_STATISTICS,
    PART_CARRIED,
    PART_STATES,
    PART_COUNT = PART_STATES + OPTIMIZER_STATES_MAX
};

/* Memory of the device, and where its copy lies in the block. */
struct part { const void *memory; size_t bytes, offset; };

struct snapshot {
    struct tower *tower;        /* lent */
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

/* Returns the bytes of all, with what lies between them; at least a little. */
static size_t find_parts(struct tower *tower, struct part parts[PART_COUNT])
{
    const size_t arena_bytes = tower_arena(tower)->count * sizeof(float);
    const uint32_t states = optimizer_state_count(tower_spec(tower)->optimizer.kind);
    size_t offset = 0;
    parts[PART_WEIGHTS] = (struct part){ .memory = tower_weights(tower), .bytes = arena_bytes };
    parts[PART_STATISTICS] = (struct part){ .memory = tower_statistics(tower),
                                            .bytes = tower_statistics_count(tower) * sizeof(float) };
    parts[PART_CARRIED].memory = find_carried(tower, &parts[PART_CARRIED].bytes);
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        parts[PART_STATES + i] = (struct part){ tower_state(tower, i), .bytes = i < states ? arena_bytes : 0 };
    for (int i = 0; i < PART_COUNT; i++) {
        parts[i].offset = offset;
        offset += (parts[i].bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    }
    return offset > 0 ? offset : PART_ALIGNMENT;
}

size_t snapshot_bytes(struct tower *tower)
{
    struct part parts[PART_COUNT];
    return find_parts(tower, parts);
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
    const int rc = device->ops->alloc_pinned(device, find_parts(snapshot->tower, snapshot->parts), &block);
    if (rc != 0)
        return rc;
    snapshot->block = block;
    return device->ops->event_open(device, EVENT_ORDER, &snapshot->copied);
}

int snapshot_open(struct snapshot **snapshot_out, struct tower *tower)
{
    struct snapshot *const snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL)
        return -ENOMEM;
    snapshot->tower = tower;
    const int rc = open_block(snapshot, tower_spec(tower)->device);
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
    int rc = 0;
    for (int i = 0; i < PART_COUNT && rc == 0; i++) {
        const struct part *const part = &snapshot->parts[i];
        if (part->bytes > 0)
            rc = spec->device->ops->copy(spec->compute, snapshot->block + part->offset, part->memory,
                                         part->bytes, COPY_FROM_DEVICE);
    }
    return rc == 0 ? stream_record(spec->compute, snapshot->copied) : rc;
}

int snapshot_wait(struct snapshot *snapshot)
{
    return tower_spec(snapshot->tower)->device->ops->event_wait(snapshot->copied);
}

static int read_plain(const struct snapshot *snapshot, int kind, uint32_t parameter, float *plain_out)
{
    const struct part *const part = &snapshot->parts[kind];
    const float *const arena = (const float *)(const void *)(snapshot->block + part->offset);
    const struct arena_range *const range = &tower_arena_of(snapshot->tower, parameter)->ranges[parameter];
    assert(part->bytes >= (range->offset + range->count) * sizeof(float));
    return tower_spec(snapshot->tower)->backend->plain(tower_backend(snapshot->tower), parameter,
                                                       arena + range->offset, plain_out);
}

int snapshot_value(const struct snapshot *snapshot, uint32_t parameter, float *plain_out)
{
    const bool is_trained = tower_spec(snapshot->tower)->net->parameters[parameter].is_trained;
    return read_plain(snapshot, is_trained ? PART_WEIGHTS : PART_STATISTICS, parameter, plain_out);
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

int snapshot_write_state(struct tower *tower, uint32_t state, uint32_t parameter, const float *plain)
{
    float *const stored = tower_state(tower, state) + tower_arena(tower)->ranges[parameter].offset;
    return tower_spec(tower)->backend->pack(tower_backend(tower), parameter, plain, stored);
}

int snapshot_write_carried(struct tower *tower, const void *carried, size_t bytes)
{
    size_t expected;
    find_carried(tower, &expected);
    if (bytes != expected)
        return -EINVAL;
    return bytes > 0 ? tower_spec(tower)->backend->carry(tower_backend(tower), carried) : 0;
}
