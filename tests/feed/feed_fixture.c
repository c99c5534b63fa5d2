/* Opens feeds and keeps what they hand out. */
#include "tests/feed/feed_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

struct pipetrain_feed_options feed_fixture_options(const char *shards)
{
    return (struct pipetrain_feed_options){
        .struct_bytes = sizeof(struct pipetrain_feed_options), .shards = shards,
        .settings = "data.index_cache = no\ndata.classes = 10", .height = FIXTURE_HEIGHT, .width = FIXTURE_WIDTH,
        .channels = FIXTURE_CHANNELS, .batch = 8, .threads = 2, .epochs = 1, .seed = 5,
    };
}

struct pipetrain_feed *feed_fixture_open(const struct pipetrain_feed_options *options)
{
    struct pipetrain_feed *feed = NULL;
    struct pipetrain_feed_problem problem = { .message = "" };
    if (pipetrain_feed_open(&feed, options, &problem) != PIPETRAIN_FEED_OK)
        fail_msg("%s", problem.message);
    return feed;
}

void feed_fixture_assert_refused(const struct pipetrain_feed_options *options, int result, const char *text)
{
    struct pipetrain_feed *feed = NULL;
    struct pipetrain_feed_problem problem = { .message = "" };
    const int got = pipetrain_feed_open(&feed, options, &problem);
    if (got != result || strstr(problem.message, text) == NULL)
        fail_msg("%s: %s; expected %s: %s", pipetrain_feed_result_name(got), problem.message,
                 pipetrain_feed_result_name(result), text);
    assert_null(feed);
}

struct pipetrain_feed_batch feed_fixture_take(struct pipetrain_feed *feed)
{
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed_problem problem = { .message = "" };
    const int result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem);
    if (result != PIPETRAIN_FEED_OK)
        fail_msg("%s: %s", pipetrain_feed_result_name(result), problem.message);
    return batch;
}

void feed_fixture_skip(struct pipetrain_feed *feed, uint64_t count)
{
    while (count-- > 0)
        assert_int_equal(pipetrain_feed_give_back(feed, feed_fixture_take(feed).handle), PIPETRAIN_FEED_OK);
}

void feed_fixture_assert_take(struct pipetrain_feed *feed, int result)
{
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    const int got = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, NULL);
    assert_string_equal(pipetrain_feed_result_name(got), pipetrain_feed_result_name(result));
}

struct feed_samples feed_samples_make(uint64_t records, uint64_t epochs)
{
    struct feed_sample *const samples = calloc(records * epochs, sizeof(*samples));
    assert_non_null(samples);
    return (struct feed_samples){ records, epochs, samples };
}

void feed_samples_release(struct feed_samples *samples)
{
    free(samples->samples);
}

void feed_samples_add(struct feed_samples *samples, const struct pipetrain_feed_batch *batch, size_t sample_bytes)
{
    assert_true(batch->epoch < samples->epochs && batch->first_position + batch->count <= samples->records);
    for (uint32_t i = 0; i < batch->count; i++) {
        struct feed_sample *const sample =
            &samples->samples[batch->epoch * samples->records + batch->first_position + i];
        *sample = (struct feed_sample){ .id = batch->ids[i], .label = batch->labels[i], .times = sample->times + 1,
                                        .hash = XXH3_64bits(batch->images + i * sample_bytes, sample_bytes),
                                        .share = batch->mixes != NULL ? batch->mixes[i].share : 1 };
        if (i + 1 == batch->count && i % 2 == 0)
            assert_true(sample->share == 1);    /* without a partner */
    }
}

uint64_t feed_samples_take(struct feed_samples *samples, struct pipetrain_feed *feed, uint64_t most)
{
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
    uint64_t count = 0;
    assert_int_equal(pipetrain_feed_info(feed, &info), PIPETRAIN_FEED_OK);
    const size_t sample_bytes = (size_t)info.height * info.width * info.channels;
    while (count < most && pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, NULL) == PIPETRAIN_FEED_OK) {
        feed_samples_add(samples, &batch, sample_bytes);
        assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
        count++;
    }
    if (count < most)
        feed_fixture_assert_take(feed, PIPETRAIN_FEED_END);
    return count;
}

void feed_samples_assert_same(const struct feed_samples *samples, const struct feed_samples *same, uint64_t first,
                              uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        const struct feed_sample *const a = &samples->samples[i], *const b = &same->samples[i];
        assert_int_equal(a->times, 1);
        assert_int_equal(a->id, b->id);
        assert_int_equal(a->label, b->label);
        assert_int_equal(a->hash, b->hash);
        assert_true(a->share == b->share);
    }
}
