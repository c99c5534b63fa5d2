/* Tests of walking tar archives: the forms that there are, and what is refused. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/inputs/tar.h"
#include "tests/helpers/tar_fixture.h"
#include "tests/helpers/test.h"

static struct tar_fixture tar;

static int begin(void **state)
{
    (void)state;
    tar = (struct tar_fixture){ .byte_count = 0 };
    return 0;
}

/* Reading that fails the test when it goes back. */
struct forward { const struct tar_fixture *tar; size_t bytes; uint64_t at; };

static int read_forward(void *arg, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    struct forward *forward = arg;

    assert_true(offset >= forward->at);
    const size_t left = offset < forward->bytes ? forward->bytes - (size_t)offset : 0;
    *done_out = bytes < left ? bytes : left;
    memcpy(out, forward->tar->bytes + (left ? offset : 0), *done_out);
    forward->at = offset + *done_out;
    return 0;
}

/* The walk's outcome behind the last member, which is kept in *member. */
static int walk_all(size_t bytes, struct tar_walk *walk, struct tar_member *member, size_t *count, const char **problem)
{
    struct forward forward = { &tar, bytes, 0 };
    int rc;

    *walk = (struct tar_walk){ .source = { read_forward, &forward } };
    *count = 0;
    *problem = NULL;
    while ((rc = tar_next(walk, member, problem)) == 0) {
        assert_ptr_equal(member->path, walk->path);
        (*count)++;
    }
    return rc;
}

static void expect_member(const char *path, bool is_folder, uint64_t offset, uint64_t bytes)
{
    struct tar_walk walk;
    struct tar_member member;
    struct forward forward = { &tar, tar.byte_count, 0 };
    const char *problem = NULL;

    walk = (struct tar_walk){ .source = { read_forward, &forward } };
    assert_int_equal(tar_next(&walk, &member, &problem), 0);
    assert_string_equal(member.path, path);
    assert_int_equal(member.is_folder, is_folder);
    assert_int_equal(member.data_offset, offset);
    assert_int_equal(member.data_bytes, bytes);
    assert_int_equal(tar_next(&walk, &member, &problem), -ENODATA);
    begin(NULL);
}

static void expect_problem(const char *path, const char *words)
{
    struct tar_walk walk;
    struct tar_member member;
    const char *problem;
    size_t count;

    tar_fixture_end(&tar);
    assert_int_equal(walk_all(tar.byte_count, &walk, &member, &count, &problem), -EBADMSG);
    assert_non_null(problem);
    if (strstr(problem, words) == NULL)
        fail_msg("'%s' says nothing of '%s'", problem, words);
    assert_string_equal(walk.path, path);
    begin(NULL);
}

TEST_WITH(tells_files_and_folders_with_their_places, begin, NULL)
{
    struct tar_walk walk;
    struct tar_member member;
    const char *problem;
    size_t count;

    tar_fixture_add(&tar, '5', "cat/", NULL, 0);
    tar_fixture_add(&tar, '0', "cat/a.png", "abc", 3);
    tar_fixture_add(&tar, '\0', "cat/b.png", NULL, 0);
    tar_fixture_add(&tar, '0', "cat/c.png", tar.bytes, 513);
    tar_fixture_end(&tar);
    assert_int_equal(walk_all(tar.byte_count, &walk, &member, &count, &problem), -ENODATA);
    assert_int_equal(count, 4);
    assert_int_equal(member.data_offset, 512 * 5);
    assert_int_equal(member.data_bytes, 513);
}

TEST_WITH(tidies_paths, begin, NULL)
{
    tar_fixture_add(&tar, '0', "./cat//./a.png", "x", 1);
    tar_fixture_end(&tar);
    expect_member("cat/a.png", false, 512, 1);
    tar_fixture_add(&tar, '5', "./", NULL, 0);
    tar_fixture_end(&tar);
    expect_member("", true, 512, 0);
    tar_fixture_add(&tar, '0', "old/style/", NULL, 0);
    tar_fixture_end(&tar);
    expect_member("old/style", true, 512, 0);
    tar_fixture_add(&tar, '0', "a..b/..c", NULL, 0);
    tar_fixture_end(&tar);
    expect_member("a..b/..c", false, 512, 0);
}

