/* Tests of what a feed hands out: the samples of the trainer's loader, in its order, for any ranks and threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "loader/augment/augment.h"
#include "tests/feed/feed_fixture.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

/* Steps of 8: the last one of an epoch has 3 samples. */
enum { RECORDS = 59, EPOCHS = 2, ALL = RECORDS * EPOCHS };

static const char *write_set(const char *name)
{
    static char place[300], shards[320];
    fixture_write_set(fixture_subfolder(place, sizeof(place), name), 3, RECORDS);
    snprintf(shards, sizeof(shards), "%s/train-*", place);
    return shards;
}

/* Everything that is random, of which fixture images of two channels are capable. */
#define RANDOM "data.index_cache = no\ndata.classes = 10\naugment.crop = shift\naugment.shift = 0.3\n" \
               "augment.flip = yes\naugment.vertical_flip = yes\naugment.erase = 0.5\n"
#define MIXED RANDOM "augment.mixup = 0.4\naugment.cutmix = 1\n"
#define LANES "data.shuffle = block\ndata.lanes = 4\ninput.read_block = 300\ndata.shuffle_window = 900\n" \
              "input.keep_shards = 0\n"

static struct pipetrain_feed_options options_of(const char *shards, const char *settings)
{
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    options.settings = settings;
    options.epochs = EPOCHS;
    return options;
}

/* What one rank of one hands out. */
static struct feed_samples take_alone(const struct pipetrain_feed_options *options)
{
    struct feed_samples samples = feed_samples_make(RECORDS, EPOCHS);
    struct pipetrain_feed *const feed = feed_fixture_open(options);
    feed_samples_take(&samples, feed, UINT64_MAX);
    pipetrain_feed_free(feed);
    return samples;
}

TEST(an_epoch_has_every_record_once_with_its_pixels_and_its_label)
{
    const struct pipetrain_feed_options options = options_of(write_set("whole"), feed_fixture_options("").settings);
    struct feed_samples samples = take_alone(&options);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        bool is_there[RECORDS] = { false };
        for (uint64_t i = 0; i < RECORDS; i++) {
            const struct feed_sample *const sample = &samples.samples[epoch * RECORDS + i];
            uint8_t pixels[FIXTURE_SAMPLE_BYTES];
            fixture_pixels(sample->id, pixels);
            assert_int_equal(sample->times, 1);
            assert_false(is_there[sample->id]);
            is_there[sample->id] = true;
            assert_int_equal(sample->label, fixture_label(sample->id));
            assert_int_equal(sample->hash, XXH3_64bits(pixels, sizeof(pixels)));
        }
    }
    feed_samples_release(&samples);
}

/* The trainer's loader, with the specification that run_plan_loader makes of the same settings. */
static struct harness run_loader(const char *shards, const struct augment *augment)
{
    const struct dataset_options options = fixture_options(shards);
    struct dataset *const dataset = fixture_open(&options);
    struct harness harness = {
        .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_FULL, .seed = 5, .augment = augment, .read_threads = 1,
                  .decode_threads = 1 },
        .schedule = { .batch = 8, .towers = 1, .epochs = EPOCHS },
        .depth = 2,
    };
    harness_run(&harness);
    assert_int_equal(harness.start_result, 0);
    dataset_close(dataset);
    return harness;
}

TEST(samples_are_those_of_the_trainers_loader)
{
    const char *const place = write_set("same");
    const struct augment augment = {
        .seed = 5, .crop = { [PHASE_TRAIN] = CROP_SHIFT }, .shift = 0.3, .scale = 1.145, .flips = true,
        .flips_vertically = true, .erase = 0.5, .mixed = 1, .pad = 4, .policy_operations = 2, .policy_magnitude = 9,
    };
    const struct pipetrain_feed_options options = options_of(place, RANDOM);
    struct feed_samples samples = take_alone(&options);
    struct harness harness = run_loader(place, &augment);
    uint64_t changed = 0;
    for (uint64_t i = 0; i < ALL; i++) {
        const uint64_t epoch = i / RECORDS, position = i % RECORDS;
        const struct delivery *const delivery = &harness.deliveries[(epoch * 8 + position / 8) * 8 + position % 8];
        assert_int_equal(delivery->times, 1);
        assert_int_equal(samples.samples[i].id, delivery->id);
        assert_int_equal(samples.samples[i].label, delivery->label);
        assert_int_equal(samples.samples[i].hash, delivery->pixels_hash);
        changed += delivery->pixels_hash != harness_expected(delivery->id).pixels_hash;
    }
    assert_true(changed > ALL / 2);
    harness_release(&harness);
    feed_samples_release(&samples);
}

