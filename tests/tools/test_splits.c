/* Tests of how samples are shared out between training and validation, and over shards. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/convert/splits.h"

#define SAMPLES 1000u

/* A sample is its number; 8 bytes of pixels. */
static int number_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                         size_t *count_out)
{
    (void)arg;
    memset(scratch, 0, 8);
    values_out[0] = (struct example_value){ .name = "image_raw", .kind = FEATURE_BYTES, .bytes = scratch,
                                           .byte_count = 8 };
    values_out[1] = (struct example_value){ .name = "label", .kind = FEATURE_INT64S, .int64 = (int64_t)index };
    *count_out = 2;
    return 0;
}

static struct conversion make_conversion(uint64_t count)
{
    return (struct conversion){
        .name = "numbers", .source_count = 1,
        .sources = { { .split = "train", .record_count = count, .scratch_bytes = 8, .sample = number_sample } },
    };
}

/* Count in `seen` the samples of a source. */
static void see(const struct sample_source *source, uint8_t seen[SAMPLES])
{
    struct example_value values[SAMPLE_VALUES_MAX];
    uint8_t scratch[8];
    size_t count;
    for (uint64_t i = 0; i < source->record_count; i++) {
        assert_int_equal(source->sample(source->arg, i, scratch, values, &count), 0);
        assert_in_range(values[1].int64, 0, SAMPLES - 1);
        seen[values[1].int64]++;
    }
}

/* The samples held out, marked in `chosen`, by this seed and these options. */
static void hold_out(struct convert_options options, uint64_t expected, uint8_t chosen[SAMPLES])
{
    struct conversion conversion = make_conversion(SAMPLES);
    struct hold_out held = { 0 };
    uint8_t others[SAMPLES] = { 0 };
    options.has_validation = true;
    assert_int_equal(splits_hold_out(&held, &conversion, &options, NULL), 0);
    assert_int_equal(conversion.source_count, 2);
    assert_string_equal(conversion.sources[1].split, "validation");
    assert_int_equal(conversion.sources[1].record_count, expected);
    memset(chosen, 0, SAMPLES);
    see(&conversion.sources[1], chosen);
    see(&conversion.sources[0], others);
    for (size_t i = 0; i < SAMPLES; i++)
        assert_int_equal(chosen[i] + others[i], 1);
    hold_out_release(&held);
}

TEST(every_sample_is_in_one_split_and_the_seed_says_in_which)
{
    uint8_t chosen[SAMPLES], again[SAMPLES], otherwise[SAMPLES];
    hold_out((struct convert_options){ .seed = 1, .validation_share = 0.1 }, 100, chosen);
    hold_out((struct convert_options){ .seed = 1, .validation = 100 }, 100, again);
    assert_memory_equal(chosen, again, SAMPLES);
    hold_out((struct convert_options){ .seed = 2, .validation_share = 0.1 }, 100, otherwise);
    assert_memory_not_equal(chosen, otherwise, SAMPLES);
    hold_out((struct convert_options){ .seed = 1, .validation = 0 }, 0, chosen);
    hold_out((struct convert_options){ .seed = 1, .validation_share = 0.9994 }, 999, chosen);
}

TEST(a_split_that_is_there_stays_unless_another_is_asked_for)
{
    struct conversion conversion = make_conversion(SAMPLES);
    struct hold_out held = { 0 };
    assert_int_equal(splits_hold_out(&held, &conversion, &(struct convert_options){ .validation = 10 }, NULL), 0);
    assert_int_equal(conversion.source_count, 1);
    assert_int_equal(conversion.sources[0].record_count, SAMPLES);
    hold_out_release(&held);
}

static void expect_refusal(struct conversion conversion, struct convert_options options)
{
    struct hold_out held = { 0 };
    struct stop *stop;
    options.has_validation = true;
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(splits_hold_out(&held, &conversion, &options, stop), -EINVAL);
    assert_int_equal(stop_code(stop), EXIT_CODE_USAGE);
    stop_close(stop);
    hold_out_release(&held);
}

