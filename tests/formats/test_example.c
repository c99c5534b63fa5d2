/* Tests of the tf.train.Example walk: every legal encoding, no illegal one, and the writer.
 * Payloads are written as hexadecimal text, and each is read from a block of exactly its
 * size, so that a sanitizer sees any byte read beyond it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "tests/helpers/hex_block.h"
#include "tests/helpers/test.h"

static const char *const names[] = { "label", "image_raw", "f" };
static const size_t name_bytes[] = { 5, 9, 1 };
static const struct example_query query = { names, name_bytes, 3 };
enum { LABEL, IMAGE, F };

/* The found features point into a released block: only kinds, counts and int64s are looked at. */
static int find(const char *hex, struct feature results[3], size_t *bad_offset)
{
    const struct hex_block payload = hex_block(hex);
    const int rc = example_find(payload.data, payload.bytes, &query, results, bad_offset);

    free(payload.data);
    return rc;
}

static void expect_label(const char *hex, int64_t value, uint64_t count)
{
    struct feature found[3];
    size_t bad = 0;

    assert_int_equal(find(hex, found, &bad), 0);
    assert_int_equal(found[LABEL].kind, FEATURE_INT64S);
    assert_int_equal(found[LABEL].value_count, count);
    assert_int_equal(found[LABEL].int64, value);
}

static void expect_label_missing(const char *hex)
{
    struct feature found[3];
    size_t bad = 0;

    assert_int_equal(find(hex, found, &bad), 0);
    assert_int_equal(found[LABEL].kind, FEATURE_MISSING);
}

static void expect_bad(const char *hex, size_t offset)
{
    struct feature found[3];
    size_t bad = 99999;

    if (find(hex, found, &bad) != -EBADMSG)
        fail_msg("accepted: %s", hex);
    if (bad != offset)
        fail_msg("bad at %zu, not %zu: %s", bad, offset, hex);
}

#define LABEL_KEY "0a 05 6c 61 62 65 6c"

TEST(reads_the_known_bytes)
{
    expect_label("0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07", 7, 1);

    const struct hex_block payload = hex_block(
        "0a 27 0a 15 0a 09 69 6d 61 67 65 5f 72 61 77 12 08 0a 06 0a 04 00 01 02 03 "
        "0a 0e 0a 05 6c 61 62 65 6c 12 05 1a 03 0a 01 07");
    struct feature found[3];
    size_t bad;
    assert_int_equal(payload.bytes, 41);
    assert_int_equal(example_find(payload.data, payload.bytes, &query, found, &bad), 0);
    assert_int_equal(found[IMAGE].kind, FEATURE_BYTES);
    assert_int_equal(found[IMAGE].value_count, 1);
    assert_int_equal(found[IMAGE].byte_count, 4);
    assert_ptr_equal(found[IMAGE].bytes, payload.data + 21);
    assert_int_equal(found[LABEL].int64, 7);
    assert_int_equal(found[F].kind, FEATURE_MISSING);
    free(payload.data);
}

TEST(takes_packed_unpacked_and_mixed_lists)
{
    expect_label("0a 0f 0a 0d " LABEL_KEY " 12 04 1a 02 08 07", 7, 1);
    expect_label("0a 11 0a 0f " LABEL_KEY " 12 06 1a 04 0a 02 ac 02", 300, 1);
    expect_label("0a 19 0a 17 " LABEL_KEY " 12 0e 1a 0c 0a 0a ff ff ff ff ff ff ff ff ff 01", -1, 1);
    /* two packed runs; then unpacked, packed, unpacked */
    expect_label("0a 14 0a 12 " LABEL_KEY " 12 09 1a 07 0a 02 05 06 0a 01 07", 5, 3);
    expect_label("0a 15 0a 13 " LABEL_KEY " 12 0a 1a 08 08 09 0a 02 05 06 08 07", 9, 4);
    /* an empty packed run first */
    expect_label("0a 12 0a 10 " LABEL_KEY " 12 07 1a 05 0a 00 0a 01 07", 7, 1);
}

