/* Tests of the life of a feed: lending, closing, seeking, interrupting, forks, states and failures. */
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/thread.h"
#include "tests/feed/feed_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tests/helpers/tiny_images.h"

/* Steps of 8: the last one of an epoch has 5 samples. */
enum { RECORDS = 45, STEPS = 6, THREADS = 4 };

static const char *shards;      /* of a good set */

static const char *write_set(const char *name)
{
    static char place[300];
    fixture_write_set(fixture_subfolder(place, sizeof(place), name), 2, RECORDS);
    return place;
}

static int make_set(void **state)
{
    static char place[320];
    const int rc = fixture_folder_make(state);
    snprintf(place, sizeof(place), "%s/train-*", write_set("good"));
    shards = place;
    return rc;
}

static struct pipetrain_feed *open_epochs(uint64_t epochs)
{
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    options.epochs = epochs;
    return feed_fixture_open(&options);
}

static void assert_result(int result, int expected)
{
    assert_string_equal(pipetrain_feed_result_name(result), pipetrain_feed_result_name(expected));
}

static void give_back(struct pipetrain_feed *feed, uint64_t handle)
{
    assert_result(pipetrain_feed_give_back(feed, handle), PIPETRAIN_FEED_OK);
}

/* ---- lending ---- */

TEST(a_take_says_that_all_batches_are_lent)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    struct pipetrain_feed_batch batches[4], more = { .struct_bytes = sizeof(more) };
    for (int i = 0; i < 4; i++)
        batches[i] = feed_fixture_take(feed);
    assert_result(pipetrain_feed_take(feed, 0, &more, NULL), PIPETRAIN_FEED_LENT);
    assert_result(pipetrain_feed_take(feed, 1000000, &more, NULL), PIPETRAIN_FEED_LENT);
    if (test_is_long())
        assert_result(pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &more, NULL), PIPETRAIN_FEED_LENT);
    /* The others may be kept for as long as the caller likes. */
    give_back(feed, batches[2].handle);
    for (uint64_t step = 4; step < STEPS; step++) {
        more = feed_fixture_take(feed);
        assert_int_equal(more.step, step);
        give_back(feed, more.handle);
    }
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_END);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            give_back(feed, batches[i].handle);
    pipetrain_feed_free(feed);
}

TEST(a_take_ends_with_its_limit)
{
    struct pipetrain_feed *const feed = open_epochs(0);
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    uint64_t taken = 0;
    while (taken < 1000) {
        const int result = pipetrain_feed_take(feed, 0, &batch, NULL);
        assert_true(result == PIPETRAIN_FEED_OK || result == PIPETRAIN_FEED_TIME);
        if (result != PIPETRAIN_FEED_OK)
            continue;
        assert_int_equal(batch.step, taken++);
        give_back(feed, batch.handle);
    }
    pipetrain_feed_free(feed);
}

TEST(wrong_handles_are_errors)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_result(pipetrain_feed_give_back(feed, 0), PIPETRAIN_FEED_HANDLE);
    assert_result(pipetrain_feed_give_back(feed, batch.handle + 1), PIPETRAIN_FEED_HANDLE);
    give_back(feed, batch.handle);
    assert_result(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_HANDLE);
    pipetrain_feed_free(feed);
}

TEST(a_batch_of_a_caller_without_struct_bytes_is_refused)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    struct pipetrain_feed_batch batch = { 0 };
    assert_result(pipetrain_feed_take(feed, 0, &batch, NULL), PIPETRAIN_FEED_OPTION);
    pipetrain_feed_free(feed);
}

/* ---- threads ---- */

struct taker {
    struct pipetrain_feed *feed;
    struct thread *thread;
    atomic_uint *times;         /* of each step */
    uint64_t taken;
    int result;
};

static void take_all(void *arg)
{
    struct taker *const taker = arg;
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    do {
        taker->result = pipetrain_feed_take(taker->feed, PIPETRAIN_FEED_NO_LIMIT, &batch, NULL);
        if (taker->result != PIPETRAIN_FEED_OK)
            continue;
        if (taker->times != NULL)
            atomic_fetch_add(&taker->times[batch.step], 1);
        taker->taken++;
        if (pipetrain_feed_give_back(taker->feed, batch.handle) != PIPETRAIN_FEED_OK)
            taker->result = PIPETRAIN_FEED_INTERNAL;
    } while (taker->result == PIPETRAIN_FEED_OK || taker->result == PIPETRAIN_FEED_LENT);
}

