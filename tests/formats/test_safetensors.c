/* Tests of the safetensors header: the known bytes, alignment, and what is refused. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "tests/helpers/test.h"

static const struct safetensors_text format_pt[] = { { "format", "pt" } };

/* Length and header in one block, to be freed. */
static uint8_t *header_make(const struct safetensors_entry *entries, size_t count,
                            const struct safetensors_text *metadata, size_t metadata_count, size_t *bytes_out)
{
    struct json json;
    json_init(&json, false);
    assert_int_equal(safetensors_header(&json, entries, count, metadata, metadata_count, SAFETENSORS_ALIGNMENT), 0);
    uint8_t *header = malloc(SAFETENSORS_LENGTH_BYTES + json.bytes);
    assert_non_null(header);
    safetensors_length(json.bytes, header);
    memcpy(header + SAFETENSORS_LENGTH_BYTES, json.text, json.bytes);
    *bytes_out = SAFETENSORS_LENGTH_BYTES + json.bytes;
    json_release(&json);
    return header;
}

TEST(writes_the_known_bytes)
{
    static const char known[] = "{\"__metadata__\":{\"format\":\"pt\"},\"fc.bias\":{\"dtype\":\"F32\",\"shape\":[2],"
                                "\"data_offsets\":[0,8]}}     ";
    const struct safetensors_entry entry = { .name = "fc.bias", .dtype = "F32", .rank = 1, .dims = { 2 }, .bytes = 8 };
    size_t bytes;
    uint8_t *header = header_make(&entry, 1, format_pt, 1, &bytes);
    assert_int_equal(bytes, 104);
    assert_memory_equal(header, "\x60\0\0\0\0\0\0\0", 8);
    assert_memory_equal(header + 8, known, 96);
    free(header);
}

/* Names of every length make headers of every length. */
TEST(any_header_is_aligned_json_whose_tensors_chain)
{
    for (size_t length = 1; length < 40; length++) {
        char long_name[64] = { 0 };
        memset(long_name, 'w', length);
        const struct safetensors_entry entries[] = {
            { .name = long_name, .dtype = "F32", .rank = 4, .dims = { 32, 1, 3, 3 }, .bytes = 1152 },
            { .name = "none", .dtype = "F32", .rank = 2, .dims = { 2, 0 }, .bytes = 0 },
            { .name = "half", .dtype = "BF16", .rank = 1, .dims = { 3 }, .bytes = 6 },
            { .name = "scalar", .dtype = "U8", .rank = 0, .bytes = 1 },
        };
        size_t bytes;
        uint8_t *header = header_make(entries, 4, NULL, 0, &bytes);
        assert_int_equal(bytes % 8, 0);
        assert_int_equal(header[0] | header[1] << 8, bytes - 8);
        json_t *read = json_loadb((const char *)header + 8, bytes - 8, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(read);
        json_int_t end = 0;
        for (size_t i = 0; i < 4; i++) {
            json_t *offsets = json_object_get(json_object_get(read, entries[i].name), "data_offsets");
            assert_int_equal(json_integer_value(json_array_get(offsets, 0)), end);
            end = json_integer_value(json_array_get(offsets, 1));
        }
        assert_int_equal(end, 1159);
        json_decref(read);
        free(header);
    }
}

TEST(a_file_may_have_no_tensors)
{
    size_t bytes;
    uint8_t *header = header_make(NULL, 0, NULL, 0, &bytes);
    assert_int_equal(bytes, 16);
    assert_memory_equal(header, "\x08\0\0\0\0\0\0\0{}      ", 16);
    free(header);
}

TEST(escapes_metadata)
{
    const struct safetensors_text metadata[] = { { "pipetrain.note", "a \"quoted\"\nline" } };
    size_t bytes;
    uint8_t *header = header_make(NULL, 0, metadata, 1, &bytes);
    json_t *read = json_loadb((const char *)header + 8, bytes - 8, 0, NULL);
    const json_t *note = json_object_get(json_object_get(read, "__metadata__"), "pipetrain.note");
    assert_string_equal(json_string_value(note), "a \"quoted\"\nline");
    json_decref(read);
    free(header);
}

TEST(the_same_entries_again_take_no_more_room)
{
    const struct safetensors_entry entry = { .name = "fc.bias", .dtype = "F32", .rank = 1, .dims = { 2 }, .bytes = 8 };
    const struct safetensors_text longer[] = { { "steps", "18446744073709551615" } }, shorter[] = { { "steps", "7" } };
    struct json json;
    json_init(&json, false);
    assert_int_equal(safetensors_header(&json, &entry, 1, longer, 1, SAFETENSORS_ALIGNMENT), 0);
    const char *const text = json.text;
    const size_t room = json.room;
    assert_int_equal(safetensors_header(&json, &entry, 1, shorter, 1, SAFETENSORS_ALIGNMENT), 0);
    assert_ptr_equal(json.text, text);
    assert_int_equal(json.room, room);
    assert_non_null(strstr(json.text, "\"steps\":\"7\""));
    json_release(&json);
}

static void expect_refused(struct safetensors_entry entry)
{
    struct json json;
    json_init(&json, false);
    assert_int_equal(safetensors_header(&json, &entry, 1, NULL, 0, SAFETENSORS_ALIGNMENT), -EINVAL);
    json_release(&json);
}

TEST(refuses_entries_that_no_reader_would_take)
{
    const struct safetensors_entry good = { .name = "w", .dtype = "F32", .rank = 1, .dims = { 2 }, .bytes = 8 };
    static const char *const bad_names[] = { "", "a\"b", "a\\b", "a b", "\xc3\xa4", "a\n" };
    struct safetensors_entry bad;

    for (size_t i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); i++) {
        bad = good;
        bad.name = bad_names[i];
        expect_refused(bad);
    }
    bad = good;
    bad.bytes = 4;
    expect_refused(bad);
    bad = good;
    bad.dtype = "F31";
    expect_refused(bad);
    bad = good;
    bad.rank = 9;
    expect_refused(bad);
    bad = good;
    bad.rank = 2;
    bad.dims[1] = UINT64_MAX / 2;
    expect_refused(bad);

    const struct safetensors_entry twice[] = { good, good };
    struct json json;
    json_init(&json, false);
    assert_int_equal(safetensors_header(&json, twice, 2, NULL, 0, SAFETENSORS_ALIGNMENT), -EINVAL);
    json_release(&json);
}

