/* Tests of safetensors files as a whole: lengths, headers and data that do not fit each other are refused, each with
 * what is wrong, and none takes memory by what it claims. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/results/tensor_file.h"

#define LENGTH_BYTES 8u
#define TENSORS_MANY 10000u

static void put_length(uint8_t *bytes, uint64_t length)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
}

/* A file that says that its header has `said` bytes, with this header and so many bytes of data. Its outcome; what
 * is refused has a cause in words. */
static int open_file(uint64_t said, const char *header, size_t header_bytes, size_t data_bytes)
{
    const char *const path = fixture_path(folder, "file.safetensors");
    const size_t bytes = LENGTH_BYTES + header_bytes + data_bytes;
    uint8_t *const file_bytes = calloc(1, bytes);
    struct tensor_file file;
    char problem[256];
    assert_non_null(file_bytes);
    put_length(file_bytes, said);
    memcpy(file_bytes + LENGTH_BYTES, header, header_bytes);
    fixture_write(path, file_bytes, bytes);
    free(file_bytes);
    const int rc = tensor_file_open(&file, path, problem, sizeof(problem));
    assert_int_equal(rc == 0, problem[0] == '\0');
    if (rc == 0)
        tensor_file_close(&file);
    return rc;
}

static int open_header(const char *header, size_t data_bytes)
{
    return open_file(strlen(header), header, strlen(header), data_bytes);
}

#define ONE(shape, offsets) "{\"a\":{\"dtype\":\"I32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

TEST_WITH(a_file_that_is_right_is_taken, fixture_folder_make, fixture_folder_remove)
{
    assert_int_equal(open_header("{}", 0), 0);
    assert_int_equal(open_header("{}\r\n\t   ", 0), 0);
    assert_int_equal(open_header(ONE("[2,2]", "[0,16]"), 16), 0);
    assert_int_equal(open_header(ONE("[2,0]", "[0,0]"), 0), 0);
}

TEST_WITH(a_file_shorter_than_its_length_is_refused_at_every_length, fixture_folder_make, fixture_folder_remove)
{
    const char *const path = fixture_path(folder, "short");
    static const char header[] = ONE("[2,2]", "[0,16]");
    uint8_t bytes[LENGTH_BYTES + sizeof(header) - 1 + 16] = { 0 };
    struct tensor_file file;
    char problem[256];
    put_length(bytes, sizeof(header) - 1);
    memcpy(bytes + LENGTH_BYTES, header, sizeof(header) - 1);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        fixture_write(path, bytes, i);
        assert_int_equal(tensor_file_open(&file, path, problem, sizeof(problem)), -EBADMSG);
        assert_true(problem[0] != '\0');
    }
    fixture_write(path, bytes, sizeof(bytes));
    assert_int_equal(tensor_file_open(&file, path, problem, sizeof(problem)), 0);
    tensor_file_close(&file);
}

TEST_WITH(a_length_that_cannot_be_is_refused, fixture_folder_make, fixture_folder_remove)
{
    static const char header[] = ONE("[2,2]", "[0,16]");
    const uint64_t bytes = sizeof(header) - 1;
    const uint64_t lengths[] = { 0, 1, bytes - 1, bytes + 1, bytes + 17, 100000001, UINT64_C(1) << 32,
                                 UINT64_C(1) << 63, UINT64_C(1) << 63 | bytes, UINT64_MAX, UINT64_MAX - 7 };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        assert_int_equal(open_file(lengths[i], header, bytes, 16), -EBADMSG);
}

