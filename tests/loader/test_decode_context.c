/* What a decoder keeps and learns, seen through a test's own way of storing images: a codec
 * belongs to one thread, and pixels may depend on pass, epoch and position, on nothing else. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/record.h"
#include "stage/thread.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { RECORDS = 37, EPOCHS = 3, BATCH = 10, DECODERS = 3 };

static struct dataset *train, *evaluation;

struct codec {
    pthread_t owner;
    uint64_t images;
};

/* Written by decoders. */
static struct {
    atomic_uint tried, opened, closed;
    unsigned fail_at;           /* the number of the open that fails, from 1; 0 = none */
    atomic_bool is_wrong;       /* something was used in another thread, or asked for in another shape */
    atomic_uint seen[PHASE_COUNT][EPOCHS][RECORDS];
} watch;

static int codec_open(void **codec_out)
{
    if (atomic_fetch_add(&watch.tried, 1) + 1 == watch.fail_at)
        return -ENOMEM;
    atomic_fetch_add(&watch.opened, 1);
    struct codec *const codec = calloc(1, sizeof(*codec));
    codec->owner = pthread_self();
    *codec_out = codec;
    return 0;
}

static void codec_close(void *arg)
{
    struct codec *const codec = arg;
    if (!pthread_equal(codec->owner, pthread_self()))
        watch.is_wrong = true;
    atomic_fetch_add(&watch.closed, 1);
    free(codec);
}

/* The image's pixels, changed by where the sample stands. */
static int codec_decode(void *arg, const struct stored_image *image, const struct image_request *request,
                        uint8_t *pixels_out, char *problem_out, size_t problem_size)
{
    struct codec *const codec = arg;
    const struct image_shape *const shape = &request->shape;
    if (!pthread_equal(codec->owner, pthread_self()) || request->epoch >= EPOCHS || request->position >= RECORDS ||
        shape->height != FIXTURE_HEIGHT || shape->width != FIXTURE_WIDTH || shape->channels != FIXTURE_CHANNELS) {
        watch.is_wrong = true;
        return -EBADMSG;
    }
    codec->images++;
    atomic_fetch_add(&watch.seen[request->phase][request->epoch][request->position], 1);
    if (image_raw_hwc_ops.decode(NULL, image, request, pixels_out, problem_out, problem_size) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < FIXTURE_SAMPLE_BYTES; i++)
        pixels_out[i] ^= (uint8_t)(request->position * 5 + request->epoch * 97 + (request->phase == PHASE_TRAIN) * 31);
    return 0;
}

static const struct image_ops watching_ops = {
    .open = codec_open, .close = codec_close, .codec_bytes = sizeof(struct codec), .decode = codec_decode };

static struct dataset *make_set(const char *name)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), name);
    fixture_write_set(place, 2, RECORDS);
    const struct dataset_options options = fixture_options(place);
    struct dataset *const dataset = fixture_open(&options);
    dataset->format.image = &watching_ops;
    return dataset;
}

static int make_sets(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    train = make_set("train");
    evaluation = make_set("evaluation");
    return 0;
}

static int remove_sets(void **state)
{
    dataset_close(train);
    dataset_close(evaluation);
    return fixture_folder_remove(state);
}

static struct harness run_loader(uint32_t decoders, uint32_t towers, size_t keep_bytes)
{
    memset(&watch.seen, 0, sizeof(watch.seen));
    watch.tried = watch.opened = watch.closed = 0;
    watch.is_wrong = false;
    struct harness harness = {
        .spec = {
            .datasets = { train, evaluation },
            .shuffle = SHUFFLE_FULL,
            .seed = 2,
            .read_threads = keep_bytes == LOADER_KEEP_ALL ? 1 : 2, /* two may read a block twice */
            .decode_threads = decoders,
            .chunk_records = 3,
            .keep_bytes = keep_bytes,
        },
        .schedule = { .batch = BATCH, .towers = towers, .epochs = EPOCHS },
        .depth = 2,
    };
    harness_run(&harness);
    return harness;
}

TEST(every_decoder_opens_and_closes_a_codec_of_its_own_for_each_data_set)
{
    for (uint32_t decoders = 1; decoders <= DECODERS; decoders++) {
        struct harness harness = run_loader(decoders, 2, 0);
        assert_string_equal(harness.message, "");
        assert_int_equal(watch.opened, 2 * decoders);
        assert_int_equal(watch.closed, 2 * decoders);
        assert_false(watch.is_wrong);
        harness_release(&harness);
    }
}

TEST(a_decoder_knows_phase_epoch_and_position_of_every_sample)
{
    struct harness harness = run_loader(DECODERS, 3, 0);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            for (int position = 0; position < RECORDS; position++)
                assert_int_equal(watch.seen[phase][epoch][position], 1);
    harness_release(&harness);
}