TEST_WITH(joins_the_two_halves_of_a_posix_path, begin, NULL)
{
    tar_fixture_add(&tar, '0', "b/c.png", "x", 1);
    tar_fixture_set(&tar, 345, "very/long", 9);
    tar_fixture_end(&tar);
    expect_member("very/long/b/c.png", false, 512, 1);
    tar_fixture_add(&tar, '0', "b/c.png", "x", 1);
    tar_fixture_set(&tar, 345, "times", 5);
    tar_fixture_set(&tar, 257, "ustar  ", 8);       /* GNU has other things there */
    tar_fixture_end(&tar);
    expect_member("b/c.png", false, 512, 1);
}

TEST_WITH(takes_names_that_fill_their_fields, begin, NULL)
{
    char name[101], prefix[156], whole[260];

    memset(name, 'n', 100);
    memset(prefix, 'p', 155);
    name[100] = prefix[155] = '\0';
    tar_fixture_add(&tar, '0', name, NULL, 0);
    tar_fixture_set(&tar, 345, prefix, 155);
    tar_fixture_end(&tar);
    memcpy(whole, prefix, 155);
    whole[155] = '/';
    memcpy(whole + 156, name, 101);
    expect_member(whole, false, 512, 0);
}

TEST_WITH(takes_long_names_of_gnu_and_pax, begin, NULL)
{
    char name[301], pax[700] = "";

    memset(name, 'x', 300);
    name[100] = '/';
    name[300] = '\0';
    tar_fixture_add(&tar, 'L', "././@LongLink", name, 301);
    tar_fixture_add(&tar, '0', "cut", "x", 1);
    tar_fixture_end(&tar);
    expect_member(name, false, 3 * 512, 1);
    tar_fixture_pax(pax, sizeof(pax), "mtime", "1.5");
    tar_fixture_pax(pax, sizeof(pax), "path", name);
    tar_fixture_pax(pax, sizeof(pax), "size", "3");
    tar_fixture_add(&tar, 'g', "global", "13 path=nope\n", 13);
    tar_fixture_add(&tar, 'x', "PaxHeader", pax, strlen(pax));
    tar_fixture_add(&tar, '0', "cut", "abc", 3);
    tar_fixture_set(&tar, 124, "00000000000", 11);
    tar_fixture_end(&tar);
    expect_member(name, false, 5 * 512, 3);
}

TEST_WITH(a_long_name_is_of_one_member_only, begin, NULL)
{
    struct tar_walk walk;
    struct tar_member member;
    const char *problem;
    size_t count;

    tar_fixture_add(&tar, 'x', "PaxHeader", "15 path=long/a\n", 15);
    tar_fixture_add(&tar, '0', "first", NULL, 0);
    tar_fixture_add(&tar, '0', "second", NULL, 0);
    tar_fixture_end(&tar);
    assert_int_equal(walk_all(tar.byte_count, &walk, &member, &count, &problem), -ENODATA);
    assert_int_equal(count, 2);
    assert_int_equal(member.data_offset, 4 * 512);
    tar.byte_count -= 3 * 512;
    tar_fixture_end(&tar);
    expect_member("long/a", false, 3 * 512, 0);
}

