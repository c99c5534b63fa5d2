/* Patterns: the C library's glob finds the same, where it finds anything without a failure. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/pattern.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define FOUND_MAX 64u

/* Below: files and directories that differ in what a pattern may take them for. */
static const char *const places[] = {
    "a/", "b/", "b/deep/", "c d/", ".hidden/", "[x]/",
    "a/t-1", "a/t-2", "a/u-1", "a/.t-3", "b/t-1", "b/deep/t-1", "c d/t-1", ".hidden/t-1", "[x]/t-1", "t-0", "x",
};

static int make_places(void **state)
{
    assert_int_equal(fixture_folder_enter(state), 0);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const bool is_folder = places[i][strlen(places[i]) - 1] == '/';
        const int fd = is_folder ? mkdir(places[i], 0700) : open(places[i], O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        if (!is_folder)
            close(fd);
    }
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(symlink("nowhere", "b/t-lost"), 0);
    return 0;
}

struct finding {
    char *paths[FOUND_MAX];
    size_t count, unlisted;
};

static int add(void *arg, const char *path)
{
    struct finding *const finding = arg;
    assert_true(finding->count < FOUND_MAX);
    finding->paths[finding->count++] = strdup(path);
    return 0;
}

static int count_unlisted(void *arg, const char *path, int error)
{
    struct finding *const finding = arg;
    assert_true(path[0] != '\0' && error > 0);
    finding->unlisted++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct finding expand(const char *pattern)
{
    struct finding finding = { .count = 0 };
    const struct pattern_visitor visitor = { add, count_unlisted, &finding };
    assert_int_equal(pattern_expand(pattern, &visitor), 0);
    qsort(finding.paths, finding.count, sizeof(finding.paths[0]), by_name);
    return finding;
}

static void release(struct finding *finding)
{
    for (size_t i = 0; i < finding->count; i++)
        free(finding->paths[i]);
}

static void assert_as_glob(const char *pattern)
{
    glob_t theirs = { 0 };
    const int matched = glob(pattern, GLOB_NOSORT, NULL, &theirs);
    assert_true(matched == 0 || matched == GLOB_NOMATCH);
    if (theirs.gl_pathc > 0)
        qsort(theirs.gl_pathv, theirs.gl_pathc, sizeof(theirs.gl_pathv[0]), by_name);
    struct finding ours = expand(pattern);
    if (ours.count != theirs.gl_pathc)
        fail_msg("'%s': %zu found, glob finds %zu", pattern, ours.count, theirs.gl_pathc);
    for (size_t i = 0; i < ours.count; i++)
        assert_string_equal(ours.paths[i], theirs.gl_pathv[i]);
    release(&ours);
    globfree(&theirs);
}

TEST(finds_what_glob_finds)
{
    static const char *const patterns[] = {
        "*", "*/*", "*/t-*", "a/t-?", "a/t-[12]", "a/t-[!1]", "?/t-1", "./*/t-1", "*/deep/*", "*/*/*", ".*/t-*", "a/.*",
        "b//t-*", "b/*/", "*/", "\\[x\\]/*", "[[]x]/*", "c*/t-1", "nothing/*", "*/nothing", "x/*", "a/*/x", "*-*", "**",
    };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        assert_as_glob(patterns[i]);
    char absolute[PATH_MAX];
    snprintf(absolute, sizeof(absolute), "%s/*/t-*", folder);
    assert_as_glob(absolute);
}

static int stop(void *arg, const char *path)
{
    (void)path;
    ++*(int *)arg;
    return -ECANCELED;
}

TEST(a_visitor_ends_the_search)
{
    int count = 0;
    const struct pattern_visitor visitor = { stop, NULL, &count };
    assert_int_equal(pattern_expand("*/*", &visitor), -ECANCELED);
    assert_int_equal(count, 1);
}

TEST(names_that_are_too_long_are_an_error)
{
    char pattern[PATH_MAX + 8];
    const struct pattern_visitor visitor = { add, count_unlisted, NULL };
    memset(pattern, 'x', sizeof(pattern));
    pattern[0] = '*';
    pattern[NAME_MAX + 1] = '\0';
    assert_int_equal(pattern_expand(pattern, &visitor), -ENAMETOOLONG);
    memset(pattern, '/', sizeof(pattern));
    memcpy(pattern + PATH_MAX, "*", 2);
    assert_int_equal(pattern_expand(pattern, &visitor), -ENAMETOOLONG);
}

static void assert_explained(const char *pattern, const char *part)
{
    char text[1024];
    pattern_explain(pattern, text, sizeof(text));
    if (strstr(text, part) == NULL || (*part == '\0' && *text != '\0'))
        fail_msg("%s: '%s' is not in '%s'", pattern, part, text);
}

TEST(hints_at_what_shells_expand)
{
    static const struct { const char *pattern, *part; } cases[] = {
        { "~/data/train*", "; ~ is not expanded" },
        { "~user/x", "; ~ is not expanded" },
        { "gs://bucket/train*", "; addresses are not read" },
        { "file:///data/x", "; addresses are not read" },
        { "$HOME/x", "; variables are not expanded" },
        { "train-{00000..00003}-of-00004", "; {a,b} and {1..3} are not expanded" },
        { "{a", "are not expanded" },
        { "b}/train*", "is not expanded" },
        { "data/**/train*", "; ** matches within one directory" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_explained(cases[i].pattern, cases[i].part);
    static const char *const plain[] = { "", "data/train-*", "data/a~b", "backup~", "c:/x", "train-?[0-9]" };
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        assert_explained(plain[i], " in the current folder, /");
    assert_explained("/nowhere/train-*", "");
    static const char *const subsplits[] = { "s:train[:80%]", "train[80%:]", "/set:train[:100]", "train[100:]" };
    for (size_t i = 0; i < sizeof(subsplits) / sizeof(*subsplits); i++)
        assert_explained(subsplits[i], "data.validation_split");
}

TEST(names_with_special_characters_are_shown_as_they_are_written)
{
    char place[] = "/tmp/pipetrain-test-XXXXXX", path[128], wanted[256];
    assert_non_null(mkdtemp(place));
    static const char *const names[][2] = {
        { "set [v2]", "set \\[v2\\]" }, { "what?", "what\\?" }, { "a*b", "a\\*b" }, { "[ab]", "\\[ab\\]" },
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", place, names[i][0]);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(path, sizeof(path), "%s/%s/train-*", place, names[i][0]);
        snprintf(wanted, sizeof(wanted), "write %s/%s/train-*", place, names[i][1]);
        assert_explained(path, wanted);
        snprintf(path, sizeof(path), "%s/%s", place, names[i][0]);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(place), 0);
}

TESTS_MAIN(make_places, fixture_folder_leave)