TEST(tells_an_empty_list_from_a_missing_one)
{
    expect_label("0a 0d 0a 0b " LABEL_KEY " 12 02 1a 00", 0, 0);
    expect_label_missing("0a 0b 0a 09 " LABEL_KEY " 12 00");
    expect_label_missing("0a 09 0a 07 " LABEL_KEY);
    expect_label_missing("0a 00");
    expect_label_missing("");
}

TEST(counts_floats_of_both_encodings)
{
    struct feature found[3];
    size_t bad;

    assert_int_equal(find("0a 13 0a 11 0a 01 66 12 0c 12 0a 0a 08 00 00 80 3f 00 00 20 c0", found, &bad), 0);
    assert_int_equal(found[F].kind, FEATURE_FLOATS);
    assert_int_equal(found[F].value_count, 2);
    assert_int_equal(find("0a 13 0a 11 0a 01 66 12 0c 12 0a 0d 00 00 80 3f 0d 00 00 20 c0", found, &bad), 0);
    assert_int_equal(found[F].value_count, 2);
    expect_bad("0a 12 0a 10 0a 01 66 12 0b 12 09 0a 07 00 00 80 3f 00 00 20", 11);
}

TEST(the_last_of_two_equal_names_wins)
{
    expect_label("0a 20 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 08", 8, 1);
    /* also when the last has no kind, and when they are in two Features */
    expect_label_missing("0a 1b 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07 0a 09 " LABEL_KEY " 12 00");
    expect_label("0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07 0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 09", 9, 1);
}

TEST(the_last_kind_of_a_feature_wins_and_equal_kinds_join)
{
    /* bytes "a", then int64 7 */
    expect_label("0a 15 0a 13 " LABEL_KEY " 12 0a 0a 03 0a 01 61 1a 03 0a 01 07", 7, 1);
    /* int64 5, then int64 7: one list of two */
    expect_label("0a 15 0a 13 " LABEL_KEY " 12 0a 1a 03 0a 01 05 1a 03 0a 01 07", 5, 2);
    /* the same as two values of one entry */
    expect_label("0a 17 0a 15 " LABEL_KEY " 12 05 1a 03 0a 01 05 12 05 1a 03 0a 01 07", 5, 2);
    /* int64 5, bytes, int64 7: only the last */
    expect_label("0a 1a 0a 18 " LABEL_KEY " 12 0f 1a 03 0a 01 05 0a 03 0a 01 61 1a 03 0a 01 07", 7, 1);
}

TEST(takes_the_value_before_the_name)
{
    expect_label("0a 10 0a 0e 12 05 1a 03 0a 01 07 " LABEL_KEY, 7, 1);
}

TEST(skips_unknown_fields_at_every_level)
{
    /* 18 05 = field 3 varint; 21 = field 4 fixed64; 2d = field 5 fixed32; 32 01 xx = field 6 bytes */
    expect_label("18 05 0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07 32 01 00", 7, 1);
    expect_label("0a 12 18 05 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07", 7, 1);
    expect_label("0a 19 0a 17 21 01 02 03 04 05 06 07 08 " LABEL_KEY " 12 05 1a 03 0a 01 07", 7, 1);
    expect_label("0a 15 0a 13 " LABEL_KEY " 12 0a 2d 01 02 03 04 1a 03 0a 01 07", 7, 1);
    expect_label("0a 13 0a 11 " LABEL_KEY " 12 08 1a 06 32 01 ff 0a 01 07", 7, 1);
}

TEST(an_absent_name_is_the_empty_one)
{
    static const char *const empty_names[] = { "" };
    static const size_t empty_bytes[] = { 0 };
    const struct example_query empty_query = { empty_names, empty_bytes, 1 };
    const struct hex_block payload = hex_block("0a 09 0a 07 12 05 1a 03 0a 01 07");
    struct feature found;
    size_t bad;

    assert_int_equal(example_find(payload.data, payload.bytes, &empty_query, &found, &bad), 0);
    assert_int_equal(found.kind, FEATURE_INT64S);
    assert_int_equal(found.int64, 7);
    free(payload.data);
}

