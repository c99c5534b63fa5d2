/* Tests of the IDX parser: good files, and each way of being wrong. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/idx.h"
#include "tests/helpers/test.h"

static void expect_problem(const uint8_t *file, size_t bytes, const char *words)
{
    uint8_t *own = calloc(bytes ? bytes : 1, 1);
    struct idx idx;
    const char *problem = NULL;

    if (bytes > 0)
        memcpy(own, file, bytes);
    assert_int_equal(idx_parse(own, bytes, &idx, &problem), -EBADMSG);
    assert_non_null(strstr(problem, words));
    free(own);
}

static const uint8_t images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 10, 11, 12, 20, 21, 22 };

TEST(reads_sizes_as_big_endian_and_points_into_the_file)
{
    struct idx idx;
    const char *problem;

    assert_int_equal(idx_parse(images, sizeof(images), &idx, &problem), 0);
    assert_int_equal(idx.rank, 3);
    assert_int_equal(idx.dims[0], 2);
    assert_int_equal(idx.dims[1], 1);
    assert_int_equal(idx.dims[2], 3);
    assert_int_equal(idx.data_bytes, 6);
    assert_ptr_equal(idx.data, images + 16);
}

TEST(reads_labels_and_empty_files)
{
    static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 }, none[] = { 0, 0, 8, 1, 0, 0, 0, 0 };
    struct idx idx;
    const char *problem;

    assert_int_equal(idx_parse(labels, sizeof(labels), &idx, &problem), 0);
    assert_int_equal(idx.rank, 1);
    assert_int_equal(idx.data[1], 9);
    assert_int_equal(idx_parse(none, sizeof(none), &idx, &problem), 0);
    assert_int_equal(idx.data_bytes, 0);
}

TEST(rejects_a_file_cut_at_any_byte_and_one_byte_more)
{
    uint8_t longer[sizeof(images) + 1] = { 0 };

    for (size_t cut = 0; cut < sizeof(images); cut++)
        expect_problem(images, cut, cut < 4 ? "shorter" : cut < 16 ? "cut short" : "fewer");
    memcpy(longer, images, sizeof(images));
    expect_problem(longer, sizeof(longer), "more bytes");
}

TEST(rejects_other_magic_types_and_ranks)
{
    uint8_t file[sizeof(images)];

    memcpy(file, images, sizeof(images));
    file[0] = 1;
    expect_problem(file, sizeof(file), "magic");
    file[0] = 0;
    file[2] = 0x0d;
    expect_problem(file, sizeof(file), "unsigned bytes");
    file[2] = 8;
    file[3] = 0;
    expect_problem(file, sizeof(file), "dimensions");
    file[3] = 5;
    expect_problem(file, sizeof(file), "dimensions");
}

TEST(rejects_sizes_whose_product_overflows)
{
    uint8_t file[20] = { 0, 0, 8, 4 };

    memset(file + 4, 0xff, 16);
    expect_problem(file, sizeof(file), "absurd");
    /* 2^16 x 2^16 x 2^16 x 2^16 is 2^64, which would wrap to the 0 bytes there are */
    memset(file + 4, 0, 16);
    file[5] = file[9] = file[13] = file[17] = 1;
    expect_problem(file, sizeof(file), "absurd");
}

TESTS_MAIN(NULL, NULL)