static void start_takers(struct taker takers[THREADS], struct pipetrain_feed *feed, atomic_uint *times)
{
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (struct taker){ .feed = feed, .times = times };
        assert_int_equal(thread_start(&takers[i].thread, "taker", take_all, &takers[i]), 0);
    }
}

static void join_takers(struct taker takers[THREADS], int expected)
{
    for (int i = 0; i < THREADS; i++) {
        thread_join(takers[i].thread);
        assert_result(takers[i].result, expected);
    }
}

TEST(several_threads_take_each_batch_once)
{
    enum { EPOCHS = 20 };
    static atomic_uint times[EPOCHS * STEPS];
    struct taker takers[THREADS];
    struct pipetrain_feed *const feed = open_epochs(EPOCHS);
    start_takers(takers, feed, times);
    join_takers(takers, PIPETRAIN_FEED_END);
    for (int i = 0; i < EPOCHS * STEPS; i++)
        assert_int_equal(times[i], 1);
    pipetrain_feed_free(feed);
}

static void await_taken(struct pipetrain_feed *feed, uint64_t batches)
{
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    while (stats.batches < batches)
        assert_result(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_OK);
}

TEST(closing_ends_takes_of_other_threads)
{
    for (int i = 0; i < 5; i++) {
        struct taker takers[THREADS];
        struct pipetrain_feed *const feed = open_epochs(0);
        start_takers(takers, feed, NULL);
        await_taken(feed, 20);
        assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
        join_takers(takers, PIPETRAIN_FEED_CLOSED);
        pipetrain_feed_free(feed);
    }
}

static void seek_often(void *arg)
{
    struct taker *const taker = arg;
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    for (uint64_t i = 0; i < 20; i++) {
        taker->result = pipetrain_feed_seek_to(taker->feed, i, i % STEPS, NULL);
        if (taker->result != PIPETRAIN_FEED_OK || pipetrain_feed_stats(taker->feed, &stats) != PIPETRAIN_FEED_OK)
            return;
    }
}

TEST(seeks_of_several_threads_do_not_end_takes)
{
    struct taker takers[THREADS], seekers[2];
    struct pipetrain_feed *const feed = open_epochs(0);
    start_takers(takers, feed, NULL);
    for (int i = 0; i < 2; i++) {
        seekers[i] = (struct taker){ .feed = feed };
        assert_int_equal(thread_start(&seekers[i].thread, "seeker", seek_often, &seekers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        thread_join(seekers[i].thread);
        assert_result(seekers[i].result, PIPETRAIN_FEED_OK);
    }
    assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
    join_takers(takers, PIPETRAIN_FEED_CLOSED);
    pipetrain_feed_free(feed);
}

/* ---- closing ---- */

TEST(a_closed_feed_says_so)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    char text[PIPETRAIN_FEED_STATE_BYTES];
    uint64_t number;
    size_t bytes;
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
    assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_seek_to(feed, 0, 0, NULL), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_state(feed, 0, 0, text, &bytes, NULL), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_seek(feed, text, 0, NULL), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_position(feed, &number, &number), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_info(feed, &info), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_class_name(feed, 0, text, 1), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_class_counts(feed, &number, 1, NULL, NULL), PIPETRAIN_FEED_CLOSED);
    assert_result(pipetrain_feed_messages(feed, text, sizeof(text)), PIPETRAIN_FEED_OK);
    give_back(feed, batch.handle);
    pipetrain_feed_free(feed);
    pipetrain_feed_free(NULL);
}

static void assert_pixels(const struct pipetrain_feed_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        uint8_t pixels[FIXTURE_SAMPLE_BYTES];
        fixture_pixels(batch->ids[i], pixels);
        assert_memory_equal(batch->images + i * FIXTURE_SAMPLE_BYTES, pixels, sizeof(pixels));
        assert_int_equal(batch->labels[i], fixture_label(batch->ids[i]));
    }
}

