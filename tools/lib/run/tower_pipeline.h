/* The part of the pipeline that belongs to one tower: its device, its streams, and the pinned buffers of its ring. The
 * pipeline starts and ends the stages in it. Used by main only. */
#ifndef PIPETRAIN_TOWER_PIPELINE_H
#define PIPETRAIN_TOWER_PIPELINE_H

#include "stage/feeder.h"
#include "stage/ring.h"
#include "stage/slots.h"
#include "sync/trainer.h"
#include "tools/lib/run/run_devices.h"

/* Begins as all 0. */
struct tower_pipeline {
    uint32_t index;             /* of the tower in the run */
    char device_name[24], trainer_name[24], feeder_name[24];
    struct device *device;
    struct stream *compute, *communication;
    struct stream *results;             /* NULL if device memory is host memory */
    uint32_t depth;             /* the depth of the ring, in batches */
    void **blocks;              /* pinned, one for each batch */
    struct ring *ring;
    struct slots *slots;
    struct feeder *feeder;
    struct trainer *trainer;
    struct trainer_needs needs;
    uint32_t *cpus;             /* CPUs that the tower's threads are bound to; NULL: any */
};

/* Set the names, and open device and streams of the d-th tower of this process. 0 or a negative errno; call
 * tower_pipeline_close after success or failure. */
int tower_pipeline_open(struct tower_pipeline *tower, const struct run_devices *devices, uint32_t d);
/* Open the ring with its buffers. 0 or a negative errno. */
int tower_pipeline_open_ring(struct tower_pipeline *tower, uint32_t depth, const struct batch_layout *layout);
/* Assign cores [d * threads, (d + 1) * threads), modulo the number of cores, to the d-th tower of this process. 0 or
 * -ENOMEM. */
int tower_pipeline_choose_cpus(struct tower_pipeline *tower, const struct settings *settings, uint32_t threads,
                               uint32_t d);
/* Accepts a stream that is closed. */
void tower_pipeline_close_stream(struct stream **stream);
/* Close everything but the device and the stages with threads. These threads must be joined, and the communication
 * stream must be closed. */
void tower_pipeline_close(struct tower_pipeline *tower);

#endif
