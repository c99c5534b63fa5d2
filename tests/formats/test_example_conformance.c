/* The conformance of the tf.train.Example reader, case by case: what protobuf allows, in every shape that
 * writers give it, with all values in their order; what it does not allow; and known bytes, each written
 * down elsewhere. Every case is one line of a table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "tests/helpers/hex_block.h"
#include "tests/helpers/test.h"

#define VALUES_MAX 4

/* What is found under the name "label". */
struct expectation {
    const char *what, *payload;
    enum feature_kind kind;
    uint32_t entry_count;
    uint64_t value_count;
    int64_t values[VALUES_MAX];
};

#define KEY "0a 05 6c 61 62 65 6c"
#define SEVEN "1a 03 0a 01 07"
#define ONE FEATURE_INT64S, 1, 1
/* Lengths of an entry and of all around it are in the bytes before the key. */
static const struct expectation accepted[] = {
    { "packed", "0a 10 0a 0e " KEY " 12 05 " SEVEN, ONE, { 7 } },
    { "unpacked", "0a 0f 0a 0d " KEY " 12 04 1a 02 08 07", ONE, { 7 } },
    { "unpacked, several", "0a 13 0a 11 " KEY " 12 08 1a 06 08 07 08 08 08 09", FEATURE_INT64S, 1, 3, { 7, 8, 9 } },
    { "mixed", "0a 15 0a 13 " KEY " 12 0a 1a 08 08 09 0a 02 05 06 08 07", FEATURE_INT64S, 1, 4, { 9, 5, 6, 7 } },
    { "two packed runs", "0a 14 0a 12 " KEY " 12 09 1a 07 0a 02 05 06 0a 01 07", FEATURE_INT64S, 1, 3, { 5, 6, 7 } },
    { "an empty run before a run", "0a 12 0a 10 " KEY " 12 07 1a 05 0a 00 0a 01 07", ONE, { 7 } },
    { "two lists of a kind", "0a 15 0a 13 " KEY " 12 0a 1a 03 0a 01 05 " SEVEN, FEATURE_INT64S, 1, 2, { 5, 7 } },
    { "two values of an entry", "0a 17 0a 15 " KEY " 12 05 1a 03 0a 01 05 12 05 " SEVEN,
      FEATURE_INT64S, 1, 2, { 5, 7 } },
    { "negative int64", "0a 19 0a 17 " KEY " 12 0e 1a 0c 0a 0a ff ff ff ff ff ff ff ff ff 01", ONE, { -1 } },
    { "negative int64, unpacked", "0a 18 0a 16 " KEY " 12 0d 1a 0b 08 ff ff ff ff ff ff ff ff ff 01", ONE, { -1 } },
    { "duplicate key", "0a 20 0a 0e " KEY " 12 05 1a 03 0a 01 08 0a 0e " KEY " 12 05 " SEVEN,
      FEATURE_INT64S, 2, 1, { 7 } },
    { "duplicate key, the last without a kind", "0a 1b 0a 0e " KEY " 12 05 " SEVEN " 0a 09 " KEY " 12 00",
      FEATURE_MISSING, 2, 0, { 0 } },
    { "duplicate key in another Features", "0a 10 0a 0e " KEY " 12 05 1a 03 0a 01 08 0a 10 0a 0e " KEY " 12 05 " SEVEN,
      FEATURE_INT64S, 2, 1, { 7 } },
    { "value before key", "0a 10 0a 0e 12 05 " SEVEN " " KEY, ONE, { 7 } },
    { "value before key, unpacked", "0a 0f 0a 0d 12 04 1a 02 08 07 " KEY, ONE, { 7 } },
    { "the last of several kinds", "0a 15 0a 13 " KEY " 12 0a 0a 03 0a 01 61 " SEVEN, ONE, { 7 } },
    { "a kind again after another", "0a 1a 0a 18 " KEY " 12 0f 1a 03 0a 01 05 0a 03 0a 01 61 " SEVEN, ONE, { 7 } },
    { "unknown fields in Example", "18 05 0a 10 0a 0e " KEY " 12 05 " SEVEN " 32 01 00", ONE, { 7 } },
    { "unknown field in Features", "0a 12 18 05 0a 0e " KEY " 12 05 " SEVEN, ONE, { 7 } },
    { "unknown field in an entry", "0a 19 0a 17 21 01 02 03 04 05 06 07 08 " KEY " 12 05 " SEVEN, ONE, { 7 } },
    { "unknown field in Feature", "0a 15 0a 13 " KEY " 12 0a 2d 01 02 03 04 " SEVEN, ONE, { 7 } },
    { "unknown field in a list", "0a 13 0a 11 " KEY " 12 08 1a 06 32 01 ff 0a 01 07", ONE, { 7 } },
    { "unknown fields between values", "0a 15 0a 13 " KEY " 12 0a 1a 08 08 05 32 02 08 09 08 07", FEATURE_INT64S, 1, 2,
      { 5, 7 } },
    { "empty list", "0a 0d 0a 0b " KEY " 12 02 1a 00", FEATURE_INT64S, 1, 0, { 0 } },
    { "empty packed run", "0a 0f 0a 0d " KEY " 12 04 1a 02 0a 00", FEATURE_INT64S, 1, 0, { 0 } },
    { "a Feature without a kind", "0a 0b 0a 09 " KEY " 12 00", FEATURE_MISSING, 1, 0, { 0 } },
    { "a missing value", "0a 09 0a 07 " KEY, FEATURE_MISSING, 1, 0, { 0 } },
    { "a missing key", "0a 09 0a 07 12 05 " SEVEN, FEATURE_MISSING, 0, 0, { 0 } },
    { "a Features without entries", "0a 00", FEATURE_MISSING, 0, 0, { 0 } },
    { "no byte at all", "", FEATURE_MISSING, 0, 0, { 0 } },
    { "a value in a varint of 10 bytes", "0a 19 0a 17 " KEY " 12 0e 1a 0c 0a 0a 87 80 80 80 80 80 80 80 80 00", ONE,
      { 7 } },
    { "a length in a varint of 10 bytes", "0a 19 0a 17 " KEY " 12 0e 1a 0c 0a 81 80 80 80 80 80 80 80 80 00 07", ONE,
      { 7 } },
};

