/* Tests of NumPy's headers: what is accepted, and each way of being wrong. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/html.h"
#include "formats/npy.h"
#include "tests/helpers/test.h"

/* A header of this version and dictionary in a block of exactly its size. */
static uint8_t *make_header(unsigned version, const char *dictionary, size_t *bytes_out)
{
    const size_t length = strlen(dictionary), begin = version > 1 ? 12 : 10;
    uint8_t *const file = calloc(1, begin + length);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[8] = (uint8_t)length;
    file[9] = (uint8_t)(length >> 8);
    memcpy(file + begin, dictionary, length);
    *bytes_out = begin + length;
    return file;
}

static int parse(unsigned version, const char *dictionary, struct npy *npy_out, const char **problem_out)
{
    size_t bytes;
    uint8_t *const file = make_header(version, dictionary, &bytes);
    const int rc = npy_parse(file, bytes, npy_out, problem_out);
    free(file);
    return rc;
}

TEST(reads_what_numpy_writes)
{
    const char *problem;
    struct npy npy;
    for (unsigned version = 1; version <= 3; version++) {
        assert_int_equal(parse(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }      \n",
                               &npy, &problem), 0);
        assert_int_equal(npy.kind, NPY_FLOAT);
        assert_int_equal(npy.item_bytes, 4);
        assert_int_equal(npy.rank, 3);
        assert_int_equal(npy.dims[0], 60000);
        assert_int_equal(npy.dims[2], 28);
        assert_int_equal(npy.data_bytes, 60000u * 28 * 28 * 4);
        assert_int_equal(npy.header_bytes, (version > 1 ? 12 : 10) + 75);
    }
    assert_int_equal(parse(1, "{\"shape\":(5L,),\"fortran_order\":True,\"descr\":\"|u1\"}", &npy, &problem), 0);
    assert_int_equal(npy.rank, 1);
    assert_int_equal(npy.data_bytes, 5);
    assert_string_equal(npy_type_name(&npy), "uint8");
    assert_int_equal(parse(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", &npy, &problem), 0);
    assert_int_equal(npy.rank, 0);
    assert_int_equal(npy.data_bytes, 8);
    assert_string_equal(npy_type_name(&npy), "int64");
    assert_int_equal(parse(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (0, 3), }", &npy, &problem), 0);
    assert_int_equal(npy.data_bytes, 0);
    assert_string_equal(npy_type_name(&npy), "bool");
}

TEST(refuses_with_words)
{
    static const struct { const char *dictionary, *words; } rows[] = {
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "big-endian" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "ascontiguousarray" },
        { "{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", "has the dtype str" },
        { "{'descr': '|S5', 'fortran_order': False, 'shape': (2,), }", "has the dtype bytes" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "complex" },
        { "{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", "longdouble" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "has the dtype object" },
        { "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,), }", "neither booleans, integers" },
        { "{'descr': '', 'fortran_order': False, 'shape': (2,), }", "neither booleans, integers" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "records" },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", "fortran_order" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "8 dimensions" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "absurd" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "shape" },
        { "{'descr': '<f4', 'shape': (2,), }", "lacks" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "unknown entry" },
        { "{'descr': '<f4' 'fortran_order': False}", "damaged" },
        { "[1, 2]", "no dictionary" },
        { "  ", "no dictionary" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *problem = NULL;
        struct npy npy;
        assert_int_equal(parse(1, rows[i].dictionary, &npy, &problem), -EBADMSG);
        if (strstr(problem, rows[i].words) == NULL)
            fail_msg("%s: %s", rows[i].dictionary, problem);
    }
}

TEST(refuses_a_header_cut_at_any_byte_and_other_beginnings)
{
    const char *problem;
    struct npy npy;
    size_t bytes;
    uint8_t *const file = make_header(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        uint8_t *const own = malloc(cut + 1);
        memcpy(own, file, cut);
        assert_int_equal(npy_parse(own, cut, &npy, &problem), -EBADMSG);
        assert_non_null(strstr(problem, cut < 6 ? "no .npy" : "cut short"));
        free(own);
    }
    file[6] = 4;
    assert_int_equal(npy_parse(file, bytes, &npy, &problem), -EBADMSG);
    file[6] = 2;
    file[11] = 1;
    assert_int_equal(npy_parse(file, bytes, &npy, &problem), -EBADMSG);
    assert_non_null(strstr(problem, "absurdly long"));
    file[0] = 0;
    assert_int_equal(npy_parse(file, bytes, &npy, &problem), -EBADMSG);
    free(file);
}

TEST(reads_numbers_of_every_type)
{
    static const uint8_t all_ones[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    static const uint8_t low_high[8] = { 1, 0x80 };
    int64_t value;
    for (uint32_t bytes = 1; bytes <= 8; bytes *= 2) {
        const struct npy is_signed = { .kind = NPY_INT, .item_bytes = bytes };
        const struct npy is_unsigned = { .kind = NPY_UINT, .item_bytes = bytes };
        assert_true(npy_number(&is_signed, all_ones) == -1);
        assert_true(npy_integer(&is_signed, all_ones, &value) && value == -1);
        assert_true(npy_number(&is_unsigned, low_high) == (bytes == 1 ? 1 : 0x8001));
        assert_true(npy_integer(&is_unsigned, low_high, &value) && value == (bytes == 1 ? 1 : 0x8001));
        assert_int_equal(npy_integer(&is_unsigned, all_ones, &value), bytes < 8);
    }
    const float narrow = -0.25f;
    const double wide = 1e300;
    const struct npy floats = { .kind = NPY_FLOAT, .item_bytes = 4 }, doubles = { .kind = NPY_FLOAT, .item_bytes = 8 };
    assert_true(npy_number(&floats, (const uint8_t *)&narrow) == -0.25);
    assert_true(npy_number(&doubles, (const uint8_t *)&wide) == 1e300);
    assert_false(npy_integer(&floats, (const uint8_t *)&narrow, &value));
}

TEST(reads_the_header_that_it_writes)
{
    static const uint64_t counts[] = { 0, 1, 1000, UINT32_MAX, UINT64_MAX / 8 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char header[NPY_ROWS_HEADER_BYTES];
        const char *problem;
        struct npy npy;
        npy_rows_header(counts[i], 2, header);
        assert_int_equal(npy_parse((const uint8_t *)header, sizeof(header), &npy, &problem), 0);
        assert_int_equal(npy.header_bytes, sizeof(header));
        assert_true(npy.rank == 2 && npy.dims[0] == counts[i] && npy.dims[1] == 2);
        assert_true(npy.kind == NPY_FLOAT && npy.item_bytes == 4 && npy.data_bytes == 8 * counts[i]);
    }
}

TEST(reads_halves)
{
    static const struct { uint8_t bytes[2]; double number; } rows[] = {
        { { 0x00, 0x00 }, 0 }, { { 0x00, 0x3c }, 1 }, { { 0x00, 0xb8 }, -0.5 }, { { 0xf8, 0x5b }, 255 },
        { { 0x01, 0x3c }, 1 + 0x1p-10 }, { { 0xff, 0x7b }, 65504 }, { { 0x01, 0x00 }, 0x1p-24 },
        { { 0xff, 0x83 }, -1023 * 0x1p-24 }, { { 0x00, 0x04 }, 0x1p-14 }, { { 0x00, 0xfc }, -INFINITY },
    };
    static const uint8_t none[2] = { 0x00, 0x7e };
    const struct npy halves = { .kind = NPY_FLOAT, .item_bytes = 2 };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_true(npy_number(&halves, rows[i].bytes) == rows[i].number);
    assert_true(isnan(npy_number(&halves, none)));
    assert_string_equal(npy_type_name(&halves), "float16");
}

TEST(a_web_page_is_called_one_whatever_it_begins_with)
{
    static const struct { const char *text; bool is_page; } rows[] = {
        { "<!DOCTYPE html>", true }, { "\xef\xbb\xbf<html>", true }, { " \n\t<Head>", true }, { "\xef\xbb\xbf\r\n<body x", true },
        { "<!--", true }, { "\xef\xbb<html>", false }, { "x<html>", false }, { "<htm", false }, { "", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (html_begins(rows[i].text, strlen(rows[i].text)) != rows[i].is_page)
            fail_msg("'%s'", rows[i].text);
}

TESTS_MAIN(NULL, NULL)