TEST(ranks_and_threads_change_no_sample)
{
    static const struct { const char *settings; bool is_evaluation, drop_last; } rows[] = {
        { RANDOM, false, false }, { RANDOM, false, true }, { MIXED, false, false }, { RANDOM LANES, false, false },
        { MIXED LANES, false, false }, { RANDOM "data.shuffle = none", false, false },
        { RANDOM "data.balance = yes", false, false }, { RANDOM, true, false },
    };
    static const struct { uint32_t world, threads, depth; } ways[] = { { 1, 3, 1 }, { 2, 1, 2 }, { 4, 2, 4 } };
    const char *const place = write_set("ranks");
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct pipetrain_feed_options options = options_of(place, rows[r].settings);
        options.is_evaluation = rows[r].is_evaluation;
        options.drop_last = rows[r].drop_last;
        struct feed_samples alone = take_alone(&options);
        const uint64_t end = rows[r].drop_last ? RECORDS / 8 * 8 : RECORDS;
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            struct feed_samples samples = feed_samples_make(RECORDS, EPOCHS);
            options.world = ways[w].world;
            options.threads = ways[w].threads;
            options.depth = ways[w].depth;
            for (options.rank = 0; options.rank < options.world; options.rank++) {
                struct pipetrain_feed *const feed = feed_fixture_open(&options);
                assert_int_equal(feed_samples_take(&samples, feed, UINT64_MAX), EPOCHS * ((end + 7) / 8));
                pipetrain_feed_free(feed);
            }
            for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
                feed_samples_assert_same(&samples, &alone, epoch * RECORDS, epoch * RECORDS + end);
            feed_samples_release(&samples);
        }
        feed_samples_release(&alone);
    }
}

TEST(a_state_of_one_world_goes_on_in_another)
{
    static const struct { uint32_t before, after; uint64_t steps; } rows[] = {
        { 1, 2, 3 }, { 2, 4, 8 }, { 4, 1, 11 }, { 2, 1, 0 }, { 4, 2, 15 }, { 1, 4, 16 },
    };
    const char *const place = write_set("resume");
    struct pipetrain_feed_options options = options_of(place, MIXED LANES);
    struct feed_samples alone = take_alone(&options);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct feed_samples samples = feed_samples_make(RECORDS, EPOCHS);
        char text[PIPETRAIN_FEED_STATE_BYTES];
        size_t bytes = 0;
        uint64_t epoch, step;
        options.world = rows[r].before;
        for (options.rank = 0; options.rank < options.world; options.rank++) {
            struct pipetrain_feed *const feed = feed_fixture_open(&options);
            feed_samples_take(&samples, feed, rows[r].steps);
            assert_int_equal(pipetrain_feed_position(feed, &epoch, &step), PIPETRAIN_FEED_OK);
            assert_int_equal(epoch * 8 + step, rows[r].steps);
            assert_int_equal(pipetrain_feed_state(feed, epoch, step, text, &bytes, NULL), PIPETRAIN_FEED_OK);
            pipetrain_feed_free(feed);
        }
        options.world = rows[r].after;
        for (options.rank = 0; options.rank < options.world; options.rank++) {
            struct pipetrain_feed *const feed = feed_fixture_open(&options);
            assert_int_equal(pipetrain_feed_seek(feed, text, bytes, NULL), PIPETRAIN_FEED_OK);
            feed_samples_take(&samples, feed, UINT64_MAX);
            pipetrain_feed_free(feed);
        }
        feed_samples_assert_same(&samples, &alone, 0, ALL);
        feed_samples_release(&samples);
    }
    feed_samples_release(&alone);
}

TEST(ranks_without_a_sample_of_the_last_step_have_an_empty_batch)
{
    struct pipetrain_feed_options options = options_of(write_set("empty"), feed_fixture_options("").settings);
    uint32_t counts[4];
    options.batch = 29;        /* 59 records: two steps of 29, one of 1 */
    options.world = 4;
    for (options.rank = 0; options.rank < 4; options.rank++) {
        struct pipetrain_feed *const feed = feed_fixture_open(&options);
        struct pipetrain_feed_batch batch = { 0 };
        for (int step = 0; step < 3; step++) {
            batch = feed_fixture_take(feed);
            assert_int_equal(batch.step_of_epoch, step);
            assert_int_equal(batch.is_last_of_epoch, step == 2);
            assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
        }
        counts[options.rank] = batch.count;
        assert_int_equal(batch.global_count, 1);
        pipetrain_feed_free(feed);
    }
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1] + counts[2] + counts[3], 0);
}

TEST(an_evaluation_is_in_stored_order_in_every_epoch)
{
    struct pipetrain_feed_options options = options_of(write_set("stored"), RANDOM "augment.mixup = 1");
    options.is_evaluation = true;
    struct feed_samples samples = take_alone(&options);
    for (uint64_t i = 0; i < ALL; i++) {
        assert_int_equal(samples.samples[i].id, i % RECORDS);
        assert_int_equal(samples.samples[i].hash, harness_expected(i % RECORDS).pixels_hash);
        assert_true(samples.samples[i].share == 1);
    }
    feed_samples_release(&samples);
}

