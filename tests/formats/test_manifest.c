/* The manifest of a data set: what it says of shards, in whatever company, and what is none. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/manifest.h"
#include "tests/helpers/test.h"

static int read_text(struct manifest *manifest, const char *text)
{
    char problem[256];
    return manifest_read(manifest, text, strlen(text), problem, sizeof(problem));
}

TEST(finds_every_shard_of_every_split)
{
    struct manifest manifest;
    assert_int_equal(read_text(&manifest, "{\"name\": \"x\", \"splits\": {"
        "\"train\": {\"records\": 9, \"more\": [1, {}], \"shards\": ["
        "{\"file\": \"train-1\", \"records\": 4, \"bytes\": 400, \"xxh3\": \"0123456789abcdef\"},"
        "{\"file\": \"train-0\", \"records\": 5, \"xxh3\": \"00\"}]},"
        "\"validation\": {\"shards\": [{\"file\": \"v\", \"records\": 0, \"bytes\": 0}]},"
        "\"test\": {\"shards\": []}}}"), 0);
    assert_int_equal(manifest.count, 3);
    assert_int_equal(manifest.split_count, 3);
    assert_int_equal(manifest_find(&manifest, "train-0")->split, manifest_find(&manifest, "train-1")->split);
    assert_true(manifest_find(&manifest, "v")->split != manifest_find(&manifest, "train-1")->split);
    assert_int_equal(manifest_find(&manifest, "train-1")->records, 4);
    assert_int_equal(manifest_find(&manifest, "train-1")->bytes, 400);
    assert_int_equal(manifest_find(&manifest, "train-0")->records, 5);
    assert_true(manifest_find(&manifest, "train-0")->bytes == MANIFEST_SIZE_UNSAID);
    assert_true(manifest_find(&manifest, "train-1")->has_hash);
    assert_true(manifest_find(&manifest, "train-1")->hash == UINT64_C(0x0123456789abcdef));
    assert_false(manifest_find(&manifest, "train-0")->has_hash);
    assert_int_equal(manifest_find(&manifest, "v")->records, 0);
    assert_null(manifest_find(&manifest, "train-2"));
    assert_null(manifest_find(&manifest, ""));
    manifest_release(&manifest);
    assert_null(manifest_find(&manifest, "v"));
    assert_int_equal(read_text(&manifest, "{\"splits\": {}}"), 0);
    assert_null(manifest_find(&manifest, "v"));
    manifest_release(&manifest);
}

TEST(says_what_is_no_manifest)
{
    static const struct { const char *text, *part; } cases[] = {
        { "", "line 1" },
        { "{\n\"splits\": {,", "line 2" },
        { "[]", "no splits" },
        { "{\"features\": 3}", "no splits" },
        { "{\"splits\": 3}", "no splits" },
        { "{\"splits\": {\"train\": 3}}", "a split has no shards" },
        { "{\"splits\": {\"train\": {\"shards\": [3]}}}", "a split has no shards" },
        { "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"a\"}]}}}", "a split has no shards" },
        { "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"a\", \"records\": -1}]}}}", "a split has no shards" },
        { "{\"splits\": {\"t\": {\"shards\": [{\"file\": \"a\", \"records\": 9000000000000000}]}}}", "a split has" },
        { "{\"splits\": {\"t\": {\"shards\": [{\"file\": \"a\", \"records\": 1e99999}]}}}", "line 1" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct manifest manifest;
        char problem[256] = "";
        assert_int_equal(manifest_read(&manifest, cases[i].text, strlen(cases[i].text), problem, sizeof(problem)),
                         -EBADMSG);
        if (strstr(problem, cases[i].part) == NULL)
            fail_msg("'%s' of %s", problem, cases[i].text);
    }
}

TEST(names_classes_where_all_names_are_texts)
{
    struct manifest manifest;
    assert_int_equal(read_text(&manifest, "{\"splits\": {}, \"class_names\": [\"cat\", \"\", \"dog\"]}"), 0);
    assert_int_equal(manifest.class_count, 3);
    assert_int_equal(manifest.classes, 3);
    assert_string_equal(manifest.class_names[0], "cat");
    assert_string_equal(manifest.class_names[1], "");
    assert_string_equal(manifest.class_names[2], "dog");
    manifest_release(&manifest);
    static const char *const nameless[] = {
        "{\"splits\": {}}", "{\"splits\": {}, \"class_names\": []}", "{\"splits\": {}, \"class_names\": \"cat\"}",
        "{\"splits\": {}, \"class_names\": [\"cat\", 3]}",
    };
    for (size_t i = 0; i < sizeof(nameless) / sizeof(*nameless); i++) {
        assert_int_equal(read_text(&manifest, nameless[i]), 0);
        assert_int_equal(manifest.class_count, 0);
        assert_int_equal(manifest.classes, 0);
        manifest_release(&manifest);
    }
    assert_int_equal(read_text(&manifest, "{\"splits\": {}, \"classes\": 20}"), 0);
    assert_int_equal(manifest.classes, 20);
    manifest_release(&manifest);
    assert_int_equal(read_text(&manifest, "{\"splits\": {}, \"classes\": -1}"), 0);
    assert_int_equal(manifest.classes, 0);
    manifest_release(&manifest);
}

TESTS_MAIN(NULL, NULL)