/* Where the fault is told to be. */
static const struct { const char *what, *payload; size_t offset; } refused[] = {
    { "a value in a varint of 11 bytes", "0a 1a 0a 18 " KEY " 12 0f 1a 0d 0a 0b ff ff ff ff ff ff ff ff ff ff 01", 17 },
    { "a length in a varint of 11 bytes", "0a 1a 0a 18 " KEY " 12 0f 1a 0d 0a 81 80 80 80 80 80 80 80 80 80 00 07",
      15 },
    { "a run that ends inside a value", "0a 10 0a 0e " KEY " 12 05 1a 03 0a 01 87", 17 },
    { "Features past the end", "0a 11 0a 0e " KEY " 12 05 " SEVEN, 0 },
    { "an entry past the end", "0a 10 0a 0f " KEY " 12 05 " SEVEN, 2 },
    { "a key past the end", "0a 10 0a 0e 0a 0d 6c 61 62 65 6c 12 05 " SEVEN, 4 },
    { "a Feature past the end", "0a 10 0a 0e " KEY " 12 06 " SEVEN, 11 },
    { "a list past the end", "0a 10 0a 0e " KEY " 12 05 1a 04 0a 01 07", 13 },
    { "a run past the end", "0a 10 0a 0e " KEY " 12 05 1a 03 0a 02 07", 15 },
    { "a length near 2^64", "0a ff ff ff ff ff ff ff ff ff 01", 0 },
    { "floats of 7 bytes", "0a 16 0a 14 " KEY " 12 0b 12 09 0a 07 00 00 80 3f 00 00 20", 15 },
    { "a group", "1b 1c", 0 },
};

static const char *const names[] = { "label" };
static const size_t name_bytes[] = { 5 };
static const struct example_query query = { names, name_bytes, 1 };

struct values {
    uint64_t count;
    int64_t int64s[VALUES_MAX];
    float floats[VALUES_MAX];
    char text[16];
};

static void note_int64(void *arg, int64_t value)
{
    struct values *const values = arg;
    assert_true(values->count < VALUES_MAX);
    values->int64s[values->count++] = value;
}

static void note_floats(void *arg, const uint8_t *run, size_t count)
{
    struct values *const values = arg;
    assert_true(count <= VALUES_MAX - values->count);
    memcpy(values->floats + values->count, run, count * sizeof(float));
    values->count += count;
}

static void note_bytes(void *arg, const uint8_t *value, size_t bytes)
{
    struct values *const values = arg;
    assert_true(strlen(values->text) + bytes < sizeof(values->text));
    strncat(values->text, (const char *)value, bytes);
    values->count++;
}

static struct values values_of(const struct feature *feature)
{
    struct values values = { .count = 0 };
    const struct value_visitor visitor = { note_bytes, note_floats, note_int64, &values };
    if (feature->kind != FEATURE_MISSING)
        feature_visit(feature, &visitor);
    return values;
}

static void expect(const struct expectation *expectation)
{
    const struct hex_block payload = hex_block(expectation->payload);
    struct feature found;
    size_t bad = 0;
    if (example_find(payload.data, payload.bytes, &query, &found, &bad) != 0)
        fail_msg("%s: refused at %zu", expectation->what, bad);
    const struct values values = values_of(&found);
    if (found.kind != expectation->kind || found.entry_count != expectation->entry_count ||
        found.value_count != expectation->value_count || values.count != expectation->value_count)
        fail_msg("%s: kind %d, %u entries, %llu values", expectation->what, (int)found.kind, found.entry_count,
                 (unsigned long long)found.value_count);
    for (uint64_t i = 0; i < values.count; i++)
        if (values.int64s[i] != expectation->values[i])
            fail_msg("%s: value %llu is %lld", expectation->what, (unsigned long long)i, (long long)values.int64s[i]);
    if (found.value_count > 0)
        assert_true(found.int64 == expectation->values[0]);
    free(payload.data);
}

