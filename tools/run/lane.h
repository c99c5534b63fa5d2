/* What belongs to one tower of the pipeline: its device and streams, and the pinned blocks of its ring. The stages
 * in it are the pipeline's to start and to end. Used by main only. */
#ifndef PIPETRAIN_LANE_H
#define PIPETRAIN_LANE_H

#include "stage/feeder.h"
#include "stage/ring.h"
#include "stage/slots.h"
#include "sync/trainer.h"
#include "tools/run/device_plan.h"

/* Begins as zeros. */
struct lane {
    uint32_t tower;             /* of the run */
    char device_name[24], trainer_name[24], feeder_name[24];
    struct device *device;
    struct stream *compute, *communication;
    uint32_t depth;             /* places of the ring */
    void **blocks;              /* pinned, one per place */
    struct ring *ring;
    struct slots *slots;
    struct feeder *feeder;
    struct trainer *trainer;
    struct trainer_needs needs;
    uint32_t *cpus;             /* the tower's threads run on, NULL: any */
};

/* Names, device and streams of the d-th tower of this process. 0 or a negative errno; lane_close in either case. */
int lane_open(struct lane *lane, const struct device_plan *devices, uint32_t d);
/* The ring with its blocks. 0 or a negative errno. */
int lane_open_ring(struct lane *lane, uint32_t depth, const struct batch_layout *layout);
/* The d-th tower of this process gets cores [d * threads, (d + 1) * threads), counted around. 0 or -ENOMEM. */
int lane_choose_cpus(struct lane *lane, uint32_t threads, uint32_t d);
/* Accepts one that is closed. */
void lane_close_stream(struct stream **stream);
/* All but the device and the stages that have threads, which are joined; the communication stream is closed. */
void lane_close(struct lane *lane);

#endif
