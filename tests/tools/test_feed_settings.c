/* Tests of the options that a feed takes as text. */
#include <errno.h>
#include <string.h>

#include "stage/log.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/feed_settings.h"

#define USUAL { .height = 224, .width = 224, .channels = 3, .batch = 64, .ranks = 1 }
static const struct feed_facts usual = USUAL;

static char logged[4096];

static void keep_message(void *arg, enum log_level level, const char *text)
{
    assert_int_equal(level, LOG_RUN);
    assert_ptr_equal(arg, logged);
    strcat(logged, text);
    strcat(logged, "\n");
}

/* feed_settings_read, with what it logs in `logged`. */
static int read_text(struct settings *settings, const char *text, const struct feed_facts *facts,
                     struct problems *problems)
{
    const struct log_sink sink = { keep_message, logged };
    problems_init(problems);
    logged[0] = '\0';
    (void)log_sink_set(&sink);
    const int rc = feed_settings_read(settings, text, facts, problems);
    (void)log_sink_set(NULL);
    return rc;
}

TEST(lines_set_options_and_later_ones_win)
{
    struct settings settings;
    struct problems problems;
    assert_int_equal(read_text(&settings, "data.shuffle = block\n\n  \ndata.lanes=8\naugment.crop =resized\n"
                               "augment.crop_area = 0.25, 1\ninput.keep_shards = 1 GiB\naugment.flip= yes \n"
                               "data.class_names = a = b # c\naugment.crop=pad\naugment.crop = resized", &usual,
                               &problems), 0);
    assert_int_equal(settings.data.shuffle, SHUFFLE_BLOCK);
    assert_int_equal(settings.data.lanes, 8);
    assert_int_equal(settings.augment.crop, CROP_RESIZED);
    assert_int_equal(settings.augment.crop_area.count, 2);
    assert_int_equal(settings.input.keep_shards, INT64_C(1) << 30);
    assert_true(settings.augment.flip);
    assert_string_equal(settings.data.class_names, "a = b # c");
    assert_int_equal(settings.input.prefetch_depth, 4);
    assert_string_equal(logged, "");
    settings_release(&settings);
}

TEST(without_text_all_options_have_their_defaults)
{
    static const char *const texts[] = { NULL, "", "\n" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct settings settings;
        struct problems problems;
        assert_int_equal(read_text(&settings, texts[i], &usual, &problems), 0);
        for (const struct option_row *row = option_table; row->key != NULL; row++)
            assert_true(option_is_default(row, &settings));
        settings_release(&settings);
    }
}

