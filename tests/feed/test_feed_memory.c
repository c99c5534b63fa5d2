/* A feed whose program runs out of memory: every allocation fails once, or all from it on, and what was opened is
 * closed. The feed reports MEMORY, or does without that memory; it never ends the process or waits for ever. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/feed/feed_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tests/helpers/tfrecord_fixture.h"

#define LIMIT_NS UINT64_C(60000000000)

/* Allocations before the one that fails; negative: none fails. */
static atomic_long left = -1;
static atomic_bool fails_on;    /* and all after it */

static bool is_failing(void)
{
    if (atomic_load(&left) < 0)
        return false;
    const long before = atomic_fetch_sub(&left, 1);
    if (before <= 0 && atomic_load(&fails_on))
        atomic_store(&left, 0);
    return before == 0 || (before < 0 && atomic_load(&fails_on));
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return is_failing() ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_failing() ? NULL : __real_calloc(count, bytes);
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_failing() ? NULL : __real_realloc(memory, bytes);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_failing() ? NULL : __real_aligned_alloc(alignment, bytes);
}

static int take_one(struct pipetrain_feed *feed, struct pipetrain_feed_problem *problem)
{
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    const int result = pipetrain_feed_take(feed, LIMIT_NS, &batch, problem);
    return result == PIPETRAIN_FEED_OK ? pipetrain_feed_give_back(feed, batch.handle) : result;
}

/* Open, take, seek, count and close. */
static int use(const struct pipetrain_feed_options *options, struct pipetrain_feed_problem *problem)
{
    struct pipetrain_feed *feed = NULL;
    uint64_t counts[FIXTURE_CLASSES];
    int result = pipetrain_feed_open(&feed, options, problem);
    if (result == PIPETRAIN_FEED_OK)
        result = take_one(feed, problem);
    if (result == PIPETRAIN_FEED_OK)
        result = pipetrain_feed_seek_to(feed, 0, 2, problem);
    if (result == PIPETRAIN_FEED_OK)
        result = take_one(feed, problem);
    if (result == PIPETRAIN_FEED_OK && !options->is_raw)
        result = pipetrain_feed_class_counts(feed, counts, FIXTURE_CLASSES, NULL, problem);
    pipetrain_feed_free(feed);
    return result;
}

/* Let each allocation fail, until there are no more. */
static void fail_each(const struct pipetrain_feed_options *options, bool all_after)
{
    long failed = 0;
    bool is_enough = false;
    for (long n = 0; !is_enough; n++) {
        struct pipetrain_feed_problem problem = { .message = "" };
        atomic_store(&fails_on, all_after);
        atomic_store(&left, n);
        const int result = use(options, &problem);
        is_enough = result == PIPETRAIN_FEED_OK && (all_after || atomic_load(&left) >= 0);
        atomic_store(&left, -1);
        assert_true(n < 10000);
        if (result == PIPETRAIN_FEED_OK)
            continue;
        assert_string_equal(pipetrain_feed_result_name(result), "MEMORY");
        assert_true(*problem.message != '\0');
        failed++;
    }
    assert_true(failed > 10);
}

TEST(any_allocation_may_fail)
{
    char place[300];
    if (test_is_sanitized())
        skip();
    fixture_write_set(fixture_subfolder(place, sizeof(place), "set"), 2, 45);
    struct pipetrain_feed_options options = feed_fixture_options(place);
    options.settings = "data.index_cache = no\ndata.classes = 10\ndata.balance = yes\ndata.on_corrupt = skip\n"
                       "augment.vertical_flip = yes\n";
    options.threads = 1;
    fail_each(&options, false);
    fail_each(&options, true);
    options.is_raw = true;
    options.settings = "data.index_cache = no\ndata.shuffle = block\ninput.keep_shards = 0\n";
    fail_each(&options, false);
    fail_each(&options, true);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
