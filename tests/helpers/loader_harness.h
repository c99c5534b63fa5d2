/* Runs a whole loader with one consumer thread per tower and keeps what came: for every
 * place of every global batch the record, the label and a hash of the pixels. */
#ifndef PIPETRAIN_LOADER_HARNESS_H
#define PIPETRAIN_LOADER_HARNESS_H

#include "loader/loader.h"

struct delivery { uint64_t id; int32_t label; uint64_t pixels_hash; uint32_t times; struct mix mix; };

struct harness {
    /* Set before harness_run. */
    struct loader_spec spec;            /* data sets and options; the rest is filled in */
    struct schedule schedule;           /* records 0: as many as the data sets have */
    uint32_t depth;
    void (*before_start)(struct harness *harness);      /* called when spec.stop is open; may be NULL */
    void (*after_start)(struct harness *harness);       /* called with start_result; may be NULL */
    uint64_t end_after; /* the first tower's consumer ends the loader after so many batches; 0 = never */
    /* Found by harness_run. */
    uint64_t batch_count;
    struct delivery *deliveries;        /* batch_count * schedule.batch; times 0 where nothing came */
    struct loader_counts counts;
    int start_result;
    struct loader *loader;              /* while it runs, NULL when it could not start */
    char message[4096];                 /* of the stop, "" when the run did not fail */
    enum exit_code code;
    struct damaged_record damages[DAMAGE_LISTED_MAX];
    size_t damage_count;
};

/* Runs to the end with standard error silent. Consumers check order and slices. */
void harness_run(struct harness *harness);
void harness_release(struct harness *harness);

/* The delivery a fixture record must give. */
struct delivery harness_expected(uint64_t id);
/* It came once, and is what record `id` must give. */
void harness_assert_delivered(const struct delivery *delivery, uint64_t id);
/* Every place holds what its record must give, and every pass of whole epochs gives each
 * record once. */
void harness_assert_complete(const struct harness *harness);
/* The same deliveries at the same places. */
void harness_assert_same(const struct harness *a, const struct harness *b);
/* The span of global batch `number` as one tower would see it. */
struct batch_slice harness_span(const struct harness *harness, uint64_t number);

#endif