/* Batches are lent by three positions of the feed, and given back after it was freed. */
TEST(lent_batches_outlive_seeks_and_the_feed)
{
    struct pipetrain_feed *const feed = open_epochs(2);
    struct pipetrain_feed_batch batches[6];
    for (uint64_t i = 0; i < 3; i++) {
        assert_result(pipetrain_feed_seek_to(feed, 1, i, NULL), PIPETRAIN_FEED_OK);
        batches[2 * i] = feed_fixture_take(feed);
        batches[2 * i + 1] = feed_fixture_take(feed);
        assert_int_equal(batches[2 * i + 1].step_of_epoch, i + 1);
    }
    give_back(feed, batches[0].handle);
    give_back(feed, batches[5].handle);
    feed_fixture_skip(feed, 2);
    pipetrain_feed_free(feed);
    for (int i = 1; i < 5; i++) {
        assert_pixels(&batches[i]);
        give_back(feed, batches[i].handle);
    }
}

/* The number of entries in a folder of /proc/self. */
static int count_entries(const char *path)
{
    int count = 0;
    DIR *const dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void open_and_close(int times)
{
    for (int i = 0; i < times; i++) {
        struct pipetrain_feed *const feed = open_epochs(i % 2);
        const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
        if (i % 3 == 0)
            give_back(feed, batch.handle);
        pipetrain_feed_free(feed);
        if (i % 3 != 0)
            give_back(feed, batch.handle);
    }
}

TEST(many_openings_leave_nothing)
{
    open_and_close(20);
    const int files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    const size_t bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
    open_and_close(test_is_long() ? 10000 : test_is_sanitized() ? 50 : 1000);
    assert_int_equal(count_entries("/proc/self/fd"), files);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    /* Less than the smallest allocation for each. What threads free stays in their caches for a while. */
    assert_at_most(mallinfo2().uordblks + mallinfo2().hblkhd, bytes + 16384);
}

struct allocations { uint64_t allocated, released; size_t bytes; bool is_short; };

static void *allocate(void *arg, size_t bytes)
{
    struct allocations *const allocations = arg;
    if (allocations->is_short && allocations->allocated == 2)
        return NULL;
    allocations->allocated++;
    allocations->bytes = bytes;
    return aligned_alloc(64, bytes);
}

static void release(void *arg, void *memory, size_t bytes)
{
    struct allocations *const allocations = arg;
    assert_int_equal(bytes, allocations->bytes);
    allocations->released++;
    free(memory);
}

TEST(the_callers_memory_is_used_and_released)
{
    struct allocations allocations = { 0 };
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
    options.allocate = allocate;
    options.release = release;
    options.memory_arg = &allocations;
    options.depth = 3;
    struct pipetrain_feed *feed = feed_fixture_open(&options);
    assert_result(pipetrain_feed_info(feed, &info), PIPETRAIN_FEED_OK);
    assert_int_equal(allocations.allocated, 3);
    assert_int_equal(allocations.bytes, info.batch_bytes);
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_result(pipetrain_feed_seek_to(feed, 0, 1, NULL), PIPETRAIN_FEED_OK);        /* one is lent: three more */
    assert_result(pipetrain_feed_seek_to(feed, 0, 2, NULL), PIPETRAIN_FEED_OK);        /* none is: the same three */
    assert_int_equal(allocations.allocated, 6);
    give_back(feed, batch.handle);
    assert_int_equal(allocations.released, 3);
    pipetrain_feed_free(feed);
    assert_int_equal(allocations.released, 6);
    allocations = (struct allocations){ .is_short = true };
    feed_fixture_assert_refused(&options, PIPETRAIN_FEED_MEMORY, "no memory for 3 batches of ");
    assert_int_equal(allocations.released, 2);
}

/* ---- signals and processes ---- */

static struct pipetrain_feed *to_interrupt;

static void interrupt(int signal_number)
{
    (void)signal_number;
    pipetrain_feed_interrupt(to_interrupt);
}

TEST(a_signal_handler_interrupts_takes_until_resumed)
{
    struct taker takers[THREADS];
    struct pipetrain_feed *const feed = to_interrupt = open_epochs(0);
    const struct sigaction action = { .sa_handler = interrupt };
    struct sigaction before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    start_takers(takers, feed, NULL);
    await_taken(feed, 10);
    assert_int_equal(raise(SIGUSR1), 0);
    join_takers(takers, PIPETRAIN_FEED_INTERRUPTED);
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_INTERRUPTED);
    pipetrain_feed_resume(feed);
    uint64_t taken = 0;
    for (int i = 0; i < THREADS; i++)
        taken += takers[i].taken;
    assert_int_equal(feed_fixture_take(feed).step, taken);
    assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    give_back(feed, taken + 1);         /* handles count the batches */
    pipetrain_feed_free(feed);
}

