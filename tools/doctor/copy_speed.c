/* Copies of some megabytes between events. */
#include "tools/doctor/copy_speed.h"

#include <stdio.h>

#define BYTES ((size_t)32 << 20)
#define COPIES 4u

/* A device with what copies take. */
struct place {
    char name[24];
    struct device *device;
    struct stream *stream;
    struct event *begun, *ended;
    void *memory, *pinned;
};

static int open_place(struct place *place, const struct device_ops *ops, uint32_t index)
{
    *place = (struct place){ .device = NULL };
    snprintf(place->name, sizeof(place->name), "%s%u", ops->kind, index);
    const struct device_spec spec = { .index = index, .name = place->name };
    int rc = ops->open(&place->device, &spec);
    if (rc != 0) {
        place->device = NULL;
        return rc;
    }
    rc = ops->stream_open(place->device, STREAM_COPY, "doctor", &place->stream);
    if (rc == 0)
        rc = ops->event_open(place->device, EVENT_TIMED, &place->begun);
    if (rc == 0)
        rc = ops->event_open(place->device, EVENT_TIMED, &place->ended);
    if (rc == 0)
        rc = ops->alloc(place->device, BYTES, &place->memory);
    return rc != 0 ? rc : ops->alloc_pinned(place->device, BYTES, &place->pinned);
}

static void close_place(struct place *place)
{
    if (place->device == NULL)
        return;
    const struct device_ops *const ops = place->device->ops;
    if (place->stream != NULL)
        ops->stream_close(place->stream);
    if (place->begun != NULL)
        ops->event_close(place->begun);
    if (place->ended != NULL)
        ops->event_close(place->ended);
    ops->free(place->device, place->memory);
    ops->free_pinned(place->device, place->pinned);
    ops->close(place->device);
}

/* Bytes per second of copies to a place; the first one, which may set things up, is not counted. 0: failed. */
static double measure(struct place *to, const void *from, enum copy_direction direction)
{
    const struct device_ops *const ops = to->device->ops;
    uint64_t elapsed_ns = 0;
    int rc = ops->copy(to->stream, to->memory, from, BYTES, direction);
    if (rc == 0)
        rc = ops->record(to->stream, to->begun);
    for (uint32_t i = 0; i < COPIES && rc == 0; i++)
        rc = ops->copy(to->stream, to->memory, from, BYTES, direction);
    if (rc == 0)
        rc = ops->record(to->stream, to->ended);
    if (rc == 0)
        rc = ops->event_wait(to->ended);
    if (rc == 0)
        rc = ops->event_elapsed(to->begun, to->ended, &elapsed_ns);
    return rc == 0 && elapsed_ns > 0 ? (double)(COPIES * BYTES) * 1e9 / (double)elapsed_ns : 0;
}

static void measure_pair(struct place *places, uint32_t from, uint32_t to, struct copy_speeds *speeds)
{
    const struct device_ops *const ops = places[to].device->ops;
    speeds->reaches[to][from] = ops->reaches(to, from);
    if (speeds->reaches[to][from] && ops->connect(places[to].device, places[from].device) != 0)
        return;
    speeds->between[from][to] = measure(&places[to], places[from].memory, COPY_ON_DEVICE);
}

void copy_speeds_measure(const struct device_ops *ops, uint32_t count, struct copy_speeds *speeds_out)
{
    struct place places[COPY_SPEED_DEVICES_MAX];
    bool are_open[COPY_SPEED_DEVICES_MAX];
    *speeds_out = (struct copy_speeds){ .count = count < COPY_SPEED_DEVICES_MAX ? count : COPY_SPEED_DEVICES_MAX };
    for (uint32_t i = 0; i < speeds_out->count; i++)
        are_open[i] = open_place(&places[i], ops, i) == 0;
    for (uint32_t i = 0; i < speeds_out->count; i++)
        speeds_out->to[i] = are_open[i] ? measure(&places[i], places[i].pinned, COPY_TO_DEVICE) : 0;
    for (uint32_t from = 0; from < speeds_out->count; from++)
        for (uint32_t to = 0; to < speeds_out->count; to++)
            if (from != to && are_open[from] && are_open[to])
                measure_pair(places, from, to, speeds_out);
    for (uint32_t i = 0; i < speeds_out->count; i++)
        close_place(&places[i]);
}
