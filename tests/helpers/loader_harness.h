/* Run a whole loader with a consumer thread per tower, and record what it delivers: for every position of every global
 * batch the record's id, its label and a hash of its pixels. */
#ifndef PIPETRAIN_LOADER_HARNESS_H
#define PIPETRAIN_LOADER_HARNESS_H

#include "loader/loader.h"

struct delivery { uint64_t id; int32_t label; uint64_t pixels_hash; uint32_t times; struct mix mix; };

struct harness {
    /* Set before harness_run. */
    struct loader_spec spec;            /* data sets and options; the rest is filled in */
    struct schedule schedule;           /* records 0: all of the data sets */
    uint32_t depth;
    void (*before_start)(struct harness *harness);      /* called when spec.stop is open; may be NULL */
    void (*after_start)(struct harness *harness);       /* called with start_result; may be NULL */
    uint64_t end_after; /* batches after which the first tower's consumer ends the loader; 0: never */
    /* Set by harness_run. */
    uint64_t batch_count;
    struct delivery *deliveries;        /* batch_count * schedule.batch; times 0: not delivered */
    struct loader_counts counts;
    int start_result;
    struct loader *loader;              /* while it runs, NULL when it could not start */
    char message[4096];                 /* of the stop, "" when the run did not fail */
    enum exit_code code;
    struct damaged_record damages[DAMAGE_LISTED_MAX];
    size_t damage_count;
};

/* Run to the end, without output on stderr. Consumers check order and local batches. */
void harness_run(struct harness *harness);
void harness_release(struct harness *harness);

/* The delivery of a fixture record. */
struct delivery harness_expected(uint64_t id);
/* Record `id` was delivered once, with the right label and pixels. */
void harness_assert_delivered(const struct delivery *delivery, uint64_t id);
/* Every delivery is right, and every complete epoch of a phase delivers each record once. */
void harness_assert_complete(const struct harness *harness);
/* The same deliveries at the same positions. */
void harness_assert_same(const struct harness *a, const struct harness *b);
/* The local batch of global batch `number` for a single tower. */
struct local_batch harness_span(const struct harness *harness, uint64_t number);

#endif
