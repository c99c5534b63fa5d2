/* Tests of DALI's index: what is written, and that nothing but it is taken for right. */
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/shards/dali_index.h"

/* Records A (34 bytes) and B (57 bytes) of the formats' vectors, and an empty one. */
static uint32_t lengths[] = { 18, 41, 0 };
static uint64_t offsets[] = { 0 };
static const struct shard_index two = { .bytes = 91, .record_count = 2, .lengths = lengths, .offsets = offsets };
static const struct shard_index three = { .bytes = 107, .record_count = 3, .lengths = lengths, .offsets = offsets };

static bool agrees(const char *text, const struct shard_index *index, const char *expected)
{
    char problem[256] = "";
    const bool result = dali_index_agrees(text, strlen(text), index, problem, sizeof(problem));
    if (!result && strstr(problem, expected) == NULL)
        fail_msg("'%s' is not in '%s'", expected, problem);
    return result;
}

TEST(a_record_is_a_line)
{
    size_t bytes;
    char *const text = dali_index_text(&two, &bytes);
    assert_non_null(text);
    assert_string_equal(text, "0 34\n34 57\n");
    assert_int_equal(bytes, strlen(text));
    assert_true(agrees(text, &two, ""));
    free(text);
}

TEST(every_cut_is_found)
{
    static const char text[] = "0 34\n34 57\n91 16\n";
    char problem[256];
    assert_true(agrees(text, &three, ""));
    for (size_t bytes = 0; bytes < strlen(text); bytes++)
        assert_false(dali_index_agrees(text, bytes, &three, problem, sizeof(problem)));
}

TEST(every_other_index_is_reported)
{
    assert_false(agrees("0 34\n", &two, "fewer lines"));
    assert_false(agrees("0 34\n34 57\n91 16\n", &two, "more lines"));
    assert_false(agrees("34 57\n0 34\n", &two, "line 1: begins at byte 34, not 0"));
    assert_false(agrees("0 34\n91 16\n", &three, "line 2: begins at byte 91, not 34"));
    assert_false(agrees("0 34\n35 57\n", &two, "line 2: begins at byte 35, not 34"));
    assert_false(agrees("0 34\n34 15\n", &two, "line 2: 15 bytes are too few"));
    assert_false(agrees("0 30\n30 57\n", &two, "line 1: says 30 bytes at byte 0, but the shard has 34"));
    assert_false(agrees("0 34\n34 x\n", &two, "line 2: is not"));
    assert_false(agrees("0 34\n34 -57\n", &two, "line 2: is not"));
    assert_false(agrees("0 34\r\n34 57\r\n", &two, "line 1: is not"));
    assert_false(agrees("0 99999999999999999999\n", &two, "line 1: is not"));
    assert_false(agrees("0 34\n34 57\n\n", &two, "more lines"));
}

TESTS_MAIN(NULL, NULL)
