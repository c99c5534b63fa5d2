/* Towers without networks: threads that fill two of their arenas with numbers, reduce them step
 * by step and look at the sums, as trainers do, on the device of tests/helpers/test_device_kind.h. */
#ifndef PIPETRAIN_REDUCE_BENCH_H
#define PIPETRAIN_REDUCE_BENCH_H

#include <stdatomic.h>

#include "stage/thread.h"
#include "stage/trace/trace.h"
#include "stage/watchdog.h"
#include "sync/reduce.h"

enum { BENCH_TOWERS_MAX = 8, BENCH_STEPS = 40, BENCH_DEPTH_MAX = 4 };

struct bench;

struct bench_tower {
    struct bench *bench;
    uint32_t index;
    struct device *device;
    struct stream *compute, *communication;
    float *arenas[REGION_COUNT];    /* of gradients and statistics */
    uint16_t *bf16_grads;           /* with spec.has_bf16_grads, of gradients */
    struct trace_track *track;      /* of spec.trace */
    float *values, *sums;           /* pinned: of every step that may be queued */
    struct event *ends[BENCH_DEPTH_MAX];
    struct thread *thread;
    uint32_t steps;                 /* it takes part in, then it stays away */
    uint32_t step_buckets;          /* of the step it stays away from, which it still starts */
    bool stays_out;                 /* does not even join */
    bool lingers;                   /* does not leave before a cancel */
    uint32_t wrong;                 /* sums that differ from what they should be */
    uint64_t bits;                  /* of all sums so far, mixed */
    uint32_t queued;                /* steps */
    atomic_uint done;               /* steps */
    atomic_bool away;               /* it starts no more */
    int result;                     /* of the last call */
};

struct bench {
    const struct device_ops *ops;
    struct reduce *reduce;
    bool exact;                     /* sums have the bits of adding in pairs */
    bool has_bf16_grads;
    struct watchdog *watchdog;
    uint32_t towers, depth;
    size_t floats;
    struct buckets buckets;
    struct bench_tower tower[BENCH_TOWERS_MAX];
    atomic_bool cancelled;
};

struct bench_spec {
    const struct reduce_ops *reduction;
    uint32_t towers;
    uint32_t devices;               /* tower t is on device t % devices */
    struct watchdog *watchdog;      /* whose heartbeat d tower d has; NULL: none */
    bool has_bf16_grads;            /* gradients are summed as bf16 */
    struct trace *trace;            /* of sums; NULL: none */
};

/* Devices of the kind that the reduction can be used between, at most `towers`. */
uint32_t bench_devices(const struct reduce_ops *reduction, uint32_t towers);
void bench_open(struct bench *bench, const struct bench_spec *spec);
void bench_start(struct bench *bench);
void bench_join(struct bench *bench);
/* What stop_fail does to a run's towers; a tower that fails does it by itself. */
void bench_cancel(struct bench *bench);
void bench_close(struct bench *bench);

#endif