TEST(neither_split_may_be_left_empty_and_none_is_made_twice)
{
    struct conversion two = make_conversion(SAMPLES);
    two.sources[1] = two.sources[0];
    two.sources[1].split = "validation";
    two.source_count = 2;
    expect_refusal(make_conversion(SAMPLES), (struct convert_options){ .validation = SAMPLES });
    expect_refusal(make_conversion(SAMPLES), (struct convert_options){ .validation_share = 0.0001 });
    expect_refusal(make_conversion(SAMPLES), (struct convert_options){ .validation_share = 0.9999 });
    expect_refusal(make_conversion(0), (struct convert_options){ .validation = 0 });
    expect_refusal(two, (struct convert_options){ .validation = 10 });
}

/* ---- classes ---- */

#define CLASSES_MAX 40u

/* Samples in the order of their classes, of which there are `sizes`. */
struct classes { size_t sizes[CLASSES_MAX], count; };

static int class_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct classes *const classes = arg;
    int64_t number = 0;
    (void)scratch;
    for (; index >= classes->sizes[number]; number++)
        index -= classes->sizes[number];
    *label_out = number * 1000 - 3000;      /* any number tells a class */
    return 0;
}

static int class_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    (void)arg;
    return number_sample(NULL, index, scratch, values_out, count_out);
}

static struct conversion make_classes(struct classes *classes)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < classes->count; i++)
        samples += classes->sizes[i];
    struct conversion conversion = make_conversion(samples);
    conversion.sources[0].label = class_label;
    conversion.sources[0].sample = class_sample;
    conversion.sources[0].arg = classes;
    return conversion;
}

/* How many samples of each class are held out; what is printed. */
static void draw_classes(struct classes *classes, struct convert_options options, size_t drawn[CLASSES_MAX],
                         uint8_t chosen[SAMPLES], char *said, size_t said_size)
{
    struct conversion conversion = make_classes(classes);
    struct hold_out held = { 0 };
    struct capture capture;
    options.has_validation = true;
    memset(drawn, 0, CLASSES_MAX * sizeof(*drawn));
    memset(chosen, 0, SAMPLES);
    capture_begin(&capture);
    assert_int_equal(splits_hold_out(&held, &conversion, &options, NULL), 0);
    capture_end(&capture, said, said_size);
    see(&conversion.sources[1], chosen);
    for (size_t c = 0, i = 0; c < classes->count; c++)
        for (size_t end = i + classes->sizes[c]; i < end; i++)
            drawn[c] += chosen[i];
    hold_out_release(&held);
}

TEST(each_class_gives_its_share_and_keeps_one)
{
    static const struct { struct classes classes; double share; uint64_t total; } cases[] = {
        { { { 100, 100, 100 }, 3 }, 0.1, 30 }, { { { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 }, 12 }, 0.3, 7 },
        { { { 1, 1, 1, 97 }, 4 }, 0.1, 10 },   { { { 500, 5, 5, 5 }, 4 }, 0.2, 103 },
        { { { 3, 5, 7, 11, 13, 17, 19 }, 7 }, 0.25, 19 }, { { { 1, 1, 2, 2 }, 4 }, 0.5, 2 },
        { { { 10, 10 }, 2 }, 0.95, 18 },       { { { 33, 33, 33 }, 3 }, 0.01, 1 },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            struct classes classes = cases[c].classes;
            size_t drawn[CLASSES_MAX], sum = 0;
            uint8_t chosen[SAMPLES];
            char said[1024];
            draw_classes(&classes, (struct convert_options){ .seed = seed, .validation_share = cases[c].share }, drawn,
                         chosen, said, sizeof(said));
            for (size_t i = 0; i < classes.count; i++) {
                sum += drawn[i];
                assert_true(drawn[i] < classes.sizes[i]);
                const double exact = cases[c].share * (double)classes.sizes[i];
                if (classes.sizes[i] > 20)
                    assert_true((double)drawn[i] > exact - 2 && (double)drawn[i] < exact + 4);
            }
            assert_int_equal(sum, cases[c].total);
        }
}