TEST(what_is_wrong_is_said_by_the_name_of_the_option)
{
    static const struct { const char *text; struct feed_facts facts; const char *problem; } cases[] = {
        { "augment.crop = resize", USUAL, "augment.crop: 'resize' is not one of: auto, none, central, resized, box, pad, "
          "shift, evaluated (did you mean 'resized'?)" },
        { "augment.rotation = 181", USUAL, "augment.rotation: 181 is out of range (0 to 180)" },
        { "augment.rotate = 5", USUAL, "augment.rotate: unknown key 'rotate' in [augment] (pipetrain calls it "
          "'rotation')" },
        { "augment.flips = yes", USUAL, "augment.flips: unknown key 'flips' in [augment] (did you mean 'flip'?)" },
        { "augment.lanes = 2", USUAL, "augment.lanes: unknown key 'lanes' in [augment] (it belongs in [data])" },
        { "augment.batch = 2", USUAL, "augment.batch: unknown key 'batch' in [augment]" },
        { "augment.schedule = cosine", USUAL, "augment.schedule: unknown key 'schedule' in [augment]" },
        { "augmnt.flip = yes", USUAL, "augmnt.flip: unknown section [augmnt] (did you mean [augment]?)" },
        { "augment.flip", USUAL, "augment.flip: '=' is missing: section.key=value" },
        { "data.image_key = \xff", USUAL, "data.image_key: the value is not UTF-8" },
        { "data.limit = -1", USUAL, "data.limit: -1 is out of range (0 or more)" },
        { "data.train = a", USUAL, "data.train: is none of a feed: the shards are an option of their own" },
        { "run.seed = 1", USUAL, "run.seed: is none of a feed: the seed is an option of its own" },
        { "augment.train_size = 160", USUAL, "augment.train_size: is none of a feed: height and width are options of "
          "their own" },
        { "train.batch = 64", USUAL, "train.batch: is none of a feed: it reads images and trains nothing" },
        { "devices.kind = cuda", USUAL, "devices.kind: is none of a feed: it reads images and trains nothing" },
        { "input.source = synthetic", USUAL, "input.source: a feed reads shards: use real or cached" },
        { "data.lanes = 4", USUAL, "data.lanes: lanes are parts of an order of blocks: set data.shuffle = block, or leave "
          "lanes out" },
        { "data.balance = yes\ndata.shuffle = none", USUAL, "data.balance: chooses single records, and data.shuffle = "
          "block and none read them in order: set data.shuffle = full" },
        { "augment.crop_area = 0.5", USUAL, "augment.crop_area: has to be two numbers, the smaller one first and above "
          "0, as in 0.25, 1" },
        { "augment.crop_aspect = 2, 1", USUAL, "augment.crop_aspect: has to be two numbers, the smaller one first and "
          "above 0, as in 0.25, 1" },
        { "augment.evaluation_resize = 200", USUAL, "augment.evaluation_resize: resized to 200 pixels an image is "
          "smaller than the crop of 224 x 224: at least 224" },
        { "augment.evaluation_resize = 256\naugment.filter = area", USUAL, "augment.evaluation_resize: needs filter = "
          "bilinear or bicubic; with other filters use evaluation_scale" },
        { "augment.policy = rand_augment", { .height = 8, .width = 8, .channels = 4, .batch = 2, .ranks = 1 },
          "augment.policy: changes images of 1 or 3 channels, and these have 4: none is possible" },
        { "augment.mixup = 0.2", { .height = 8, .width = 8, .channels = 3, .batch = 1, .ranks = 1 },
          "augment.mixup: has nothing to mix with in batches of one sample: use a larger batch" },
        { "data.lanes = 4\ndata.shuffle = block", { .height = 8, .width = 8, .channels = 3, .batch = 6, .ranks = 3 },
          "data.lanes: 4 lanes cannot be shared equally by 3 ranks: set it to 6, or to another multiple of the number of "
          "ranks; to resume a run of 4 lanes start a number of ranks that divides them" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct settings settings;
        struct problems problems;
        assert_int_equal(read_text(&settings, cases[i].text, &cases[i].facts, &problems), -EINVAL);
        assert_int_equal(problems.count, 1);
        assert_string_equal(problems.lines[0], cases[i].problem);
        assert_string_equal(logged, "");
        problems_release(&problems);
    }
}

TEST(every_line_with_a_problem_is_reported)
{
    struct settings settings;
    struct problems problems;
    assert_int_equal(read_text(&settings, "augment.flip = maybe\naugment.pad = 65\nmodel.name = lenet5\ndata.lanes = 2",
                               &usual, &problems), -EINVAL);
    assert_int_equal(problems.count, 4);
    problems_release(&problems);
}

TEST(an_option_without_an_effect_is_logged)
{
    struct settings settings;
    struct problems problems;
    assert_int_equal(read_text(&settings, "augment.pad = 8\ndata.shuffle_window = 1 GiB", &usual, &problems), 0);
    assert_string_equal(logged, "data.shuffle_window = 1 GiB has no effect with data.shuffle = full; only block uses it\n"
                                "augment.pad = 8 has no effect with augment.crop = auto; only pad uses it\n");
    settings_release(&settings);
}

/* A program opens the feeds of training and validation with the same text. */
TEST(evaluation_and_raw_records_accept_what_only_training_images_need)
{
    struct feed_facts facts = { .height = 8, .width = 8, .channels = 3, .batch = 1, .ranks = 3 };
    struct settings settings;
    struct problems problems;
    const char *const text = "augment.mixup = 0.2\ndata.lanes = 4\ndata.shuffle = block";
    assert_int_equal(read_text(&settings, text, &facts, &problems), -EINVAL);
    problems_release(&problems);
    facts.is_evaluation = true;
    assert_int_equal(read_text(&settings, text, &facts, &problems), 0);
    settings_release(&settings);
    facts = (struct feed_facts){ .batch = 1, .ranks = 1, .is_raw = true };
    assert_int_equal(read_text(&settings, "augment.mixup = 0.2\naugment.policy = rand_augment", &facts, &problems), 0);
    settings_release(&settings);
}

TEST(exactly_the_listed_options_are_taken)
{
    size_t listed = 0;
    for (const struct option_row *row = option_table; row->key != NULL; row++) {
        char text[600];
        struct settings settings;
        struct problems problems;
        const bool is_listed = feed_settings_option(listed) == row;
        listed += is_listed;
        snprintf(text, sizeof(text), "%s.%s = %s", section_name(row->section), row->key, row->initial);
        assert_int_equal(read_text(&settings, text, &usual, &problems), is_listed ? 0 : -EINVAL);
        if (is_listed)
            settings_release(&settings);
        else
            assert_non_null(strstr(problems.lines[0], ": is none of a feed: "));
        problems_release(&problems);
    }
    assert_true(listed > 40);
    assert_null(feed_settings_option(listed));
    assert_string_equal(feed_settings_option(0)->key, "validation_split");
    assert_string_equal(option_type_name(feed_settings_option(0)->type), "number");
}

TESTS_MAIN(NULL, NULL)