TEST(takes_varints_of_ten_bytes_and_no_more)
{
    /* the length of the packed run, one too long by zeros, in 10 and in 11 bytes */
    expect_label("0a 19 0a 17 " LABEL_KEY " 12 0e 1a 0c 0a 81 80 80 80 80 80 80 80 80 00 07", 7, 1);
    expect_bad("0a 1a 0a 18 " LABEL_KEY " 12 0f 1a 0d 0a 81 80 80 80 80 80 80 80 80 80 00 07", 15);
    /* a value in 11 bytes: the fault is at the value */
    expect_bad("0a 1a 0a 18 " LABEL_KEY " 12 0f 1a 0d 0a 0b ff ff ff ff ff ff ff ff ff ff 01", 17);
    /* a run that ends inside a value */
    expect_bad("0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 87", 17);
}

TEST(rejects_groups_unknown_wire_types_and_field_0)
{
    expect_bad("1b 1c", 0);
    expect_bad("1c", 0);
    expect_bad("1e 00", 0);
    expect_bad("1f 00", 0);
    expect_bad("02 00", 0);
    expect_bad("00 00", 0);
    expect_bad("0a 02 02 00", 2);
    expect_bad("0a 02 1b 1c", 2);
    expect_bad("0a 04 0a 02 1b 1c", 4);
    expect_bad("0a 06 0a 04 12 02 23 24", 6);
    expect_bad("0a 08 0a 06 12 04 1a 02 13 14", 8);
    /* a field number beyond 2^29 - 1 */
    expect_bad("82 80 80 80 10 00", 0);
}

TEST(rejects_known_fields_of_a_wrong_wire_type)
{
    expect_bad("08 01", 0);
    expect_bad("0a 02 08 01", 2);
    expect_bad("0a 04 0a 02 08 01", 4);
    expect_bad("0a 04 0a 02 10 01", 4);
    expect_bad("0a 06 0a 04 12 02 18 01", 6);
    expect_bad("0a 08 0a 06 12 04 0a 02 08 01", 8);
    expect_bad("0a 08 0a 06 12 04 12 02 08 01", 8);
    expect_bad("0a 0b 0a 09 12 07 1a 05 0d 00 00 00 00", 8);
}

TEST(rejects_lengths_past_the_message_around_them)
{
    expect_bad("0a 11 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07", 0);
    expect_bad("0a 10 0a 0f " LABEL_KEY " 12 05 1a 03 0a 01 07", 2);
    expect_bad("0a 10 0a 0e 0a 0d 6c 61 62 65 6c 12 05 1a 03 0a 01 07", 4);
    expect_bad("0a 10 0a 0e " LABEL_KEY " 12 06 1a 03 0a 01 07", 11);
    expect_bad("0a 10 0a 0e " LABEL_KEY " 12 05 1a 04 0a 01 07", 13);
    expect_bad("0a 10 0a 0e " LABEL_KEY " 12 05 1a 03 0a 02 07", 15);
    expect_bad("0a ff ff ff ff ff ff ff ff ff 01", 0);
    expect_bad("0a ff ff ff ff ff ff ff ff 7f 00", 0);
    expect_bad("0a", 0);
    expect_bad("80", 0);
}

/* An Example with a feature of each kind, the image first. */
static const char whole[] = "0a 3c 0a 15 0a 09 69 6d 61 67 65 5f 72 61 77 12 08 0a 06 0a 04 00 01 02 03 "
                            "0a 0e 0a 05 6c 61 62 65 6c 12 05 1a 03 0a 01 07 "
                            "0a 13 0a 01 66 12 0e 12 0c 0a 0a 00 00 80 3f 00 00 20 c0 00 00";

