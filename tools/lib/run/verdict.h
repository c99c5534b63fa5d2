/* The verdict: the limit of a run's speed, and the setting to change. */
#ifndef PIPETRAIN_VERDICT_H
#define PIPETRAIN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"
#include "tools/lib/cpu_times.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/feed.h"
#include "tools/lib/run/run_plan.h"

/* The fewest training steps for a verdict: in fewer steps, waits that occur only at the start would dominate. */
#define VERDICT_STEPS 20u
/* A wait or the update limits only above these shares of the towers' time. */
#define VERDICT_INPUT_WAIT 0.02
#define VERDICT_REDUCTION 0.1       /* also of exchanges */
#define VERDICT_OTHER 0.05
#define VERDICT_UPDATE 0.2

enum limit {
    LIMIT_UNKNOWN,              /* too few steps */
    LIMIT_READING,
    LIMIT_DECODING,
    LIMIT_BURSTS,               /* the loader is fast enough, but its batches come in bursts */
    LIMIT_COPY,
    LIMIT_SLOTS,                /* synthetic input whose slots are not free in time */
    LIMIT_REDUCTION,
    LIMIT_EXCHANGE,             /* what towers exchange with model.parts */
    LIMIT_UPDATE,
    LIMIT_REPORTS,              /* the main thread, which receives the towers' reports and writes them */
    LIMIT_STATES,               /* saving checkpoints */
    LIMIT_COMPUTE,
    LIMIT_OTHERS,               /* the towers compute, on cores that other programs use as well */
    /* Nothing computes and no stage is busy: threads wait for each other to hand over batches. */
    LIMIT_HANDING,
    LIMIT_COUNT
};

/* The facts that determine the verdict, about the training of this process. */
struct verdict_facts {
    uint64_t steps;
    struct fractions share;     /* of the towers' time */
    struct loader_busy busy;
    double ring_empty;          /* share of batches for which a feeder had to wait */
    double reading_cpu;         /* CPU time as a share of the readers' busy time */
    double copying;             /* share of the feeders' time in which copies ran */
    double main_busy;           /* share of main's time in which it did not wait for towers */
    struct cores_use cores;     /* the cores that the process may run on */
    struct step_percentiles step;
    double images_per_second;   /* over wall time, after warm-up */
    bool is_encoded;            /* images are stored as JPEG or PNG */
    uint32_t stored_side, taken_side;   /* short side of the first such image, and of the network's
                                         * input, in training or in evaluation, where it is larger */
    struct last_rank last;
    const char *last_name;      /* of that rank: "rank 37 (node12)"; NULL: nothing is known of it */
    const char *last_host;      /* "node12" */
    double step_ms;             /* mean after warm-up */
    struct parts_gain parts;    /* what towers send each other with model.parts; else all 0 */
};

struct verdict {
    enum limit limit;
    double share;               /* share of the towers' time that the limit costs */
    double gain;                /* largest gain in speed by the change: 0.5 = 50 % faster; NAN: unknown */
    const char *key;            /* the setting to change, NULL: none */
    char text[768];             /* one line, without a line end */
};

void verdict_find(const struct verdict_facts *facts, const struct run_plan *plan, const struct settings *settings,
                  struct verdict *verdict_out);
/* Write the members "verdict" and "limit" of summary.json. */
void verdict_write(const struct verdict *verdict, struct json *json);

static inline uint32_t sides_shorter(uint64_t height, uint64_t width)
{
    return (uint32_t)(height < width ? height : width);
}
/* Validation may read the same shards as training, and with train_size its images are larger. */
static inline uint32_t sides_longer(uint32_t training, uint32_t evaluation)
{
    return training > evaluation ? training : evaluation;
}
/* The usual short side of stored images for a network with an input of `taken_side` pixels: a seventh more, 256 for
 * 224. 0: the images are not larger than that. */
static inline uint32_t sides_smaller(uint32_t stored_side, uint32_t taken_side)
{
    const uint32_t side = (8 * taken_side + 6) / 7;
    return side < stored_side ? side : 0;
}

#endif
