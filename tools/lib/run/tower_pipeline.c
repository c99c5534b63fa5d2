/* Opens and closes a tower's part of the pipeline. */
#include "tools/lib/run/tower_pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/lib/run/run_plan.h"

int tower_pipeline_open(struct tower_pipeline *tower, const struct run_devices *devices, uint32_t d)
{
    const struct device_ops *const ops = devices->ops;
    const uint32_t device = run_devices_index(devices, d);
    tower->index = devices->towers.first + d;
    snprintf(tower->device_name, sizeof(tower->device_name), "%s%u", ops->kind, device);
    snprintf(tower->trainer_name, sizeof(tower->trainer_name), "tower%u", tower->index);
    snprintf(tower->feeder_name, sizeof(tower->feeder_name), "feeder%u", tower->index);
    const struct device_spec spec = { .index = device, .name = tower->device_name };
    int rc = ops->open(&tower->device, &spec);
    if (rc == 0)
        rc = ops->stream_open(tower->device, STREAM_COMPUTE, "compute", &tower->compute);
    if (rc == 0)
        rc = ops->stream_open(tower->device, STREAM_COMMUNICATION, "reduce", &tower->communication);
    if (rc == 0 && !ops->host_memory)
        rc = ops->stream_open(tower->device, STREAM_COMMUNICATION, "results", &tower->results);
    return rc;
}

int tower_pipeline_open_ring(struct tower_pipeline *tower, uint32_t depth, const struct batch_layout *layout)
{
    tower->blocks = calloc(depth, sizeof(*tower->blocks));
    if (tower->blocks == NULL)
        return -ENOMEM;
    tower->depth = depth;
    for (uint32_t i = 0; i < depth; i++) {
        const int rc = tower->device->ops->alloc_pinned(tower->device, layout->block_bytes, &tower->blocks[i]);
        if (rc != 0)
            return rc;
    }
    return ring_open(&tower->ring, depth, layout, tower->blocks);
}

int tower_pipeline_choose_cpus(struct tower_pipeline *tower, const struct settings *settings, uint32_t threads,
                               uint32_t d)
{
    tower->cpus = calloc(threads, sizeof(*tower->cpus));
    if (tower->cpus == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < threads; i++)
        tower->cpus[i] = run_plan_cpu(settings, d * threads + i);
    return 0;
}

void tower_pipeline_close_stream(struct stream **stream)
{
    if (*stream != NULL)
        (*stream)->device->ops->stream_close(*stream);
    *stream = NULL;
}

void tower_pipeline_close(struct tower_pipeline *tower)
{
    if (tower->device == NULL)
        return;
    slots_close(tower->slots);
    ring_close(tower->ring);
    for (uint32_t i = 0; i < tower->depth; i++)
        if (tower->blocks[i] != NULL)
            tower->device->ops->free_pinned(tower->device, tower->blocks[i]);
    free(tower->blocks);
    free(tower->cpus);
    tower_pipeline_close_stream(&tower->compute);
}
