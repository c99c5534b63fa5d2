/* Payloads read as samples: comparing with a template never gives anything else than
 * parsing does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "loader/sample.h"
#include "stage/random.h"
#include "tests/helpers/tfrecord_fixture.h"

static struct sample_format make_format(void)
{
    return (struct sample_format){
        .height = FIXTURE_HEIGHT, .width = FIXTURE_WIDTH, .channels = FIXTURE_CHANNELS,
        .sample_bytes = FIXTURE_SAMPLE_BYTES, .classes = 100,
    };
}

/* A format that has learned from this payload, and one that has not. */
static void learn(const uint8_t *payload, size_t bytes, struct sample_format *learned, struct sample_format *plain)
{
    char problem[512];
    *learned = make_format();
    assert_int_equal(sample_find_format(learned, payload, bytes, problem, sizeof problem), 0);
    *plain = *learned;
    sample_learn(learned, payload, bytes);
}

static void assert_same_reading(const struct sample_format *learned, const struct sample_format *plain,
                                const uint8_t *payload, size_t bytes)
{
    uint8_t pixels[2][FIXTURE_SAMPLE_BYTES];
    int32_t labels[2] = { -7, -7 };
    char problems[2][512] = { "", "" };
    uint8_t *exact = malloc(bytes ? bytes : 1);     /* so that reading behind the end is seen */
    assert_non_null(exact);
    memcpy(exact, payload, bytes);
    const int first = sample_read(learned, exact, bytes, pixels[0], &labels[0], problems[0], 512);
    const int second = sample_read(plain, exact, bytes, pixels[1], &labels[1], problems[1], 512);
    free(exact);
    assert_int_equal(first, second);
    assert_string_equal(problems[0], problems[1]);
    if (first < 0)
        return;
    assert_int_equal(labels[0], labels[1]);
    assert_memory_equal(pixels[0], pixels[1], FIXTURE_SAMPLE_BYTES);
}

static void assert_same_for_changes(const uint8_t *payload, size_t bytes)
{
    struct sample_format learned, plain;
    uint8_t changed[FIXTURE_FRAME_MAX];
    learn(payload, bytes, &learned, &plain);
    assert_non_null(learned.template.payload);
    memcpy(changed, payload, bytes);
    for (size_t at = 0; at < bytes; at++) {
        for (uint32_t value = 0; value < 256; value++) {
            changed[at] = (uint8_t)value;
            assert_same_reading(&learned, &plain, changed, bytes);
        }
        changed[at] = payload[at];
        assert_same_reading(&learned, &plain, payload, at);
    }
    const struct random_key key = random_key(1, RANDOM_DRAW, (uint32_t)bytes);
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t word = random_u64(key, i);
        const size_t first = word % bytes, second = (word >> 20) % bytes;
        changed[first] = (uint8_t)(word >> 40);
        changed[second] = (uint8_t)(word >> 48);
        assert_same_reading(&learned, &plain, changed, bytes);
        changed[first] = payload[first];
        changed[second] = payload[second];
    }
    sample_format_release(&learned);
}

static void a_template_reads_as_parsing_does_for_any_changed_byte(void **state)
{
    (void)state;
    for (uint64_t id = 0; id < 3; id++) {
        uint8_t frame[FIXTURE_FRAME_MAX];
        const size_t bytes = fixture_record(id, frame) - TFRECORD_FRAME_BYTES;
        assert_same_for_changes(frame + TFRECORD_HEADER_BYTES, bytes);
    }
}

/* The label before the image, behind it, and twice, where the last one counts. */
static void a_template_holds_for_any_order_of_features(void **state)
{
    (void)state;
    uint8_t pixels[FIXTURE_SAMPLE_BYTES], first[512], second[512];
    fixture_pixels(4, pixels);
    const struct example_value image = { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels,
                                         .byte_count = sizeof pixels };
    const struct example_value label = { .name = "label", .kind = FEATURE_INT64S, .int64 = 5 };
    const size_t image_bytes = example_write(&image, 1, first), label_bytes = example_write(&label, 1, second);
    uint8_t joined[1600];
    memcpy(joined, first, image_bytes);
    memcpy(joined + image_bytes, second, label_bytes);
    assert_same_for_changes(joined, image_bytes + label_bytes);
    memcpy(joined, second, label_bytes);
    memcpy(joined + label_bytes, first, image_bytes);
    assert_same_for_changes(joined, image_bytes + label_bytes);
    memcpy(joined + label_bytes + image_bytes, second, label_bytes);
    assert_same_for_changes(joined, image_bytes + 2 * label_bytes);
}

static void labels_of_more_than_a_byte_are_parsed(void **state)
{
    (void)state;
    uint8_t pixels[FIXTURE_SAMPLE_BYTES] = { 0 }, frame[FIXTURE_FRAME_MAX];
    struct sample_format learned, plain;
    const size_t bytes = fixture_example("image_raw", pixels, sizeof pixels, "label", 300, frame)
        - TFRECORD_FRAME_BYTES;
    learn(frame + TFRECORD_HEADER_BYTES, bytes, &learned, &plain);
    assert_null(learned.template.payload);
    learned.classes = plain.classes = 1000;
    assert_same_reading(&learned, &plain, frame + TFRECORD_HEADER_BYTES, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_reads_as_parsing_does_for_any_changed_byte),
        cmocka_unit_test(a_template_holds_for_any_order_of_features),
        cmocka_unit_test(labels_of_more_than_a_byte_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