TEST_WITH(headers_and_data_that_disagree_are_refused, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *header; size_t data_bytes; } rows[] = {
        { "\xff", 0 },  { "{", 0 },     { "{\"\xff\":1}", 0 },         { "{}x", 0 },
        { ONE("[2,2]", "[0,4]"), 4 },   { ONE("[2,2]", "[0,16]"), 17 }, { ONE("[2,2]", "[0,16]"), 15 },
        { ONE("[2,18446744073709551614]", "[0,16]"), 16 },              { ONE("[2,2]", "[0.0,16.0]"), 16 },
        { ONE("[2,2]", "[\"0\",\"16\"]"), 16 },                         { ONE("[2,2]", "[-16,0]"), 16 },
        { ONE("[-0]", "[0,0]"), 0 },    { ONE("[1,1,1,1,1,1,1,1,4]", "[0,16]"), 16 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(open_header(rows[i].header, rows[i].data_bytes), -EBADMSG);
}

/* Each claims all of the file: taken at their word they would be ten thousand times as large. */
TEST_WITH(ten_thousand_tensors_in_one_place_are_refused_without_memory, fixture_folder_make, fixture_folder_remove)
{
    const size_t room = TENSORS_MANY * 80 + 2, data_bytes = (size_t)1 << 20;
    char *const header = malloc(room);
    struct rusage before, after;
    size_t used = 0;
    assert_non_null(header);
    for (uint32_t i = 0; i < TENSORS_MANY; i++)
        used += (size_t)snprintf(header + used, room - used,
                                 "%c\"t%u\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}",
                                 i == 0 ? '{' : ',', i, data_bytes, data_bytes);
    header[used++] = '}';
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(open_file(used, header, used, data_bytes), -EBADMSG);
    getrusage(RUSAGE_SELF, &after);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 64 * 1024);
    free(header);
}

TEST_WITH(files_of_other_kinds_are_named, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *front; size_t bytes; const char *kind; } kinds[] = {
#define FRONT(text) text, sizeof(text) - 1
        { FRONT("PK\3\4..............archive/data.pkl"), "one of torch.save" },
        { FRONT("PK\3\4..............metadata.json{}"), "a model of Keras" },
        { FRONT("PK\3\4..............arr_0.npy"), "a file of numpy.savez" },
        { FRONT("PK\3\4..............x.txt"), "a ZIP archive" },
        { FRONT("\x89HDF\r\n\x1a\n........"), "an HDF5 file" },
        { FRONT("GGUF\3\0\0\0........"), "a GGUF file" },
        { FRONT("\x1c\0\0\0TFL3........"), "a model of TensorFlow Lite" },
        { FRONT("\x08\7\x12\7pytorch......."), "a model in ONNX" },
        { FRONT("\x80\2}q\0........"), "a pickle" },
        { FRONT("\x08\1\0\0\0\0\0\0{\"fc.weight\""), "the beginning of one: it may have been cut" },
        { FRONT("\x80\2\0\0\0\0\0\0{\"fc.weight\""), "the beginning of one: it may have been cut" },
        { FRONT("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer" },
        { FRONT("............\x57\xfb\x80\x8b\x24\x75\x47\xdb"), "a checkpoint of TensorFlow" },
        { FRONT("<!doctype html>........"), "HTML" },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const char *const path = fixture_path(folder, "file");
        struct tensor_file file;
        char problem[256], begin[256];
        fixture_write(path, kinds[i].front, kinds[i].bytes);
        assert_int_equal(tensor_file_open(&file, path, problem, sizeof(problem)), -EBADMSG);
        snprintf(begin, sizeof(begin), "is not a safetensors file, but %s", kinds[i].kind);
        if (strncmp(problem, begin, strlen(begin)) != 0)
            fail_msg("'%s' does not begin with '%s'", problem, begin);
    }
}

TEST_WITH(files_of_no_known_kind_are_only_refused, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *text, *problem; } rows[] = {
        { "", "is not a safetensors file: it is empty" }, { "what is this?", "is not a safetensors file" } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tensor_file file;
        char problem[256];
        fixture_write_text(fixture_path(folder, "file"), rows[i].text);
        assert_int_equal(tensor_file_open(&file, fixture_path(folder, "file"), problem, sizeof(problem)), -EBADMSG);
        assert_string_equal(problem, rows[i].problem);
    }
}

TESTS_MAIN(NULL, NULL)
