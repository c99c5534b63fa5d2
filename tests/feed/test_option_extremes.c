/* Every option of a feed at the ends of its range, alone and with others: a feed opens and hands out batches, or says what
 * is wrong. No assert of the loader can be reached. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tests/helpers/tiny_images.h"
#include "tools/feed/pipetrain-feed.h"
#include "tools/lib/config/feed_settings.h"

#define SHARDS 3
#define RECORDS 7               /* of each shard */
#define VALUES_MAX 32
#define VALUE_BYTES 80
#define TAKES 5

static char set[300];

/* Shards of JPEG and PNG images of two sizes. */
static int write_set(void **state)
{
    uint8_t frames[RECORDS * FIXTURE_FRAME_MAX];
    const int rc = fixture_folder_make(state);
    fixture_subfolder(set, sizeof(set), "set");
    for (int shard = 0; shard < SHARDS; shard++) {
        size_t bytes = 0;
        char name[64];
        for (int i = 0; i < RECORDS; i++)
            bytes += i % 2 == 0 ? fixture_example("image/encoded", tiny_jpeg, sizeof(tiny_jpeg) - 1,
                                                  "image/class/label", i, frames + bytes)
                                : fixture_example("image/encoded", tiny_png, sizeof(tiny_png) - 1, "image/class/label",
                                                  i, frames + bytes);
        snprintf(name, sizeof(name), "train-%05d-of-%05d", shard, SHARDS);
        fixture_write(fixture_path(set, name), frames, bytes);
    }
    return rc;
}

struct values { size_t count; char text[VALUES_MAX][VALUE_BYTES]; };

static void add(struct values *values, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct values *values, const char *format, ...)
{
    va_list arguments;
    assert_true(values->count < VALUES_MAX);
    va_start(arguments, format);
    vsnprintf(values->text[values->count++], VALUE_BYTES, format, arguments);
    va_end(arguments);
}

/* Values of an option: the ends of its range, some inside it, and all choices. */
static void find_values(const struct option_row *option, struct values *values)
{
    const char *name;
    int choice;
    values->count = 0;
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_SIZE:
    case OPTION_DURATION:
        add(values, "%" PRId64, option->least);
        add(values, "%" PRId64, option->least + 1);
        add(values, "%" PRId64, option->most);
        add(values, "%" PRId64, option->least + (option->most / 2 - option->least / 2));
        break;
    case OPTION_NUMBER:
        add(values, "%.17g", option->low);
        add(values, "%.17g", (option->low + option->high) / 2);
        add(values, "%.17g", option->high_is_open ? 0.9999999 * option->high : option->high);
        break;
    case OPTION_NUMBERS:
        add(values, "%s", "");
        add(values, "%.17g", option->high);
        add(values, "1e-9, 1e-9");
        add(values, "1e-9, %.17g", option->high);
        add(values, "%.17g, %.17g", option->high, option->high);
        break;
    case OPTION_YES_NO:
        add(values, "yes");
        add(values, "no");
        break;
    case OPTION_CHOICE:
        for (size_t i = 0; (name = option_choice_at(option, i, &choice)) != NULL; i++)
            add(values, "%s", name);
        break;
    case OPTION_STRING:
    case OPTION_NAME:
        add(values, "%s", "");
        add(values, "image/encoded");
        add(values, "/");
        break;
    }
}

static void take_all(struct pipetrain_feed *feed)
{
    struct pipetrain_feed_problem problem;
    for (int i = 0; i < TAKES; i++) {
        struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
        const int result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem);
        assert_true(result == PIPETRAIN_FEED_OK || result == PIPETRAIN_FEED_END || result == PIPETRAIN_FEED_DATA ||
                    result == PIPETRAIN_FEED_MEMORY);
        if (result != PIPETRAIN_FEED_OK)
            return;
        assert_int_equal(pipetrain_feed_give_back(feed, batch.handle), PIPETRAIN_FEED_OK);
    }
}

/* A random number below `count`, number `i` of round `round`. */
static uint64_t draw(uint64_t round, uint64_t i, uint64_t count)
{
    return random_u64(random_key(46, RANDOM_ORDER, (uint32_t)round), i) % count;
}

/* Whether a feed with these options opens; if it does, take some batches. */
static bool try_feed(const struct pipetrain_feed_options *options)
{
    struct pipetrain_feed_problem problem = { .message = "" };
    struct pipetrain_feed *feed;
    const int result = pipetrain_feed_open(&feed, options, &problem);
    if (result == PIPETRAIN_FEED_OK) {
        take_all(feed);
        pipetrain_feed_free(feed);
        return true;
    }
    assert_true(result == PIPETRAIN_FEED_OPTION || result == PIPETRAIN_FEED_DATA || result == PIPETRAIN_FEED_MEMORY);
    assert_true(problem.message[0] != '\0');
    return false;
}

/* The options beside the settings that try number `i` uses. */
static struct pipetrain_feed_options options_of(uint64_t i, const char *settings)
{
    static const uint32_t batches[] = { 4, 2, 100, 21 }, sides[] = { 8, 1, 33 };
    return (struct pipetrain_feed_options){
        .struct_bytes = sizeof(struct pipetrain_feed_options),
        .shards = set,
        .settings = settings,
        .height = sides[i % 3],
        .width = sides[i / 2 % 3],
        .channels = i % 5 < 3 ? 3 : 1,
        .batch = batches[i / 3 % 4],
        .rank = i % 2 == 0 ? 0 : 1,
        .world = 2,
        .threads = 2,
        .epochs = i % 4,
        .seed = i,
        .is_evaluation = i % 7 == 3,
        .is_raw = i % 11 == 5,
        .drop_last = i % 3 == 1,
    };
}

TEST(every_option_at_its_ends_works_or_is_refused)
{
    const struct option_row *option;
    struct values values;
    uint64_t tries = 0, opened = 0;
    for (size_t i = 0; (option = feed_settings_option(i)) != NULL; i++) {
        find_values(option, &values);
        for (size_t v = 0; v < values.count; v++) {
            char settings[256];
            snprintf(settings, sizeof(settings), "data.index_cache = no\n%s.%s = %s", section_name(option->section),
                     option->key, values.text[v]);
            const struct pipetrain_feed_options options = options_of(tries++, settings);
            opened += try_feed(&options);
        }
    }
    assert_true(opened > tries / 2 && opened < tries);
}

TEST(options_at_their_ends_work_together_or_are_refused)
{
    const uint64_t rounds = test_is_long() ? 5000 : 300;
    uint64_t opened = 0;
    size_t count = 0;
    while (feed_settings_option(count) != NULL)
        count++;
    for (uint64_t round = 0; round < rounds; round++) {
        char settings[2048] = "data.index_cache = no\n";
        for (uint64_t i = 0; i < 5; i++) {
            struct values values;
            const struct option_row *const option = feed_settings_option(draw(round, i, count));
            const size_t used = strlen(settings);
            find_values(option, &values);
            if (strstr(option->key, "threads") == NULL)
                snprintf(settings + used, sizeof(settings) - used, "%s.%s = %s\n", section_name(option->section),
                         option->key, values.text[draw(round, 100 + i, values.count)]);
        }
        const struct pipetrain_feed_options options = options_of(draw(round, 200, 1 << 20), settings);
        opened += try_feed(&options);
    }
    assert_true(opened > rounds / 20);
}

TESTS_MAIN(write_set, fixture_folder_remove)
