/* What limited the run and what to change: found from the accounted times. */
#ifndef PIPETRAIN_VERDICT_H
#define PIPETRAIN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/config/settings.h"
#include "tools/limits/cpu_times.h"
#include "tools/run/account.h"
#include "tools/run/pace/feed.h"
#include "tools/run/run_plan.h"

/* Training steps of a process that a verdict is made of, at least: the first ones wait for what later ones do not. */
#define VERDICT_STEPS 20u
/* Below these shares of tower time a wait does not limit, and an update does not. */
#define VERDICT_INPUT_WAIT 0.02
#define VERDICT_REDUCTION 0.1
#define VERDICT_OTHER 0.05
#define VERDICT_UPDATE 0.2

enum limit {
    LIMIT_UNKNOWN,              /* too few steps */
    LIMIT_READING,
    LIMIT_DECODING,
    LIMIT_BURSTS,               /* input that comes in bursts, of a loader that is fast enough */
    LIMIT_COPY,
    LIMIT_SLOTS,                /* synthetic input whose slots are not there in time */
    LIMIT_REDUCTION,
    LIMIT_UPDATE,
    LIMIT_REPORTS,              /* main's thread, which takes what towers report and writes it */
    LIMIT_STATES,               /* saving states */
    LIMIT_COMPUTE,
    LIMIT_OTHERS,               /* the towers compute, on cores that other programs use as well */
    LIMIT_HANDING,              /* nothing computes and no stage is busy: threads that wait for each other */
    LIMIT_COUNT
};

/* What a verdict is made of, of training of this process. */
struct verdict_facts {
    uint64_t steps;
    struct fractions share;     /* of the towers' time */
    struct loader_busy busy;
    double ring_empty;          /* share of batches that a feeder had to wait for */
    double reading_cpu;         /* share of the readers' busy time that they computed, not waiting for files */
    double copying;             /* share of the feeders' time that copies ran */
    double main_busy;           /* share of main's time that it did not wait for towers */
    struct cores_use cores;     /* of those that the process may run on */
    struct step_percentiles step;
    double images_per_second;   /* over wall time, after warm-up */
    bool is_encoded;            /* images are files that have to be decoded */
    uint32_t stored_side, taken_side;   /* the shorter one of the first such image, and of what the network takes */
};

struct verdict {
    enum limit limit;
    double share;               /* of the towers' time that goes to it */
    double gain;                /* of speed by the change, at most: 0.5 = 50 % faster; NAN: not known */
    const char *key;            /* the setting to change, NULL: none */
    char text[512];             /* a line without a line end */
};

void verdict_find(const struct verdict_facts *facts, const struct run_plan *plan, const struct settings *settings,
                  struct verdict *verdict_out);
/* "decoding"; for programs. */
const char *limit_name(enum limit limit);
/* Objects "limit" and "verdict". */
void verdict_write(const struct verdict *verdict, struct json *json);

#endif