TEST(pixels_that_depend_on_the_place_in_the_run_depend_on_no_thread)
{
    struct harness reference = run_loader(1, 1, LOADER_KEEP_NONE);
    for (uint32_t decoders = 1; decoders <= DECODERS; decoders++) {
        for (uint32_t towers = 1; towers <= 3; towers++) {
            struct harness harness = run_loader(decoders, towers, towers % 2 == 0 ? LOADER_KEEP_ALL : LOADER_KEEP_NONE);
            harness_assert_same(&harness, &reference);
            harness_release(&harness);
        }
    }
    harness_release(&reference);
}

/* The place of `id` in the batches of epoch `epoch`. */
static const struct delivery *find_delivery(const struct harness *harness, uint32_t epoch, uint64_t id)
{
    for (uint64_t number = 0; number < harness->batch_count; number++) {
        const struct local_batch local = harness_span(harness, number);
        for (uint32_t i = 0; i < local.count && local.phase == PHASE_TRAIN && local.epoch == epoch; i++)
            if (harness->deliveries[number * BATCH + i].id == id)
                return &harness->deliveries[number * BATCH + i];
    }
    fail_msg("record %u is missing", (unsigned)id);
    return NULL;
}

/* 97 and 5 are odd, so only positions far apart could make up for an epoch. */
TEST(kept_shards_are_decoded_anew_in_every_epoch)
{
    struct harness harness = run_loader(2, 1, LOADER_KEEP_ALL);
    uint32_t changed = 0;
    for (uint64_t id = 0; id < RECORDS; id++)
        changed += find_delivery(&harness, 0, id)->pixels_hash != find_delivery(&harness, 1, id)->pixels_hash;
    assert_true(changed > RECORDS / 2);
    assert_int_equal(harness.counts.bytes, train->indexes[0].bytes + train->indexes[1].bytes +
                                               evaluation->indexes[0].bytes + evaluation->indexes[1].bytes);
    harness_release(&harness);
}

TEST(a_codec_that_cannot_be_opened_ends_the_start_and_nothing_stays_open)
{
    for (uint32_t at = 1; at <= 2 * DECODERS; at++) {
        watch.fail_at = at;
        struct harness harness = run_loader(DECODERS, 2, 0);
        assert_int_equal(harness.start_result, -ECANCELED);
        assert_int_equal(harness.code, EXIT_CODE_MEMORY);
        assert_non_null(strstr(harness.message, "Cannot allocate memory"));
        assert_int_equal(watch.closed, watch.opened);
        assert_false(watch.is_wrong);
        harness_release(&harness);
    }
    watch.fail_at = 0;
}

/* Another thread fails the stop while the loader that could not start is taken down: the start must
 * not return, and release the loader, before the stop is done with it. */
static struct {
    struct stop *stop;
    struct thread *thread;
    atomic_bool has_begun, has_ended;
} failure;

static void close_slowly(void *arg)
{
    (void)arg;
    failure.has_begun = true;
    usleep(20000);
}

static void close_last(void *arg)
{
    (void)arg;
    failure.has_ended = true;
}

static void fail_elsewhere(void *arg)
{
    stop_fail(arg, EXIT_CODE_DEVICE, "something else");
}

static int open_while_another_fails(void **codec_out)
{
    (void)codec_out;
    static atomic_flag is_first = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&is_first))
        return -ENOMEM;
    (void)stop_on_failure(failure.stop, close_last, NULL);
    if (thread_start(&failure.thread, "failer", fail_elsewhere, failure.stop) != 0)
        abort();
    while (!failure.has_begun)
        usleep(100);
    return -ENOMEM;
}

static void prepare_failure(struct harness *harness)
{
    failure.stop = harness->spec.stop;
    assert_int_equal(stop_on_failure(failure.stop, close_slowly, NULL), 0);
}

static void note_end(struct harness *harness)
{
    assert_true(failure.has_ended);
    thread_join(failure.thread);
    (void)harness;
}

TEST(a_start_that_fails_waits_for_a_stop_that_fails_at_the_same_time)
{
    static const struct image_ops failing_ops = { .open = open_while_another_fails, .decode = codec_decode };
    train->format.image = &failing_ops;
    struct harness harness = {
        .spec = { .datasets = { train }, .read_threads = 1, .decode_threads = 2 },
        .schedule = { .batch = BATCH, .towers = 1, .epochs = 1 },
        .depth = 2,
        .before_start = prepare_failure,
        .after_start = note_end,
    };
    harness_run(&harness);
    assert_int_equal(harness.start_result, -ECANCELED);
    assert_string_equal(harness.message, "something else");
    harness_release(&harness);
    train->format.image = &watching_ops;
}

TEST(the_plan_counts_what_codecs_take)
{
    const size_t bytes = decode_context_bytes(train);
    train->format.image = &image_raw_hwc_ops;
    assert_int_equal(bytes - sizeof(struct codec), decode_context_bytes(train) - image_raw_hwc_ops.codec_bytes);
    train->format.image = &watching_ops;
}

TESTS_MAIN(make_sets, remove_sets)
