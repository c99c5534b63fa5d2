/* Feeds of fixture records for tests, and what they hand out. */
#ifndef PIPETRAIN_FEED_FIXTURE_H
#define PIPETRAIN_FEED_FIXTURE_H

#include <stdint.h>

#include "tools/feed/pipetrain-feed.h"

/* Options for fixture records, without an index cache: one epoch of steps of 8, seed 5. `shards` and `settings` stay
 * valid. */
struct pipetrain_feed_options feed_fixture_options(const char *shards);
/* Open a feed; fails the test with the problem. */
struct pipetrain_feed *feed_fixture_open(const struct pipetrain_feed_options *options);
/* Opening fails with this result and a message that contains the text. */
void feed_fixture_assert_refused(const struct pipetrain_feed_options *options, int result, const char *text);
/* Take a batch, waiting for it; fails the test with the problem. */
struct pipetrain_feed_batch feed_fixture_take(struct pipetrain_feed *feed);
/* Take and give back `count` batches. */
void feed_fixture_skip(struct pipetrain_feed *feed, uint64_t count);
/* The next take returns this. */
void feed_fixture_assert_take(struct pipetrain_feed *feed, int result);

/* A sample as it was handed out at a position of an epoch. */
struct feed_sample { uint64_t id, hash; int64_t label; uint32_t times; float share; };
/* Samples [epoch * records + position] of several epochs. */
struct feed_samples {
    uint64_t records, epochs;
    struct feed_sample *samples;
};
struct feed_samples feed_samples_make(uint64_t records, uint64_t epochs);
void feed_samples_release(struct feed_samples *samples);
void feed_samples_add(struct feed_samples *samples, const struct pipetrain_feed_batch *batch, size_t sample_bytes);
/* Take all batches that are left, at most `most`. Returns their number. */
uint64_t feed_samples_take(struct feed_samples *samples, struct pipetrain_feed *feed, uint64_t most);
/* Every sample of [first, end) positions, counted over all epochs, was handed out once, and as in `same`. */
void feed_samples_assert_same(const struct feed_samples *samples, const struct feed_samples *same, uint64_t first,
                              uint64_t end);

#endif
