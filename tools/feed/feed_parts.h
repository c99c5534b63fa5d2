/* What a feed consists of. Private to tools/feed. */
#ifndef PIPETRAIN_FEED_PARTS_H
#define PIPETRAIN_FEED_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "loader/loader.h"
#include "stage/log.h"
#include "tools/feed/pipetrain-feed.h"
#include "tools/lib/config/settings.h"

/* What is fixed while the feed is open, but for the data set, which close closes. */
struct feed_plan {
    struct dataset *dataset;
    struct settings settings;
    bool has_settings;
    struct augment augment;
    struct order_classes classes;       /* data.balance; count 0: the order is not balanced */
    struct schedule schedule;   /* `first` is not set */
    struct batch_layout layout;
    struct loader_spec spec;    /* ring, schedule and stop are not set */
    struct order_shape order;
    enum phase phase;
    uint32_t depth;
    bool is_raw, is_endless;
    uint64_t epochs;            /* is_endless: the most that can be counted */
    uint64_t steps_per_epoch, epoch_bytes;
    size_t labels_offset;       /* of the int64 labels in a block */
    size_t block_bytes;
    void *(*allocate)(void *memory_arg, size_t bytes);
    void (*release)(void *memory_arg, void *memory, size_t bytes);
    void *memory_arg;
};

/* A batch that the caller has; handle 0: none. */
struct lent_batch {
    uint64_t handle;
    struct batch *batch;
};

/* The threads and batches from one position on. Every seek makes a new one; the earlier one stays until its last lent
 * batch is given back. The feed's lock protects all from `asked_ns` on. */
struct supply {
    const struct feed_plan *plan;
    struct schedule schedule;
    struct stop *stop;
    struct ring *ring;
    struct loader *loader;      /* NULL: its threads have ended */
    void **blocks;              /* [depth] */
    uint64_t asked_ns;          /* of the first take; 0: there was none */
    uint64_t read_busy_ns, decode_busy_ns;      /* of the loader's threads before it */
    struct lent_batch *lent;    /* [depth] */
    uint32_t lent_count;        /* batches that are not given back completely */
    uint32_t takers;            /* threads in ring_take */
    struct supply *next;        /* the next one that waits for its lent batches */
};

/* Allocate `depth` blocks; NULL without memory. */
void **blocks_open(const struct feed_plan *plan);
/* Accepts NULL. */
void blocks_close(const struct feed_plan *plan, void **blocks);

/* Start the threads at batch `first` of the schedule. `blocks` belong to the supply if this succeeds. 0 or a negative
 * errno with a problem. */
int supply_start(struct supply **supply_out, const struct feed_plan *plan, uint64_t first, void **blocks,
                 const struct damage_sink *sink, struct pipetrain_feed_problem *problem);
/* End the threads: all takes return. Adds the loader's counts. */
void supply_end(struct supply *supply, struct loader_counts *sum);
/* No thread takes and no batch is lent. Returns its blocks, which the caller owns. */
void **supply_close(struct supply *supply);
/* Release what the records of a batch of raw records point to. */
void supply_clear(const struct supply *supply, struct batch *batch);
/* The result and the problem of a supply whose stop has failed. */
int supply_failure(const struct supply *supply, struct pipetrain_feed_problem *problem);

#define FEED_DAMAGED_MAX 256u
#define FEED_MESSAGES_BYTES ((size_t)64 << 10)

/* Locks: `lock`, and inside it or alone `found_lock`. */
struct pipetrain_feed {
    struct feed_plan plan;
    pid_t process;
    atomic_uint references;     /* the caller's own until free, one for each lent batch and for each thread inside */
    atomic_bool is_interrupted;
    atomic_bool is_unwanted;    /* close has begun: long reads of the data set end */
    uint64_t opened_ns;         /* begin of opening */
    pthread_mutex_t lock;       /* protects what follows */
    uint64_t asked_ns;          /* of the first take; 0: there was none */
    pthread_cond_t changed;     /* is_changing, is_closed, `readers` or a supply's `takers` has changed */
    bool is_changing;           /* a thread is in seek or close */
    bool is_closed;
    uint32_t readers;           /* threads that use the data set without a supply */
    struct supply *supply;      /* NULL: closed, or the threads could not be started */
    struct supply *retired;     /* those whose batches are lent */
    int failure;                /* without a supply: what every take returns */
    struct pipetrain_feed_problem failure_problem;
    uint64_t next_handle;
    uint64_t next_number;       /* number of the batch after the last one that was taken */
    uint64_t batches, samples, waited_ns;       /* taken */
    struct loader_counts counts;        /* of supplies that have ended */
    struct log_sink sink;       /* of all threads of the feed */
    pthread_mutex_t found_lock; /* protects what follows */
    char *messages;             /* [FEED_MESSAGES_BYTES], whole lines */
    size_t messages_bytes;
    uint64_t messages_dropped;
    uint32_t damaged_count;
    struct pipetrain_feed_problem *damaged;     /* [FEED_DAMAGED_MAX] if records may be left out */
};

/* ---- results and problems ---- */

/* Write a problem, if there is a place for it, and return `result`. */
int feed_fail(struct pipetrain_feed_problem *problem, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The result for a negative errno; `otherwise` if it is no exhausted resource. */
int feed_result_of(int rc, int otherwise);
/* Find file and record in a message "PATH: record N at byte B: ...", or one with the set's name before it. */
void problem_find_record(struct pipetrain_feed_problem *problem);

/* ---- opening: feed_open.c ---- */

/* Open the data set and plan everything that does not depend on the position. On failure feed_plan_close is called. */
int feed_plan_open(struct feed_plan *plan, const struct pipetrain_feed_options *options,
                   struct pipetrain_feed_problem *problem);
/* Close the data set; the rest of the plan stays. */
void feed_plan_end(struct feed_plan *plan);
/* Accepts a struct of zeros. */
void feed_plan_close(struct feed_plan *plan);

/* ---- for functions of the feed: feed.c ---- */

static inline bool feed_is_forked(const struct pipetrain_feed *feed)
{
    return getpid() != feed->process;
}

/* Add a message. Called by any thread of the feed. */
void feed_message(void *feed, enum log_level level, const char *text);

/* Enter a function, and leave it; the last one that leaves frees the feed if it was freed by the caller. */
void feed_enter(struct pipetrain_feed *feed);
void feed_leave(struct pipetrain_feed *feed);
/* Enter to use the data set, which stays open until feed_leave_data. OK, FORKED, or CLOSED without entering. */
int feed_enter_data(struct pipetrain_feed *feed);
void feed_leave_data(struct pipetrain_feed *feed);

/* Batch number of a position, or -EINVAL. */
int feed_number_of(const struct feed_plan *plan, uint64_t epoch, uint64_t step_of_epoch, uint64_t *number_out);
/* Say that there is no such position, and return `result`. */
int feed_fail_step(const struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch, int result,
                   struct pipetrain_feed_problem *problem);

#endif