/* The exit code is the number of the first function that does not notice the fork. */
static int use_in_child(struct pipetrain_feed *feed, uint64_t handle)
{
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    char text[PIPETRAIN_FEED_STATE_BYTES];
    uint64_t number;
    size_t bytes;
    const int results[] = {
        pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, NULL),
        pipetrain_feed_give_back(feed, handle),
        pipetrain_feed_state(feed, 0, 0, text, &bytes, NULL),
        pipetrain_feed_seek(feed, text, 0, NULL),
        pipetrain_feed_seek_to(feed, 0, 0, NULL),
        pipetrain_feed_position(feed, &number, &number),
        pipetrain_feed_info(feed, &info),
        pipetrain_feed_stats(feed, &stats),
        pipetrain_feed_class_name(feed, 0, text, 1),
        pipetrain_feed_class_counts(feed, &number, 1, NULL, NULL),
        pipetrain_feed_damaged(feed, 0, &(struct pipetrain_feed_problem){ 0 }),
        pipetrain_feed_messages(feed, text, sizeof(text)),
        pipetrain_feed_close(feed),
    };
    pipetrain_feed_free(feed);
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i] != PIPETRAIN_FEED_FORKED)
            return (int)i + 1;
    return 0;
}

TEST(a_child_is_refused_and_the_parent_goes_on)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(use_in_child(feed, batch.handle));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    give_back(feed, batch.handle);
    feed_fixture_skip(feed, STEPS - 1);
    pipetrain_feed_free(feed);
}

/* ---- states ---- */

static size_t write_state(struct pipetrain_feed *feed, char text[PIPETRAIN_FEED_STATE_BYTES])
{
    size_t bytes = 0;
    assert_result(pipetrain_feed_state(feed, 0, 4, text, &bytes, NULL), PIPETRAIN_FEED_OK);
    return bytes;
}

TEST(a_state_that_is_cut_or_changed_anywhere_is_refused)
{
    struct pipetrain_feed *const feed = open_epochs(1);
    char text[PIPETRAIN_FEED_STATE_BYTES];
    const size_t bytes = write_state(feed, text);
    for (size_t i = 0; i < bytes; i++) {
        assert_result(pipetrain_feed_seek(feed, text, i, NULL), PIPETRAIN_FEED_STATE);
        text[i] ^= 1;
        assert_result(pipetrain_feed_seek(feed, text, bytes, NULL), PIPETRAIN_FEED_STATE);
        text[i] ^= 1;
    }
    feed_fixture_skip(feed, 1);         /* nothing has changed */
    assert_result(pipetrain_feed_seek(feed, text, bytes, NULL), PIPETRAIN_FEED_OK);
    assert_int_equal(feed_fixture_take(feed).step, 4);
    assert_result(pipetrain_feed_close(feed), PIPETRAIN_FEED_OK);
    give_back(feed, 2);
    pipetrain_feed_free(feed);
}

TEST(a_state_of_another_set_or_order_is_refused_by_name)
{
    const struct { struct pipetrain_feed_options options; const char *said; } rows[] = {
        { { .batch = 9 }, "\"batch = 8\", and this feed has \"batch = 9\"" },
        { { .seed = 6 }, "\"seed = 5\", and this feed has \"seed = 6\"" },
        { { .drop_last = true }, "\"drop_last = no\", and this feed has \"drop_last = yes\"" },
        { { .is_evaluation = true }, "\"mode = training\", and this feed has \"mode = evaluation\"" },
        { { .settings = "data.index_cache = no\ndata.shuffle = none" }, "\"data.shuffle = full\"" },
        { { .settings = "data.index_cache = no\ndata.shuffle = block\ndata.lanes = 2" }, "\"data.shuffle = full\"" },
        { { .settings = "data.index_cache = no\ndata.limit = 40" }, "\"records = 45\"" },
        { { .shards = "other" }, "\"set = " },
    };
    char text[PIPETRAIN_FEED_STATE_BYTES], other[300];
    struct pipetrain_feed *feed = open_epochs(1);
    const size_t bytes = write_state(feed, text);
    pipetrain_feed_free(feed);
    fixture_subfolder(other, sizeof(other), "other");
    fixture_write_shard(fixture_path(other, "train-00000-of-00001"), 1, RECORDS);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct pipetrain_feed_options *const change = &rows[i].options;
        struct pipetrain_feed_options options = feed_fixture_options(change->shards != NULL ? other : shards);
        struct pipetrain_feed_problem problem = { .message = "" };
        options.batch = change->batch > 0 ? change->batch : options.batch;
        options.seed = change->seed > 0 ? change->seed : options.seed;
        options.settings = change->settings != NULL ? change->settings : options.settings;
        options.drop_last = change->drop_last;
        options.is_evaluation = change->is_evaluation;
        feed = feed_fixture_open(&options);
        assert_result(pipetrain_feed_seek(feed, text, bytes, &problem), PIPETRAIN_FEED_STATE);
        assert_non_null(strstr(problem.message, rows[i].said));
        pipetrain_feed_free(feed);
    }
}