TEST(every_legal_encoding_gives_all_values_in_order)
{
    for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++)
        expect(&accepted[i]);
}

TEST(every_illegal_encoding_is_refused_where_it_is_wrong)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        const struct hex_block payload = hex_block(refused[i].payload);
        struct feature found;
        size_t bad = 99999;
        if (example_find(payload.data, payload.bytes, &query, &found, &bad) != -EBADMSG || bad != refused[i].offset)
            fail_msg("%s: bad at %zu", refused[i].what, bad);
        free(payload.data);
    }
}

/* A Feature's bytes in an Example under "label". */
static struct feature feature_of(const char *hex, uint8_t payload[64])
{
    const struct hex_block feature = hex_block(hex);
    const uint8_t head[] = { 0x0a, (uint8_t)(11 + feature.bytes), 0x0a, (uint8_t)(9 + feature.bytes), 0x0a, 5,
                             'l', 'a', 'b', 'e', 'l', 0x12, (uint8_t)feature.bytes };
    struct feature found;
    size_t bad;
    assert_true(sizeof(head) + feature.bytes <= 64);
    memcpy(payload, head, sizeof(head));
    memcpy(payload + sizeof(head), feature.data, feature.bytes);
    assert_int_equal(example_find(payload, sizeof(head) + feature.bytes, &query, &found, &bad), 0);
    free(feature.data);
    return found;
}

TEST(known_features_hold_what_is_known_of_them)
{
    static const struct { const char *hex; int64_t value; uint64_t count; } int64s[] = {
        { "1a 03 0a 01 07", 7, 1 }, { "1a 02 08 07", 7, 1 }, { "1a 04 0a 02 ac 02", 300, 1 },
        { "1a 0c 0a 0a ff ff ff ff ff ff ff ff ff 01", -1, 1 }, { "1a 00", 0, 0 },
    };
    static const char *const floats[] = {
        "12 0a 0a 08 00 00 80 3f 00 00 20 c0", "12 0a 0d 00 00 80 3f 0d 00 00 20 c0",
    };
    uint8_t payload[64];
    for (size_t i = 0; i < sizeof(int64s) / sizeof(*int64s); i++) {
        const struct feature feature = feature_of(int64s[i].hex, payload);
        assert_int_equal(feature.kind, FEATURE_INT64S);
        assert_int_equal(feature.value_count, int64s[i].count);
        assert_true(feature.int64 == int64s[i].value);
    }
    for (size_t i = 0; i < 2; i++) {
        const struct feature feature = feature_of(floats[i], payload);
        const struct values values = values_of(&feature);
        assert_int_equal(values.count, 2);
        assert_true(values.floats[0] == 1.0f && values.floats[1] == -2.5f);
    }
    const struct feature text = feature_of("0a 04 0a 02 61 62", payload);
    assert_string_equal(values_of(&text).text, "ab");
    const struct feature texts = feature_of("0a 07 0a 02 61 62 0a 01 63", payload);
    assert_int_equal(texts.value_count, 2);
    assert_string_equal(values_of(&texts).text, "abc");
}

/* With the frame around it, as it stands in a file. */
TEST(known_records_hold_what_is_known_of_them)
{
    static const struct { const char *hex; size_t bytes; } records[] = {
        { "12 00 00 00 00 00 00 00 24 1f 64 25 0a 10 0a 0e " KEY " 12 05 " SEVEN " 36 8c 84 b9", 34 },
        { "29 00 00 00 00 00 00 00 37 ff 5f 00 0a 27 0a 15 0a 09 69 6d 61 67 65 5f 72 61 77 12 08 0a 06 0a 04 "
          "00 01 02 03 0a 0e " KEY " 12 05 " SEVEN " 77 7d 91 c8", 57 },
    };
    for (size_t i = 0; i < 2; i++) {
        const struct hex_block frame = hex_block(records[i].hex);
        uint64_t payload_bytes;
        struct tfrecord_problem problem;
        struct feature found;
        size_t bad;
        assert_int_equal(frame.bytes, records[i].bytes);
        assert_int_equal(tfrecord_verify(frame.data, frame.bytes, &payload_bytes, &problem), TFRECORD_OK);
        assert_int_equal(example_find(frame.data + TFRECORD_HEADER_BYTES, payload_bytes, &query, &found, &bad), 0);
        assert_int_equal(found.int64, 7);
        free(frame.data);
    }
}

TESTS_MAIN(NULL, NULL)
