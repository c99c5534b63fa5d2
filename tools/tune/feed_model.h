/* A model of the feed: how fast it trains, and how long towers wait for input, with other numbers of threads and
 * other depths, from the service times of its stages as they were measured one by one, with their spread.
 *
 *   readers -> (pieces of work) -> decoders -> ring -> feeder -> slots -> towers
 *
 * Every stage serves in order, a server takes its next piece when it is done with the last and there is room behind
 * it, and what computes at the same time shares the cores: where there are more threads than cores, the loader's give
 * way, but on a core that has one beside a tower's thread this gets less, and a step takes as long as the slowest
 * thread of its team. While towers wait for input, it has all the cores. Nothing is drawn at random: service times
 * are used in the order they were measured in, so that slow ones that came together come together, and the same model
 * gives the same answer.
 * Towers of a process step together, as gradients are reduced. */
#ifndef PIPETRAIN_FEED_MODEL_H
#define PIPETRAIN_FEED_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_STEP_KINDS 3u      /* numbers of threads that steps were measured with, at most */
#define FEED_THREADS_MAX 256u   /* readers, and decoders */
#define FEED_TOWERS_MAX 64u
#define FEED_DEPTH_MAX 256u

/* Service times in seconds, in the order they were measured in; lent. Without any (count 0) a service takes no time. */
struct feed_times {
    const double *seconds;
    size_t count;
};

/* What was measured. */
struct feed_model {
    struct feed_times read, decode;     /* of a piece of work, alone on its core */
    struct feed_times copy;             /* of a tower's batch into a slot */
    struct feed_times step[FEED_STEP_KINDS];    /* of all towers together, with input that is there */
    uint32_t step_threads[FEED_STEP_KINDS];     /* threads of a tower they took, rising */
    uint32_t step_kinds;                /* >= 1 */
    double hurry;                       /* share by which steps are shorter than they were measured; 0: they are not */
    uint32_t pieces;                    /* of work, of a tower's batch; 0: input is there */
    uint32_t between;                   /* pieces of work beside one for each reader and decoder */
    uint32_t towers, batch;             /* batch: samples of a step, of all towers */
    double cores;                       /* that the process may use; INFINITY: nothing is shared */
    double read_cores, decode_cores;    /* share of a read or a decode that it computes; the rest waits */
    double loader_weight;               /* of a core that a tower's thread wants, too, a thread of the loader gets so
                                         * many times what that gets. > 0 */
    bool copies_on_cores, steps_on_cores;       /* of the host, as with CPU towers */
    double slot_free;                   /* share of a step, its last part, in which the slot that it began with may be
                                         * filled: a tower gives it back behind its forward pass, a GPU behind the
                                         * first layer. 0: it is taken to the end */
    double crowding;                    /* how many times more a step is delayed, where there are not enough cores, than
                                         * by the share of its slowest thread: a team meets after every layer, and waits
                                         * each time for whoever has no core just then. 0: not at all */
};

struct feed_setting {
    uint32_t readers, decoders, threads;        /* threads of a tower */
    uint32_t ring, slots;               /* prefetch_depth, staging_depth */
};

struct feed_prediction {
    double images_per_second;
    double input_wait;                  /* share of the time that towers wait for input */
    double readers_busy, decoders_busy; /* shares of their time */
    double cores_busy;                  /* cores that something computes on, on average; a GPU's towers apart */
    double ring_empty;                  /* share of batches that a feeder had to wait for */
};

/* Mean seconds of a service; 0 without times. */
double feed_mean(const struct feed_times *times);
double feed_median(const struct feed_times *times);     /* the lower one of two; 0 without times */
/* Standard deviation over mean: 0 = always the same. */
double feed_spread(const struct feed_times *times);
/* Mean seconds of a step with so many threads, nothing else running: as measured, else a + b / threads through the
 * two measured numbers of threads nearest to it. */
double feed_step_seconds(const struct feed_model *model, uint32_t threads);

/* The same feed where records are in memory: a read only takes what it computes. `seconds`: room for how long; lent. */
struct feed_model feed_cached(const struct feed_model *model, double *seconds);

/* `steps` steps of that setting, behind a hundred that are not counted; steps >= 1. All numbers of the setting within
 * the limits above and >= 1. 0 or -ENOMEM. */
int feed_predict(const struct feed_model *model, const struct feed_setting *setting, uint32_t steps,
                 struct feed_prediction *prediction_out);

#endif