TEST(positions_outside_the_epochs_are_refused)
{
    struct pipetrain_feed *const feed = open_epochs(2);
    struct pipetrain_feed_problem problem;
    uint64_t epoch, step;
    assert_result(pipetrain_feed_seek_to(feed, 0, STEPS + 1, &problem), PIPETRAIN_FEED_OPTION);
    assert_string_equal(problem.message, "there is no step 7 of epoch 0: the feed has 2 epochs of 6 steps");
    assert_result(pipetrain_feed_seek_to(feed, 2, 1, NULL), PIPETRAIN_FEED_OPTION);
    assert_result(pipetrain_feed_seek_to(feed, UINT64_MAX, UINT64_MAX, NULL), PIPETRAIN_FEED_OPTION);
    assert_result(pipetrain_feed_seek_to(feed, 0, STEPS, NULL), PIPETRAIN_FEED_OK);
    assert_result(pipetrain_feed_position(feed, &epoch, &step), PIPETRAIN_FEED_OK);
    assert_int_equal(epoch, 1);
    assert_int_equal(step, 0);
    assert_result(pipetrain_feed_seek_to(feed, 2, 0, NULL), PIPETRAIN_FEED_OK);
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_END);
    assert_result(pipetrain_feed_seek_to(feed, 1, 5, NULL), PIPETRAIN_FEED_OK);
    feed_fixture_skip(feed, 1);
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_END);
    pipetrain_feed_free(feed);
}

/* ---- failures ---- */