TEST(the_seed_says_which_samples_of_a_class_are_held_out)
{
    struct classes classes = { { 50, 60 }, 2 };
    size_t drawn[CLASSES_MAX];
    uint8_t chosen[SAMPLES], again[SAMPLES], otherwise[SAMPLES];
    char said[1024];
    draw_classes(&classes, (struct convert_options){ .seed = 1, .validation = 11 }, drawn, chosen, said, sizeof(said));
    assert_int_equal(drawn[0], 5);
    assert_int_equal(drawn[1], 6);
    assert_string_equal(said, "");
    draw_classes(&classes, (struct convert_options){ .seed = 1, .validation = 11 }, drawn, again, said, sizeof(said));
    draw_classes(&classes, (struct convert_options){ .seed = 2, .validation = 11 }, drawn, otherwise, said,
                 sizeof(said));
    assert_memory_equal(chosen, again, SAMPLES);
    assert_memory_not_equal(chosen, otherwise, SAMPLES);
}

TEST(classes_of_one_or_two_samples_are_reported)
{
    struct classes classes = { { 1, 2, 2, 45 }, 4 };
    size_t drawn[CLASSES_MAX];
    uint8_t chosen[SAMPLES];
    char said[1024];
    draw_classes(&classes, (struct convert_options){ .seed = 1, .validation = 5 }, drawn, chosen, said, sizeof(said));
    assert_non_null(strstr(said, "of 4 classes 1 has one sample and 2 two, such as the class of sample 0"));
    assert_non_null(strstr(said, "classes have no validation sample"));
    draw_classes(&classes, (struct convert_options){ .seed = 1, .validation = 48 }, drawn, chosen, said, sizeof(said));
    assert_non_null(strstr(said, "holding out 46 samples instead of 48: each of the 4 classes keeps one"));
    struct classes single = { { 1, 1, 1 }, 3 };
    expect_refusal(make_classes(&single), (struct convert_options){ .validation = 1 });
}

TEST(a_class_that_only_validation_has_is_refused)
{
    struct classes train = { { 5, 5 }, 2 }, fewer = { { 5 }, 1 }, more = { { 5, 5, 2, 1 }, 4 };
    struct classes *const others[] = { &train, &fewer, &more };
    for (size_t i = 0; i < 3; i++) {
        struct conversion conversion = make_classes(&train);
        struct stop *stop;
        conversion.sources[1] = make_classes(others[i]).sources[0];
        conversion.sources[1].split = "validation";
        conversion.source_count = 2;
        assert_int_equal(stop_open(&stop), 0);
        const int rc = splits_check_classes(&conversion, &(struct convert_options){ .seed = 1 }, stop);
        assert_int_equal(rc, i == 2 ? -EBADMSG : 0);
        if (i == 2)
            assert_non_null(strstr(stop_message(stop), "3 validation samples of 2 classes cannot be learned"));
        stop_close(stop);
    }
}

/* The shards of `records` records; `bytes` is what the source says of them. */
static uint32_t count_shards(uint64_t records, uint64_t bytes, struct convert_options options)
{
    struct conversion conversion = make_conversion(records);
    conversion.sources[0].bytes = bytes;
    assert_int_equal(splits_count_shards(&conversion, &options, NULL), 0);
    return conversion.sources[0].shard_count;
}

TEST(shards_are_as_many_as_asked_for_or_as_the_bytes_need)
{
    const uint64_t record_bytes = 16 + 45;      /* frame and Example, as the first sample says */
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ 0 }), 4);
    assert_int_equal(count_shards(3, 0, (struct convert_options){ 0 }), 3);
    assert_int_equal(count_shards(0, 0, (struct convert_options){ 0 }), 0);
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ .shards = 7 }), 7);
    assert_int_equal(count_shards(SAMPLES, (UINT64_C(10) << 30) + 1, (struct convert_options){ 0 }), 11);
    assert_int_equal(count_shards(SAMPLES, UINT64_C(10) << 40, (struct convert_options){ 0 }), SAMPLES);
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ .shard_bytes = SAMPLES * record_bytes }), 1);
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ .shard_bytes = 100 * record_bytes }), 10);
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ .shard_bytes = 100 * record_bytes - 1 }), 11);
    assert_int_equal(count_shards(SAMPLES, 0, (struct convert_options){ .shard_bytes = 1 }), SAMPLES);
}

TESTS_MAIN(NULL, NULL)
