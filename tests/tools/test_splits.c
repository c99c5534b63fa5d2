/* Tests of how samples are shared out between training and validation, and over shards. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

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