TEST(an_example_cut_at_any_byte_is_rejected)
{
    const struct hex_block payload = hex_block(
        "0a 27 0a 15 0a 09 69 6d 61 67 65 5f 72 61 77 12 08 0a 06 0a 04 00 01 02 03 "
        "0a 0e 0a 05 6c 61 62 65 6c 12 05 1a 03 0a 01 07");

    for (size_t cut = 1; cut < payload.bytes; cut++) {
        struct feature found[3];
        size_t bad;
        uint8_t *part = malloc(cut);
        memcpy(part, payload.data, cut);
        assert_int_equal(example_find(part, cut, &query, found, &bad), -EBADMSG);
        assert_true(bad < cut);
        free(part);
    }
    free(payload.data);
}

static int look_inside(void *arg, const char *name, size_t bytes, const struct feature *feature)
{
    const struct hex_block *payload = arg;

    assert_true((const uint8_t *)name >= payload->data);
    assert_true((const uint8_t *)name + bytes <= payload->data + payload->bytes);
    if (feature->kind == FEATURE_BYTES && feature->value_count > 0) {
        assert_true(feature->bytes >= payload->data);
        assert_true(feature->bytes + feature->byte_count <= payload->data + payload->bytes);
    }
    return 0;
}

/* Whatever the damage, what is found lies inside the payload, and both walks agree. */
TEST(stays_inside_the_payload_for_any_changed_byte)
{
    struct hex_block payload = hex_block(whole);

    for (size_t at = 0; at < payload.bytes; at++) {
        const uint8_t kept = payload.data[at];
        for (unsigned value = 0; value < 256; value++) {
            struct feature found[3];
            size_t bad_find = 0, bad_visit = 0;
            payload.data[at] = (uint8_t)value;
            const int found_rc = example_find(payload.data, payload.bytes, &query, found, &bad_find);
            const int visit_rc = example_visit(payload.data, payload.bytes, look_inside, &payload, &bad_visit);
            assert_int_equal(found_rc, visit_rc);
            assert_int_equal(bad_find, bad_visit);
            assert_true(bad_find < payload.bytes);
        }
        payload.data[at] = kept;
    }
    free(payload.data);
}

struct seen {
    char text[128];
    int stop_at, count;
};

static int note_name(void *arg, const char *name, size_t bytes, const struct feature *feature)
{
    struct seen *seen = arg;
    const size_t length = strlen(seen->text);

    snprintf(seen->text + length, sizeof(seen->text) - length, "%.*s:%d ", (int)bytes, name, (int)feature->kind);
    return ++seen->count == seen->stop_at ? 42 : 0;
}

TEST(visits_every_entry_in_wire_order_until_told_to_stop)
{
    const struct hex_block payload = hex_block(
        "0a 1d 0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07 0a 0b 0a 01 66 12 06 0a 04 0a "
                                       "02 61 62 0a 0b 0a 09 " LABEL_KEY " 12 00");
    struct seen all = { .stop_at = 0 }, two = { .stop_at = 2 };
    size_t bad;

    assert_int_equal(example_visit(payload.data, payload.bytes, note_name, &all, &bad), 0);
    assert_string_equal(all.text, "label:3 f:1 label:0 ");
    assert_int_equal(example_visit(payload.data, payload.bytes, note_name, &two, &bad), 42);
    assert_string_equal(two.text, "label:3 f:1 ");
    free(payload.data);
}

TEST(writes_the_known_bytes)
{
    static const uint8_t pixels[4] = { 0, 1, 2, 3 };
    const struct example_value values[] = {
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = 4 },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 7 },
    };
    const struct hex_block known = hex_block(
        "0a 27 0a 15 0a 09 69 6d 61 67 65 5f 72 61 77 12 08 0a 06 0a 04 00 01 02 03 "
        "0a 0e 0a 05 6c 61 62 65 6c 12 05 1a 03 0a 01 07");
    uint8_t out[41];

    assert_int_equal(example_size(values, 2), known.bytes);
    assert_int_equal(example_write(values, 2, out), known.bytes);
    assert_memory_equal(out, known.data, known.bytes);
    free(known.data);
}