TEST(wrong_options_are_refused_in_words)
{
    static const struct { struct pipetrain_feed_options options; int result; const char *said; } rows[] = {
        { { .batch = 0 }, PIPETRAIN_FEED_OPTION, "batch is 0" },
        { { .batch = 8, .height = 0 }, PIPETRAIN_FEED_OPTION, "height and width are 0 and 3" },
        { { .batch = 8, .height = 4, .channels = 17 }, PIPETRAIN_FEED_OPTION, "channels is 17" },
        { { .batch = 8, .height = 4, .rank = 1 }, PIPETRAIN_FEED_OPTION, "rank is 1: with world 1" },
        { { .batch = 8, .height = 4, .world = 9 }, PIPETRAIN_FEED_OPTION, "which 9 ranks cannot share" },
        { { .batch = 8, .height = 4, .depth = 2000 }, PIPETRAIN_FEED_OPTION, "depth is 2000" },
        { { .batch = 8, .height = 4, .threads = 2000 }, PIPETRAIN_FEED_OPTION, "threads is 2000" },
        { { .batch = 8, .height = 4, .epochs = 1ull << 32 }, PIPETRAIN_FEED_OPTION, "epochs is 4294967296" },
        { { .batch = 60, .height = 4, .drop_last = true }, PIPETRAIN_FEED_OPTION, "larger than the set of 45 records" },
        { { .batch = 8, .height = 4, .allocate = allocate }, PIPETRAIN_FEED_OPTION, "both allocate and release" },
        { { .batch = 8, .height = 4, .settings = "augment.corp = none" }, PIPETRAIN_FEED_OPTION, "mean 'crop'" },
        { { .batch = 8, .height = 4, .settings = "augment.crop = no\ndata.lanes = x" }, PIPETRAIN_FEED_OPTION, "data" },
        { { .batch = 8, .height = 4, .settings = "train.epochs = 3" }, PIPETRAIN_FEED_OPTION, "train" },
        { { .batch = 8, .height = 4, .world = 2, .settings = "data.shuffle = block\ndata.lanes = 3" },
          PIPETRAIN_FEED_OPTION, "lanes" },
        { { .batch = 8, .height = 4, .is_raw = true, .settings = "data.balance = yes" }, PIPETRAIN_FEED_OPTION,
          "raw records have none" },
        { { .batch = 8, .height = 4, .channels = 3 }, PIPETRAIN_FEED_DATA, "has 24 bytes of pixels" },
        { { .batch = 8, .height = 4, .shards = "missing-*" }, PIPETRAIN_FEED_DATA, "missing-*" },
        { { .batch = 8, .height = 4, .shards = "" }, PIPETRAIN_FEED_OPTION, "shards is empty" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pipetrain_feed_options options = rows[i].options;
        options.struct_bytes = sizeof(options);
        options.shards = options.shards != NULL ? options.shards : shards;
        options.width = FIXTURE_WIDTH;
        options.channels = options.channels > 0 ? options.channels : FIXTURE_CHANNELS;
        feed_fixture_assert_refused(&options, rows[i].result, rows[i].said);
    }
}

TEST(options_of_other_versions_are_taken_if_they_set_nothing_unknown)
{
    struct { struct pipetrain_feed_options options; uint64_t newer; } larger = { feed_fixture_options(shards), 0 };
    larger.options.struct_bytes = sizeof(larger);
    pipetrain_feed_free(feed_fixture_open(&larger.options));
    larger.newer = 1;
    feed_fixture_assert_refused(&larger.options, PIPETRAIN_FEED_OPTION, "compiled for a newer one");
    larger.options.struct_bytes = 8;
    feed_fixture_assert_refused(&larger.options, PIPETRAIN_FEED_OPTION, "struct_bytes is 8");
}

TEST(an_unwanted_opening_ends)
{
    const bool is_unwanted = true;
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    options.is_unwanted = &is_unwanted;
    feed_fixture_assert_refused(&options, PIPETRAIN_FEED_INTERRUPTED, "");
}

/* An image of 8 x 8 pixels, and a limit for one of two feeds that are open. */
TEST(each_feed_has_its_limit_of_pixels)
{
    char place[300];
    uint8_t frame[FIXTURE_FRAME_MAX];
    fixture_subfolder(place, sizeof(place), "jpeg");
    const size_t bytes =
        fixture_example("image/encoded", tiny_jpeg, sizeof(tiny_jpeg) - 1, "image/class/label", 3, frame);
    fixture_write(fixture_path(place, "train-00000-of-00001"), frame, bytes);
    struct pipetrain_feed_options options = feed_fixture_options(place);
    options.height = options.width = 8;
    options.channels = 1;
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    options.settings = "data.index_cache = no\ninput.max_pixels = 63";
    feed_fixture_assert_refused(&options, PIPETRAIN_FEED_DATA, "it has 8x8 pixels, and input.max_pixels is 63");
    struct pipetrain_feed *refused = NULL;
    struct pipetrain_feed_problem problem;
    assert_result(pipetrain_feed_open(&refused, &options, &problem), PIPETRAIN_FEED_DATA);
    assert_int_equal(problem.record, 0);
    assert_string_equal(problem.file, fixture_path(place, "train-00000-of-00001"));
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_in_range(batch.images[0], 88, 92);
    assert_int_equal(batch.labels[0], 3);
    pipetrain_feed_free(feed);
    give_back(feed, batch.handle);
}

/* Write a set of one shard whose record `bad` has a flipped bit. */
static const char *write_damaged(const char *name, uint64_t bad, char place[300])
{
    uint8_t frame[FIXTURE_FRAME_MAX];
    size_t bytes, offset = 0;
    fixture_subfolder(place, 300, name);
    const char *const path = fixture_path(place, "train-00000-of-00001");
    fixture_write_shard(path, 0, RECORDS);
    uint8_t *const shard = fixture_read(path, &bytes);
    for (uint64_t id = 0; id < bad; id++)
        offset += fixture_record(id, frame);
    shard[offset + 40] ^= 4;
    fixture_write(path, shard, bytes);
    free(shard);
    return strcat(place, "/train-*");
}

TEST(damage_fails_every_take_until_a_seek)
{
    char place[300];
    struct pipetrain_feed_options options = feed_fixture_options(write_damaged("damage", 12, place));
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed_problem problem = { .record = 0 };
    options.settings = "data.index_cache = no\ndata.classes = 10\ndata.shuffle = none";
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    int result;
    while ((result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem)) == PIPETRAIN_FEED_OK)
        give_back(feed, batch.handle);
    assert_result(result, PIPETRAIN_FEED_DATA);
    assert_int_equal(problem.record, 12);
    assert_non_null(strstr(problem.file, "/damage/train-00000-of-00001"));
    assert_non_null(strstr(problem.message, ": record 12 at byte "));
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_DATA);
    assert_result(pipetrain_feed_seek_to(feed, 0, 2, NULL), PIPETRAIN_FEED_OK);
    feed_fixture_skip(feed, STEPS - 2);
    feed_fixture_assert_take(feed, PIPETRAIN_FEED_END);
    pipetrain_feed_free(feed);
}

