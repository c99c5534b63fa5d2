/* Opening and closing the parts of one tower. */
#include "tools/run/lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/run/run_plan.h"

int lane_open(struct lane *lane, const struct device_plan *devices, uint32_t d)
{
    const struct device_ops *const ops = devices->ops;
    const uint32_t index = device_plan_index(devices, d);
    lane->tower = devices->towers.first + d;
    snprintf(lane->device_name, sizeof(lane->device_name), "%s%u", ops->kind, index);
    snprintf(lane->trainer_name, sizeof(lane->trainer_name), "tower%u", lane->tower);
    snprintf(lane->feeder_name, sizeof(lane->feeder_name), "feeder%u", lane->tower);
    const struct device_spec spec = { .index = index, .name = lane->device_name };
    int rc = ops->open(&lane->device, &spec);
    if (rc == 0)
        rc = ops->stream_open(lane->device, STREAM_COMPUTE, "compute", &lane->compute);
    if (rc == 0)
        rc = ops->stream_open(lane->device, STREAM_COMMUNICATION, "reduce", &lane->communication);
    return rc;
}

int lane_open_ring(struct lane *lane, uint32_t depth, const struct batch_layout *layout)
{
    lane->blocks = calloc(depth, sizeof(*lane->blocks));
    if (lane->blocks == NULL)
        return -ENOMEM;
    lane->depth = depth;
    for (uint32_t i = 0; i < depth; i++) {
        const int rc = lane->device->ops->alloc_pinned(lane->device, layout->block_bytes, &lane->blocks[i]);
        if (rc != 0)
            return rc;
    }
    return ring_open(&lane->ring, depth, layout, lane->blocks);
}

int lane_choose_cpus(struct lane *lane, uint32_t threads, uint32_t d)
{
    lane->cpus = calloc(threads, sizeof(*lane->cpus));
    if (lane->cpus == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < threads; i++)
        lane->cpus[i] = run_plan_cpu(d * threads + i);
    return 0;
}

void lane_close_stream(struct stream **stream)
{
    if (*stream != NULL)
        (*stream)->device->ops->stream_close(*stream);
    *stream = NULL;
}

void lane_close(struct lane *lane)
{
    if (lane->device == NULL)
        return;
    slots_close(lane->slots);
    ring_close(lane->ring);
    for (uint32_t i = 0; i < lane->depth; i++)
        if (lane->blocks[i] != NULL)
            lane->device->ops->free_pinned(lane->device, lane->blocks[i]);
    free(lane->blocks);
    free(lane->cpus);
    lane_close_stream(&lane->compute);
}
