/* Reductions behind one table: the sum over towers of a bucket's gradients, left in
 * every tower's arena. Started when the bucket's last gradient is queued on the compute
 * stream, running on communication streams while backward goes on. */
#ifndef PIPETRAIN_REDUCE_H
#define PIPETRAIN_REDUCE_H

#include "stage/device.h"
#include "sync/bucket.h"

struct reduce;

/* What a tower brings, from its own thread. */
struct reduce_member {
    struct device *device;
    struct stream *compute, *communication;
    float *gradients;           /* the tower's arena */
};

struct reduce_ops {
    const char *name;           /* "host", "none" */
    /* For `towers` towers. The buckets are known when the first tower joins. */
    int (*open)(struct reduce **reduce_out, uint32_t towers);
    void (*close)(struct reduce *reduce);
    /* Called once by every tower's thread; returns when all have joined. 0 or -ECANCELED. */
    int (*join)(struct reduce *reduce, uint32_t tower, const struct reduce_member *member,
                const struct buckets *buckets);
    /* The bucket's gradients are queued on the tower's compute stream. Every tower starts
     * every bucket of every step, in the same order. Never waits for other towers. */
    int (*start)(struct reduce *reduce, uint32_t tower, uint32_t bucket);
    /* What the tower queues on its compute stream from here on comes behind the
     * bucket's sum. 0 or -ECANCELED. */
    int (*wait)(struct reduce *reduce, uint32_t tower, uint32_t bucket);
    /* Every wait ends now. */
    void (*cancel)(struct reduce *reduce);
};

struct reduce { const struct reduce_ops *ops; };

/* Sum in fixed tower order, each tower's communication stream summing its share of the
 * bucket for all: the same bits in every tower and every run. */
extern const struct reduce_ops reduce_host_ops;
/* No reduction: mode independent, and one tower. */
extern const struct reduce_ops reduce_none_ops;

void reduce_cancel(void *reduce);       /* as a closer */

#endif