/* As in a checkpoint of many towers. */
TEST(refuses_a_name_that_is_twice_among_many)
{
    enum { MANY = 50000 };
    struct safetensors_entry *const entries = calloc(MANY, sizeof(*entries));
    char(*const names)[24] = calloc(MANY, sizeof(*names));
    struct json json;
    json_init(&json, false);
    assert_true(entries != NULL && names != NULL);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "tower.%zu.mean", i * 7919 % MANY);
        entries[i] = (struct safetensors_entry){ names[i], "F32", 1, { 1 }, 4 };
    }
    assert_int_equal(safetensors_header(&json, entries, MANY, NULL, 0, SAFETENSORS_ALIGNMENT), 0);
    strcpy(names[MANY - 1], names[17]);
    assert_int_equal(safetensors_header(&json, entries, MANY, NULL, 0, SAFETENSORS_ALIGNMENT), -EINVAL);
    json_release(&json);
    free(entries);
    free(names);
}

TEST(what_is_written_is_read)
{
    const struct safetensors_entry entries[] = {
        { .name = "conv1.weight", .dtype = "F32", .rank = 4, .dims = { 2, 1, 3, 3 }, .bytes = 72 },
        { .name = "half", .dtype = "BF16", .rank = 1, .dims = { 4 }, .bytes = 8 },
    };
    struct safetensors_index index;
    char problem[128];
    size_t bytes;
    uint8_t *header = header_make(entries, 2, format_pt, 1, &bytes);
    assert_int_equal(safetensors_header_bytes(header), bytes - 8);
    assert_int_equal(safetensors_index_read(&index, (char *)header + 8, bytes - 8, 80, problem, sizeof(problem)), 0);
    free(header);
    assert_int_equal(index.count, 2);
    assert_string_equal(index.tensors[0].name, "conv1.weight");
    assert_string_equal(index.tensors[0].dtype, "F32");
    assert_int_equal(index.tensors[0].rank, 4);
    assert_memory_equal(index.tensors[0].dims, entries[0].dims, 4 * sizeof(uint64_t));
    assert_string_equal(index.tensors[1].name, "half");
    assert_int_equal(index.tensors[1].offset, 72);
    assert_int_equal(index.tensors[1].bytes, 8);
    safetensors_index_release(&index);
}

/* A header of one tensor. */
#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static int read_header(const char *header, uint64_t data_bytes, char *problem, size_t problem_size)
{
    struct safetensors_index index = { .count = 0 };
    *problem = '\0';
    const int rc = safetensors_index_read(&index, header, strlen(header), data_bytes, problem, problem_size);
    safetensors_index_release(&index);
    return rc;
}

