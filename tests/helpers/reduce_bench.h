/* Towers without networks: threads that fill two arenas with numbers, reduce them step by step, like trainers, and
 * check the sums, on the device of tests/helpers/test_device_kind.h. */
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
    uint32_t index;                 /* in the run */
    struct device *device;
    struct stream *compute, *communication, *results;
    float *arenas[REGION_COUNT];    /* of gradients and statistics */
    uint16_t *bf16_grads;           /* with spec.has_bf16_grads, of gradients */
    struct trace_track *track;      /* of spec.trace */
    float *values, *sums;           /* pinned, for every step that may be queued */
    struct event *ends[BENCH_DEPTH_MAX];
    struct thread *thread;
    uint32_t steps;                 /* in which it takes part */
    uint32_t step_buckets;          /* that it still starts of the next step */
    bool stays_out;                 /* it does not even join */
    bool lingers;                   /* it does not leave before a cancel */
    uint32_t wrong;                 /* wrong sums */
    uint64_t bits;                  /* a hash of all sums so far */
    uint32_t queued;                /* steps */
    atomic_uint done;               /* steps */
    atomic_bool away;               /* it starts no more */
    int result;                     /* of the last call */
};

struct bench {
    const struct device_ops *ops;
    struct reduce *reduce;
    bool exact;                     /* sums are those of pairwise summation, bit for bit */
    bool has_bf16_grads;
    bool rounds_sums;               /* every sum of bf16 gradients is rounded */
    struct watchdog *watchdog;
    uint32_t towers, depth;
    uint32_t run;                   /* towers of the run; those here are numbered from tower[0].index */
    size_t floats;
    struct buckets buckets;
    struct bench_tower tower[BENCH_TOWERS_MAX];
    atomic_bool cancelled;
};

struct bench_spec {
    const struct reduce_ops *reduction;
    uint32_t towers;
    uint32_t devices;               /* tower t is on device first_device + t % devices */
    uint32_t first_device;
    struct ranks *ranks;            /* each has so many towers; NULL: all are here */
    struct watchdog *watchdog;      /* tower d uses its heartbeat d; NULL: none */
    bool has_bf16_grads;            /* gradients are summed as bf16 */
    /* Towers own the buckets of gradients, which are reduced to their owners, and those of statistics, which their
     * owners broadcast. */
    bool has_owners;
    bool has_pieces;                /* buckets consist of pieces: those of gradients are scattered, the others gathered */
    bool in_pairs;                  /* asked for: as in struct reduce_spec */
    struct trace *trace;            /* of sums; NULL: none */
    uint32_t group;                 /* as in struct reduce_spec */
    uint32_t factor;                /* buckets have so many times as many numbers; 0: 1 */
};

/* The number of devices, at most `towers`, between which the reduction works. */
uint32_t bench_devices(const struct reduce_ops *reduction, uint32_t towers);
void bench_open(struct bench *bench, const struct bench_spec *spec);
void bench_start(struct bench *bench);
void bench_join(struct bench *bench);
/* Cancel all towers, as stop_fail does in a run. A tower that fails does this itself. */
void bench_cancel(struct bench *bench);
void bench_close(struct bench *bench);

#endif
