/* Decoded samples kept in memory by record id, so that later epochs read no file. */
#ifndef PIPETRAIN_SAMPLE_CACHE_H
#define PIPETRAIN_SAMPLE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/record.h"

enum sample_state { SAMPLE_ABSENT, SAMPLE_COMING, SAMPLE_HELD };

/* A sample is written by the one decoder that moves its state from absent to coming, and
 * is constant once held. */
struct sample_cache {
    size_t sample_bytes;
    uint8_t *pixels;
    int32_t *labels;
    _Atomic uint8_t *states;    /* enum sample_state */
};

/* Bytes a cache of `count` samples takes, SIZE_MAX when that is too many to count. */
size_t sample_cache_bytes(uint64_t count, size_t sample_bytes);
/* 0 or -ENOMEM. */
int sample_cache_init(struct sample_cache *cache, uint64_t count, size_t sample_bytes);
/* Accepts a cache of zeros. */
void sample_cache_release(struct sample_cache *cache);

/* Any thread. */
bool sample_cache_holds(const struct sample_cache *cache, uint64_t id);
/* Copy a sample that is held. */
void sample_cache_get(const struct sample_cache *cache, uint64_t id, const struct record_target *target);
/* Keep a sample, unless it is held or coming already. */
void sample_cache_put(struct sample_cache *cache, uint64_t id, const struct record_target *target);

#endif