TEST(damage_that_is_left_out_is_counted_and_described)
{
    char place[300];
    struct pipetrain_feed_options options = feed_fixture_options(write_damaged("skipped", 12, place));
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    struct pipetrain_feed_problem damage;
    char text[4096];
    options.settings = "data.index_cache = no\ndata.classes = 10\ndata.on_corrupt = skip\ndata.shuffle = none";
    options.epochs = 2;
    struct pipetrain_feed *feed = feed_fixture_open(&options);
    feed_fixture_skip(feed, 1);
    struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_int_equal(batch.ids[4], 13);         /* instead of 12: the next one as stored */
    give_back(feed, batch.handle);
    feed_fixture_skip(feed, 2 * STEPS - 2);
    assert_result(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_OK);
    assert_int_equal(stats.damaged_records, 1);
    assert_result(pipetrain_feed_damaged(feed, 0, &damage), PIPETRAIN_FEED_OK);
    assert_int_equal(damage.record, 12);
    assert_result(pipetrain_feed_seek_to(feed, 1, 0, NULL), PIPETRAIN_FEED_OK);        /* it is found again */
    feed_fixture_skip(feed, STEPS);
    assert_result(pipetrain_feed_damaged(feed, 1, &damage), PIPETRAIN_FEED_END);
    assert_result(pipetrain_feed_messages(feed, text, sizeof(text)), PIPETRAIN_FEED_OK);
    assert_non_null(strstr(text, "record 12 at byte "));
    pipetrain_feed_free(feed);
    options.is_evaluation = true;
    feed = feed_fixture_open(&options);
    feed_fixture_skip(feed, 1);
    batch = feed_fixture_take(feed);
    assert_int_equal(batch.labels[4], PIPETRAIN_FEED_NO_LABEL);
    assert_int_equal(batch.labels[3], fixture_label(11));
    pipetrain_feed_free(feed);
    give_back(feed, batch.handle);
}

TEST(raw_records_that_are_damaged_are_left_out_of_an_evaluation)
{
    char place[300];
    struct pipetrain_feed_options options = feed_fixture_options(write_damaged("raw", 12, place));
    options.settings = "data.index_cache = no\ndata.on_corrupt = skip";
    options.is_evaluation = options.is_raw = true;
    options.depth = 1;
    options.epochs = 2;
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    for (int step = 0; step < 2 * STEPS; step++) {
        const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
        for (uint32_t i = 0; i < batch.count; i++)
            assert_true((batch.records[i].bytes == NULL) == (batch.ids[i] == 12));
        give_back(feed, batch.handle);
    }
    pipetrain_feed_free(feed);
}

TEST(more_damage_than_accepted_fails)
{
    char place[300];
    struct pipetrain_feed_options options = feed_fixture_options(write_damaged("limit", 12, place));
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed_problem problem;
    int result;
    options.settings = "data.index_cache = no\ndata.classes = 10\ndata.on_corrupt = skip\ndata.max_corrupt = 0";
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    while ((result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem)) == PIPETRAIN_FEED_OK)
        give_back(feed, batch.handle);
    assert_result(result, PIPETRAIN_FEED_DATA);
    assert_non_null(strstr(problem.message, "data.max_corrupt"));
    pipetrain_feed_free(feed);
}

/* ---- facts ---- */

