/* Tests of events: byte for byte, as TensorFlow's own messages have them (tests/peers/tensorboard_events.py). */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/protobuf.h"
#include "formats/tfevent.h"
#include "formats/tfrecord.h"
#include "tests/helpers/hex_block.h"
#include "tests/helpers/test.h"

static void assert_record(struct tfevent *event, const char *hex)
{
    size_t bytes = 0;
    const uint8_t *const record = tfevent_frame(event, &bytes);
    struct hex_block expected = hex_block(hex);
    assert_non_null(record);
    assert_int_equal(bytes, expected.bytes);
    assert_memory_equal(record, expected.data, bytes);
    free(expected.data);
}

/* The payload of a record whose frame is right. */
static struct range payload_of(struct tfevent *event)
{
    size_t bytes = 0;
    uint64_t payload_bytes = 0;
    struct tfrecord_problem problem;
    const uint8_t *const record = tfevent_frame(event, &bytes);
    assert_non_null(record);
    assert_int_equal(tfrecord_verify(record, bytes, &payload_bytes, &problem), TFRECORD_OK);
    assert_int_equal(payload_bytes + TFRECORD_FRAME_BYTES, bytes);
    return (struct range){ record + TFRECORD_HEADER_BYTES, record + TFRECORD_HEADER_BYTES + payload_bytes };
}

static void assert_payload(struct tfevent *event, const char *hex)
{
    const struct range payload = payload_of(event);
    struct hex_block expected = hex_block(hex);
    assert_int_equal(range_bytes(&payload), expected.bytes);
    assert_memory_equal(payload.at, expected.data, expected.bytes);
    free(expected.data);
}

TEST(the_first_record_of_a_file_names_the_version)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000000.0, 0);
    tfevent_version(event);
    assert_record(event, "18 00 00 00 00 00 00 00 a3 7f 4b 22 09 00 00 00 40 fc 54 d9 41 1a 0d 62 72 61 69 6e 2e 45 "
                         "76 65 6e 74 3a 32 ec ed 8f 9d");
}

TEST(a_scalar_is_a_simple_value)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000001.5, 1);
    tfevent_scalar(event, "loss", 0.5f);
    assert_record(event, "1a 00 00 00 00 00 00 00 12 9b d8 2d 09 00 00 60 40 fc 54 d9 41 10 01 2a 0d 0a 0b 0a 04 6c "
                         "6f 73 73 15 00 00 00 3f 2e e4 2f 0f");
}

/* 1 2 3 in two buckets. */
TEST(a_histogram_is_its_sums_and_two_packed_lists)
{
    struct tfevent *const event = *state;
    static const double limits[] = { 2, 3 }, counts[] = { 2, 1 };
    const struct tfevent_histogram histogram = { .least = 1, .most = 3, .count = 3, .sum = 6, .squares = 14,
                                                 .limits = limits, .counts = counts, .buckets = 2 };
    tfevent_begin(event, 1700000000.0, 1);
    tfevent_histogram(event, "h", &histogram);
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 10 01 2a 58 0a 56 0a 01 68 2a 51 "
                          "09 00 00 00 00 00 00 f0 3f 11 00 00 00 00 00 00 08 40 19 00 00 00 00 00 00 08 40 "
                          "21 00 00 00 00 00 00 18 40 29 00 00 00 00 00 00 2c 40 "
                          "32 10 00 00 00 00 00 00 00 40 00 00 00 00 00 00 08 40 "
                          "3a 10 00 00 00 00 00 00 00 40 00 00 00 00 00 00 f0 3f");
}

TEST(a_session_names_its_hyperparameters)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000000.0, 0);
    tfevent_open_session(event);
    tfevent_number(event, "lr", 0.1);
    tfevent_words(event, "model", "resnet20");
    tfevent_close_session(event, "run1", 1700000000.0);
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 2a 6e 0a 6c 0a 1c 5f 68 70 61 72 61 6d 73 5f 2f 73 65 73 73 69 "
                          "6f 6e 5f 73 74 61 72 74 5f 69 6e 66 6f 42 06 08 01 12 02 12 00 4a 44 0a 42 0a 07 68 70 61 "
                          "72 61 6d 73 12 37 1a 35 0a 0f 0a 02 6c 72 12 09 11 9a 99 99 99 99 99 b9 3f 0a 13 0a 05 6d "
                          "6f 64 65 6c 12 0a 1a 08 72 65 73 6e 65 74 32 30 22 04 72 75 6e 31 29 00 00 00 40 fc 54 d9 "
                          "41");
}