TEST(reads_back_what_it_writes)
{
    static const int64_t labels[] = { 0, 1, 127, 128, 300, -1, INT64_MIN, INT64_MAX };
    static const size_t sizes[] = { 0, 1, 127, 128, 784, 16383, 16384, 200000 };
    uint8_t *pixels = calloc(200000, 1);

    for (size_t i = 0; i < 8; i++) {
        const struct example_value values[] = {
            { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = sizes[i] },
            { .name = "label", .kind = FEATURE_INT64S, .int64 = labels[i] },
        };
        const size_t bytes = example_size(values, 2);
        uint8_t *out = malloc(bytes);
        struct feature found[3];
        size_t bad;
        pixels[0] = (uint8_t)i;
        assert_int_equal(example_write(values, 2, out), bytes);
        assert_int_equal(example_find(out, bytes, &query, found, &bad), 0);
        assert_int_equal(found[LABEL].int64, labels[i]);
        assert_int_equal(found[LABEL].value_count, 1);
        assert_int_equal(found[IMAGE].byte_count, sizes[i]);
        assert_memory_equal(found[IMAGE].bytes, pixels, sizes[i]);
        free(out);
    }
    free(pixels);
}

/* "a", with two numbers; "f", of no kind; "label": 7; "z": "q". */
#define KEPT_A "0a 0b 0a 01 61 12 06 1a 04 0a 02 01 02"
#define KEPT_F "0a 05 0a 01 66 12 00"
#define LABEL_7 "0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 07"
#define KEPT_Z "0a 0a 0a 01 7a 12 05 0a 03 0a 01 71"

static void expect_replaced(const char *from, const struct example_value *values, size_t count, const char *to)
{
    const struct hex_block before = hex_block(from), after = hex_block(to);
    uint8_t *const out = malloc(after.bytes);

    assert_int_equal(example_replaced_size(before.data, before.bytes, values, count), after.bytes);
    assert_int_equal(example_replace(before.data, before.bytes, values, count, out), after.bytes);
    assert_memory_equal(out, after.data, after.bytes);
    free(out);
    free(before.data);
    free(after.data);
}

TEST(replaces_features_and_keeps_the_others_byte_for_byte)
{
    const struct example_value values[] = {
        { .name = "b", .kind = FEATURE_MISSING },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 9 },
        { .name = "y", .kind = FEATURE_BYTES, .bytes = "Y", .byte_count = 1 },
    };
    const char *const label_9 = "0a 0e " LABEL_KEY " 12 05 1a 03 0a 01 09 ";
    const char *const y = "0a 0a 0a 01 79 12 05 0a 03 0a 01 59 ";
    char expected[512];

    snprintf(expected, sizeof(expected), "0a 3c " KEPT_A KEPT_F "%s%s" KEPT_Z, label_9, y);
    expect_replaced("0a 30 " KEPT_A KEPT_F LABEL_7 KEPT_Z, values, 3, expected);
    snprintf(expected, sizeof(expected), "0a 3c " KEPT_A KEPT_F "%s%s" KEPT_Z, label_9, y);
    expect_replaced("0a 20 " KEPT_A KEPT_F KEPT_Z, values, 3, expected);
    snprintf(expected, sizeof(expected), "0a 1c %s%s", label_9, y);
    expect_replaced("", values, 3, expected);
}

TEST(a_feature_that_goes_is_not_there_however_often_it_was)
{
    const struct example_value gone = { .name = "label", .kind = FEATURE_MISSING };

    expect_replaced("0a 3f " LABEL_7 KEPT_A LABEL_7 KEPT_Z LABEL_7, &gone, 1, "0a 19 " KEPT_A KEPT_Z);
    expect_replaced("0a 1d " LABEL_7 KEPT_A "0a 0c " KEPT_Z, &gone, 1, "0a 19 " KEPT_A KEPT_Z);
    expect_replaced("0a 10 " LABEL_7, &gone, 1, "0a 00");
}

TESTS_MAIN(NULL, NULL)