/* What training leaves out is what an evaluation has. */
TEST(a_split_divides_the_records)
{
    struct pipetrain_feed_options options = options_of(write_set("split"), "data.index_cache = no\n"
                                                       "data.classes = 10\ndata.validation_split = 0.25");
    uint64_t hashes = 0, expected = 0, records = 0;
    options.epochs = 1;
    for (int i = 0; i < 2; i++) {
        struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
        options.is_evaluation = i == 1;
        struct pipetrain_feed *const feed = feed_fixture_open(&options);
        assert_int_equal(pipetrain_feed_info(feed, &info), PIPETRAIN_FEED_OK);
        struct feed_samples samples = feed_samples_make(info.records, 1);
        feed_samples_take(&samples, feed, UINT64_MAX);
        for (uint64_t s = 0; s < info.records; s++)
            hashes += samples.samples[s].hash;
        records += info.records;
        assert_in_range(info.records, RECORDS / 5, RECORDS * 4 / 5);
        feed_samples_release(&samples);
        pipetrain_feed_free(feed);
    }
    for (uint64_t id = 0; id < RECORDS; id++)
        expected += harness_expected(id).pixels_hash;
    assert_int_equal(records, RECORDS);
    assert_int_equal(hashes, expected);
}

TEST(epochs_without_end_go_on)
{
    struct pipetrain_feed_options options = options_of(write_set("endless"), feed_fixture_options("").settings);
    for (int i = 0; i < 2; i++) {
        options.epochs = 0;
        options.is_evaluation = i == 1;
        struct pipetrain_feed *const feed = feed_fixture_open(&options);
        assert_int_equal(pipetrain_feed_seek_to(feed, 4000000000u, 7, NULL), PIPETRAIN_FEED_OK);
        const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
        assert_int_equal(batch.epoch, 4000000000u);
        assert_true(batch.is_last_of_epoch);
        assert_int_equal(feed_fixture_take(feed).epoch, 4000000001u);
        pipetrain_feed_free(feed);
        assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
        /* The other one is given back, too, so that the feed ends. */
        assert_int_equal(pipetrain_feed_give_back(feed, batch.handle + 1), PIPETRAIN_FEED_OK);
    }
}

/* A rank reads an epoch's records, all or those of its lanes. */
TEST(with_lanes_a_rank_reads_its_part_only)
{
    struct pipetrain_feed_options options = options_of(write_set("lanes"), RANDOM LANES);
    uint64_t read[3] = { 0 };
    options.epochs = 1;
    for (uint32_t world = 1; world <= 2; world++)
        for (options.world = world, options.rank = 0; options.rank < world; options.rank++) {
            struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
            struct pipetrain_feed *const feed = feed_fixture_open(&options);
            feed_fixture_skip(feed, 8);
            assert_int_equal(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_OK);
            read[world - 1 + options.rank] = stats.read_bytes;
            pipetrain_feed_free(feed);
        }
    assert_in_range(read[1], read[0] * 4 / 10, read[0] * 7 / 10);
    assert_in_range(read[2], read[0] * 4 / 10, read[0] * 7 / 10);
}

static void read_payload(const struct dataset *dataset, uint64_t id, const struct pipetrain_feed_record *record)
{
    struct decode_context *context;
    struct record_problem problem;
    uint64_t bytes;
    assert_int_equal(decode_context_open(&context, dataset), 0);
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    assert_int_equal(record->count, bytes);
    assert_memory_equal(record->bytes, payload, bytes);
    decode_context_close(context);
}

TEST(raw_records_are_whole_payloads_in_the_same_order)
{
    const char *const place = write_set("raw");
    struct pipetrain_feed_options options = options_of(place, feed_fixture_options("").settings);
    struct feed_samples images = take_alone(&options);
    const struct dataset_options set = fixture_options(place);
    struct dataset *const dataset = fixture_open(&set);
    options.is_raw = true;
    options.height = options.width = 0;
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    for (uint64_t step = 0; step < 16; step++) {
        const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
        assert_null(batch.images);
        assert_null(batch.labels);
        for (uint32_t i = 0; i < batch.count; i++) {
            assert_int_equal(batch.ids[i], images.samples[batch.epoch * RECORDS + batch.first_position + i].id);
            read_payload(dataset, batch.ids[i], &batch.records[i]);
        }
        assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
    }
    pipetrain_feed_free(feed);
    dataset_close(dataset);
    feed_samples_release(&images);
}

/* Any payload, as of text: no image, no label, not even an Example. */
TEST(raw_records_need_not_be_examples)
{
    static const char *const texts[] = { "", "one", "a longer one" };
    char place[300];
    uint8_t frames[256];
    size_t bytes = 0;
    for (size_t i = 0; i < 3; i++)
        bytes += fixture_frame((const uint8_t *)texts[i], strlen(texts[i]), frames + bytes);
    fixture_subfolder(place, sizeof(place), "texts");
    fixture_write(fixture_path(place, "train-00000-of-00001"), frames, bytes);
    struct pipetrain_feed_options options = options_of(place, "data.index_cache = no\ndata.shuffle = none");
    options.is_raw = true;
    options.batch = 3;
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(batch.records[i].count, strlen(texts[i]));
        assert_memory_equal(batch.records[i].bytes, texts[i], strlen(texts[i]));
    }
    pipetrain_feed_free(feed);
    assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