TEST(reads_what_others_may_write)
{
    static const struct { const char *header; uint64_t data_bytes; } rows[] = {
        { "{}", 0 },
        { "{} \r\n\t ", 0 },
        { "{\"__metadata__\":{\"format\":\"pt\"}}", 0 },
        { "{\"__metadata__\":{\"a-\\\"-b\":\"-0 \\\\\"}}", 0 },
        { ONE("\"F32\"", "[]", "[0,4]"), 4 },
        { ONE("\"F32\"", "[2,0]", "[0,0]"), 0 },
        { ONE("\"F4\"", "[6]", "[0,3]"), 3 },
        { "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 7 },
    };
    char problem[128];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(read_header(rows[i].header, rows[i].data_bytes, problem, sizeof(problem)), 0);
}

/* Each is right but for one thing. */
TEST(refuses_headers_that_cannot_be_true)
{
    static const struct { const char *header; uint64_t data_bytes; } rows[] = {
        { "", 0 }, { "{", 0 }, { "[]", 0 }, { " {}", 0 }, { "{}x", 0 }, { "\xff{}", 0 }, { "{\"\xff\":1}", 0 },
        { "{\"a\":1}", 0 }, { "{\"a\":{}}", 0 }, { "{\"a\":{\"\":{\"\":{\"\":{}}}}}", 0 },
        { "{\"__metadata__\":[]}", 0 }, { "{\"__metadata__\":{\"a\":1}}", 0 },
        { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0 }, { "{\"__metadata__\":{},\"__metadata__\":{}}", 0 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4 },
        { ONE("\"F31\"", "[1]", "[0,4]"), 4 }, { ONE("1", "[1]", "[0,4]"), 4 },
        { ONE("\"F4\"", "[3]", "[0,2]"), 2 }, { ONE("\"F4\"", "[3]", "[0,1]"), 1 },
        { ONE("\"F32\"", "2", "[0,8]"), 8 }, { ONE("\"F32\"", "[2]", "[0]"), 8 },
        { ONE("\"F32\"", "[2]", "[0,8,8]"), 8 }, { ONE("\"F32\"", "[2]", "[0,8.0]"), 8 },
        { ONE("\"F32\"", "[2]", "[\"0\",8]"), 8 }, { ONE("\"F32\"", "[2.0]", "[0,8]"), 8 },
        { ONE("\"F32\"", "[3]", "[0,8]"), 8 }, { ONE("\"F32\"", "[-2]", "[0,8]"), 8 },
        { ONE("\"F32\"", "[-0]", "[0,0]"), 0 }, { ONE("\"F32\"", "[0]", "[-0,0]"), 0 },
        { ONE("\"F32\"", "[2e0]", "[0,8]"), 8 },
        { ONE("\"F32\"", "[-2,-1]", "[0,8]"), 8 }, { ONE("\"F32\"", "[2]", "[8,0]"), 8 },
        { ONE("\"F32\"", "[2]", "[-8,0]"), 8 }, { ONE("\"F32\"", "[2]", "[0,8]"), 7 },
        { ONE("\"F32\"", "[2]", "[0,8]"), 9 }, { ONE("\"F32\"", "[2]", "[4,12]"), 12 },
        { ONE("\"I32\"", "[2,2]", "[0,4]"), 4 },
        { ONE("\"F32\"", "[4611686018427387904,4]", "[0,0]"), 0 },
        { ONE("\"F32\"", "[2,18446744073709551614]", "[0,0]"), 0 },
        { ONE("\"F32\"", "[0,281474976710656]", "[0,0]"), 0 },
        { ONE("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}", 7 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8 },
    };
    char problem[128];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (read_header(rows[i].header, rows[i].data_bytes, problem, sizeof(problem)) != -EBADMSG)
            fail_msg("row %zu was taken: %s", i, rows[i].header);
        assert_true(*problem != '\0');
    }
}

TEST(metadata_are_found_by_key)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"}}";
    struct safetensors_index index;
    char problem[128];
    assert_int_equal(safetensors_index_read(&index, header, strlen(header), 0, problem, sizeof(problem)), 0);
    assert_string_equal(safetensors_index_text(&index, "format"), "pt");
    assert_null(safetensors_index_text(&index, "forma"));
    safetensors_index_release(&index);
    assert_int_equal(safetensors_index_read(&index, "{}", 2, 0, problem, sizeof(problem)), 0);
    assert_null(safetensors_index_text(&index, "format"));
    safetensors_index_release(&index);
}

TESTS_MAIN(NULL, NULL)