TEST_WITH(takes_sizes_in_base_256, begin, NULL)
{
    static const uint8_t large[12] = { 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 };
    static const uint8_t absurd[12] = { 0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    static const uint8_t negative[12] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

    tar_fixture_add(&tar, '0', "a", "xy", 2);
    tar_fixture_set(&tar, 124, large, 12);
    tar_fixture_end(&tar);
    expect_member("a", false, 512, 2);
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_set(&tar, 124, absurd, 12);
    expect_problem("a", "impossible size");
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_set(&tar, 124, negative, 12);
    expect_problem("", "no number");
}

TEST_WITH(takes_archives_one_behind_the_other, begin, NULL)
{
    struct tar_walk walk;
    struct tar_member member;
    const char *problem;
    size_t count;

    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_end(&tar);
    tar_fixture_add(&tar, '0', "b", NULL, 0);
    tar_fixture_end(&tar);
    assert_int_equal(walk_all(tar.byte_count, &walk, &member, &count, &problem), -ENODATA);
    assert_int_equal(count, 2);
}

TEST_WITH(refuses_what_could_reach_outside, begin, NULL)
{
    static const struct { char kind; const char *name, *words; } hostile[] = {
        { '0', "/etc/passwd", "absolute" }, { '0', "../x", "'..'" }, { '0', "a/../../x", "'..'" },
        { '5', "a/..", "'..'" },
        { '1', "a", "is a link" }, { '2', "a", "symbolic link" }, { '3', "a", "device" },
        { '4', "a", "device" }, { '6', "a", "FIFO" }, { 'S', "a", "sparse" }, { 'M', "a", "volume" },
        { 'Q', "a", "unknown kind" },
    };

    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        tar_fixture_add(&tar, hostile[i].kind, hostile[i].name, NULL, 0);
        expect_problem(hostile[i].name, hostile[i].words);
    }
    tar_fixture_add(&tar, '2', "a/", NULL, 0);      /* no folder, whatever its name */
    expect_problem("a", "symbolic link");
    tar_fixture_add(&tar, 'x', "PaxHeader", "20 path=/etc/passwd\n", 20);
    tar_fixture_add(&tar, '0', "harmless", NULL, 0);
    expect_problem("/etc/passwd", "absolute");
}

TEST_WITH(refuses_damaged_headers, begin, NULL)
{
    static const char *const pax[] = { "9 path=a", "999 path=a\n", "0 path=a\n", "x path=a\n", "9 pathaa\n", "5 a=b" };

    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar.bytes[0] = 'b';
    expect_problem("", "damaged header");
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_set(&tar, 124, "0000000008x", 11);
    expect_problem("", "no number");
    for (size_t i = 0; i < sizeof(pax) / sizeof(pax[0]); i++) {
        tar_fixture_add(&tar, 'x', "PaxHeader", pax[i], strlen(pax[i]));
        expect_problem("", "damaged pax header");
    }
    tar_fixture_add(&tar, 'x', "PaxHeader", "13 size=3kB1\n", 13);
    expect_problem("", "size is no number");
    tar_fixture_add(&tar, 'x', "PaxHeader", "22 GNU.sparse.major=1\n", 22);
    expect_problem("", "sparse");
    tar_fixture_add(&tar, 'x', "PaxHeader", "11 path=a\0\n", 11);
    expect_problem("", "zero byte");
}

TEST_WITH(refuses_names_and_headers_that_are_too_long, begin, NULL)
{
    static char name[5000];

    memset(name, 'x', sizeof(name));
    tar_fixture_add(&tar, 'L', "././@LongLink", name, sizeof(name));
    expect_problem("", "4095");
    tar_fixture_add(&tar, 'x', "PaxHeader", NULL, 0);
    tar_fixture_set(&tar, 124, "77777777777", 11);
    expect_problem("", "over 1 MiB");
}

TEST_WITH(finds_an_archive_cut_at_any_block, begin, NULL)
{
    struct tar_walk walk;
    struct tar_member member;
    const char *problem;
    size_t count;

    tar_fixture_add(&tar, 'x', "PaxHeader", "10 path=b\n", 10);
    tar_fixture_add(&tar, '0', "a", "xyz", 3);
    const size_t end = tar.byte_count;
    tar_fixture_end(&tar);
    for (size_t cut = 0; cut < end + 512; cut += cut % 512 == 0 || cut % 512 == 511 ? 1 : 510) {
        assert_int_equal(walk_all(cut, &walk, &member, &count, &problem), -EBADMSG);
        assert_non_null(strstr(problem, "cut short"));
    }
    assert_int_equal(walk_all(end + 512, &walk, &member, &count, &problem), -ENODATA);
}

TESTS_MAIN(NULL, NULL)