TEST(facts_are_those_of_the_set)
{
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    struct pipetrain_feed_info info = { .struct_bytes = sizeof(info) };
    uint64_t counts[FIXTURE_CLASSES], expected[FIXTURE_CLASSES] = { 0 }, others = 1;
    options.world = 2;
    options.rank = 1;
    options.depth = 3;
    struct pipetrain_feed *const feed = feed_fixture_open(&options);
    assert_result(pipetrain_feed_info(feed, &info), PIPETRAIN_FEED_OK);
    assert_int_equal(info.records, RECORDS);
    assert_int_equal(info.steps_per_epoch, STEPS);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.count_max, 4);
    assert_int_equal(info.depth, 3);
    assert_int_equal(info.shards, 2);
    assert_int_equal(info.height, FIXTURE_HEIGHT);
    assert_result(pipetrain_feed_class_counts(feed, counts, FIXTURE_CLASSES, &others, NULL), PIPETRAIN_FEED_OK);
    for (uint64_t id = 0; id < RECORDS; id++)
        expected[fixture_label(id)]++;
    assert_memory_equal(counts, expected, sizeof(counts));
    assert_int_equal(others, 0);
    assert_result(pipetrain_feed_class_counts(feed, counts, 4, &others, NULL), PIPETRAIN_FEED_OK);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3] + others, RECORDS);
    pipetrain_feed_free(feed);
}

TEST(statistics_name_what_limits)
{
    struct pipetrain_feed *const feed = open_epochs(10);
    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    assert_result(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_OK);
    assert_string_equal(stats.limit, "");
    assert_true(stats.read_busy == 0 && stats.decode_busy == 0);      /* what is prepared before a take does not count */
    feed_fixture_skip(feed, 59);
    const struct pipetrain_feed_batch batch = feed_fixture_take(feed);
    assert_result(pipetrain_feed_stats(feed, &stats), PIPETRAIN_FEED_OK);
    assert_int_equal(stats.batches, 60);
    assert_int_equal(stats.samples, 10 * RECORDS);
    assert_int_equal(stats.lent, 1);
    assert_true(stats.read_bytes > 0 && stats.read_busy <= 1 && stats.decode_busy > 0 && stats.decode_busy <= 1);
    assert_non_null(strstr(stats.limit, "takes waited "));
    pipetrain_feed_free(feed);
    give_back(feed, batch.handle);
}

TEST(messages_are_queued_instead_of_printed)
{
    struct pipetrain_feed_options options = feed_fixture_options(shards);
    char text[4096], more[16], printed[4096];
    options.settings = "data.index_cache = no\ndata.classes = 10\ndata.shuffle_window = 1 MiB\naugment.pad = 2";
    struct pipetrain_feed *const feed = CAPTURE(printed, feed_fixture_open(&options));
    assert_string_equal(printed, "");
    assert_result(pipetrain_feed_messages(feed, more, sizeof(more)), PIPETRAIN_FEED_OK);
    assert_int_equal(strlen(more), sizeof(more) - 1);          /* the beginning of a line that does not fit */
    assert_result(pipetrain_feed_messages(feed, text, sizeof(text)), PIPETRAIN_FEED_OK);
    assert_non_null(strstr(text, "shuffle"));
    assert_non_null(strstr(text, "pad"));
    assert_result(pipetrain_feed_messages(feed, text, sizeof(text)), PIPETRAIN_FEED_OK);
    assert_string_equal(text, "");
    pipetrain_feed_free(feed);
}

TEST(keys_are_those_of_three_sections)
{
    struct pipetrain_feed_key key = { .struct_bytes = sizeof(key) };
    uint32_t count = 0, crops = 0;
    for (; pipetrain_feed_key(count, &key) == PIPETRAIN_FEED_OK; count++) {
        assert_true(strncmp(key.name, "data.", 5) == 0 || strncmp(key.name, "input.", 6) == 0 ||
                    strncmp(key.name, "augment.", 8) == 0);
        assert_true(*key.type != '\0' && *key.help != '\0');
        if (strcmp(key.name, "augment.crop") == 0) {
            assert_string_equal(key.type, "choice");
            assert_string_equal(key.initial, "auto");
            assert_non_null(strstr(key.range, "resized"));
            crops++;
        }
    }
    assert_true(count > 30);
    assert_int_equal(crops, 1);
}

TEST(every_result_has_a_name)
{
    for (int result = PIPETRAIN_FEED_OK; result <= PIPETRAIN_FEED_INTERNAL; result++)
        assert_string_not_equal(pipetrain_feed_result_name(result), "?");
    assert_string_equal(pipetrain_feed_result_name(-1), "?");
    assert_string_equal(pipetrain_feed_result_name(PIPETRAIN_FEED_INTERNAL + 1), "?");
    assert_true(*pipetrain_feed_version() >= '0' && *pipetrain_feed_version() <= '9');
}

TESTS_MAIN(make_set, fixture_folder_remove)