TEST(a_flag_is_a_bool_and_a_session_has_an_end)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000000.0, 0);
    tfevent_open_session(event);
    tfevent_flag(event, "f", false);
    tfevent_close_session(event, "g", 1700000000.0);
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 2a 4e 0a 4c 0a 1c 5f 68 70 61 72 61 6d 73 5f 2f 73 65 73 73 69 "
                          "6f 6e 5f 73 74 61 72 74 5f 69 6e 66 6f 42 06 08 01 12 02 12 00 4a 24 0a 22 0a 07 68 70 61 "
                          "72 61 6d 73 12 17 1a 15 0a 07 0a 01 66 12 02 20 00 22 01 67 29 00 00 00 40 fc 54 d9 41");
    tfevent_begin(event, 1700000000.0, 0);
    tfevent_end_session(event, 1700000000.0);
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 2a 42 0a 40 0a 1a 5f 68 70 61 72 61 6d 73 5f 2f 73 65 73 73 69 "
                          "6f 6e 5f 65 6e 64 5f 69 6e 66 6f 42 06 08 01 12 02 12 00 4a 1a 0a 18 0a 07 68 70 61 72 61 "
                          "6d 73 12 0d 22 0b 08 01 11 00 00 00 40 fc 54 d9 41");
}

TEST(a_text_is_a_tensor_of_one_string)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000000.0, 3);
    tfevent_text(event, "t", "ab");
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 10 03 2a 1f 0a 1d 0a 01 74 42 0c 08 07 12 04 12 02 08 01 42 02 "
                          "61 62 4a 0a 0a 06 0a 04 74 65 78 74 20 02");
}

TEST(a_start_is_alone_in_its_event)
{
    struct tfevent *const event = *state;
    tfevent_begin(event, 1700000000.0, 200);
    tfevent_start(event);
    assert_payload(event, "09 00 00 00 40 fc 54 d9 41 10 c8 01 3a 02 08 01");
}

/* Any number of values of any size share one summary; numbers that are not finite are written as they are. */
TEST(values_share_an_event)
{
    struct tfevent *const event = *state;
    static const float values[] = { NAN, INFINITY, -INFINITY, FLT_MIN, 0 };
    char tag[200];
    for (size_t count = 1; count <= 60; count++) {
        tfevent_begin(event, 1, count);
        for (size_t i = 0; i < count; i++) {
            memset(tag, 'a' + (int)(i % 26), sizeof(tag));
            tag[1 + i * 3 % 199] = '\0';
            tfevent_scalar(event, tag, values[i % 5]);
        }
        struct range range = payload_of(event);
        struct field field = { .number = 0 };
        assert_true(take_field(&range, &field) && take_field(&range, &field) && take_field(&range, &field));
        assert_int_equal(field.number, 5);
        assert_int_equal(range_bytes(&range), 0);
        range = field.body;
        for (size_t i = 0; i < count; i++) {
            struct field value = { .number = 0 };
            assert_true(take_field(&range, &value));
            assert_true(take_field(&value.body, &field));
            assert_int_equal(range_bytes(&field.body), 1 + i * 3 % 199);
            assert_true(take_field(&value.body, &field));
            assert_memory_equal(field.body.at, &values[i % 5], 4);
        }
        assert_int_equal(range_bytes(&range), 0);
    }
}

static int set_up(void **state)
{
    static struct tfevent event;
    tfevent_init(&event);
    *state = &event;
    return 0;
}

static int tear_down(void **state)
{
    tfevent_release(*state);
    return 0;
}

TESTS_MAIN(set_up, tear_down)
