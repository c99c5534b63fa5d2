/* The manifest of a data set: dataset.json, and dataset_info.json and features.json of TensorFlow Datasets, in their
 * old and new forms; and texts that are none of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/manifest.h"
#include "tests/helpers/test.h"

static char problem[256];

static int read_text(struct manifest *manifest, const char *text)
{
    problem[0] = '\0';
    return manifest_read(manifest, text, strlen(text), problem, sizeof(problem));
}

static int read_info(struct manifest *manifest, const char *text)
{
    problem[0] = '\0';
    return dataset_info_read(manifest, text, strlen(text), problem, sizeof(problem));
}

/* A text, and a part of the problem that it has. */
struct bad_text { const char *text, *part; };

static void expect_problems(int (*read)(struct manifest *manifest, const char *text), const struct bad_text *cases,
                            size_t count)
{
    struct manifest manifest;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(read(&manifest, cases[i].text), -EBADMSG);
        if (strstr(problem, cases[i].part) == NULL)
            fail_msg("'%s' does not contain '%s' for %s", problem, cases[i].part, cases[i].text);
    }
}

TEST(a_hash_is_sixteen_digits_in_small_letters)
{
    static const struct { const char *text; bool is_hash; } rows[] = {
        { "00000000000000ff", true }, { "fedcba9876543210", true }, { "", false }, { "00000000000000f", false },
        { "00000000000000ff0", false }, { "00000000000000ffg", false }, { "00000000000000ff ", false },
        { "00000000000000FF", false }, { "0x000000000000ff", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct manifest manifest;
        char text[256];
        snprintf(text, sizeof(text), "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"a\", \"records\": 1, "
                 "\"xxh3\": \"%s\"}]}}}", rows[i].text);
        assert_int_equal(read_text(&manifest, text), 0);
        assert_int_equal(manifest_find(&manifest, "a")->has_hash, rows[i].is_hash);
        manifest_release(&manifest);
    }
}

TEST(a_shard_has_up_to_2_to_the_40th_records)
{
    static const struct { const char *records; bool is_count; } rows[] = {
        { "0", true }, { "1099511627776", true }, { "1099511627777", false }, { "-1", false }, { "1.5", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct manifest manifest;
        char text[256];
        snprintf(text, sizeof(text), "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"a\", \"records\": %s}]}}}",
                 rows[i].records);
        assert_int_equal(read_text(&manifest, text), rows[i].is_count ? 0 : -EBADMSG);
        manifest_release(&manifest);
    }
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
    static const struct bad_text cases[] = {
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
    expect_problems(read_text, cases, sizeof(cases) / sizeof(*cases));
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

/* ---- TensorFlow Datasets ---- */

static void expect_shard(const struct manifest *manifest, const char *file, const char *split, uint64_t records)
{
    const struct manifest_shard *const shard = manifest_find(manifest, file);
    if (shard == NULL)
        fail_msg("%s is not listed", file);
    assert_int_equal(shard->records, records);
    assert_string_equal(manifest->split_names[shard->split], split);
    assert_string_equal(shard->listed_in, "dataset_info.json");
    assert_true(shard->bytes == MANIFEST_SIZE_UNSAID);
}

static const char new_form[] =
    "{\"name\": \"flowers\", \"version\": \"3.0.1\", \"fileFormat\": \"tfrecord\", \"splits\": ["
    "{\"name\": \"train\", \"numBytes\": \"1\", \"shardLengths\": [\"5\", \"4\"], \"filepathTemplate\": "
    "\"{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}\"},"
    "{\"name\": \"test_clean\", \"shardLengths\": [\"3\"]}],"
    "\"supervisedKeys\": {\"tuple\": {\"items\": [{\"featureKey\": \"img\"}, {\"featureKey\": \"fine_label\"}]}}}";

TEST(the_new_form_lists_shards_and_keys)
{
    struct manifest manifest;
    assert_int_equal(read_info(&manifest, new_form), 0);
    assert_int_equal(manifest.count, 3);
    assert_int_equal(manifest.split_count, 2);
    expect_shard(&manifest, "flowers-train.tfrecord-00000-of-00002", "train", 5);
    expect_shard(&manifest, "flowers-train.tfrecord-00001-of-00002", "train", 4);
    expect_shard(&manifest, "flowers-test_clean.tfrecord-00000-of-00001", "test_clean", 3);
    assert_string_equal(manifest.image_key, "img");
    assert_string_equal(manifest.label_key, "fine_label");
    manifest_release(&manifest);
}

TEST(the_old_form_is_read_too)
{
    struct manifest manifest;
    assert_int_equal(read_info(&manifest,
        "{\"name\": \"mnist\", \"splits\": ["
        "{\"name\": \"train\", \"numShards\": \"2\", \"shardLengths\": [6, \"7\"], "
        "\"statistics\": {\"numExamples\": \"13\"}},"
        "{\"name\": \"test\", \"numShards\": \"1\", \"statistics\": {\"numExamples\": \"10000\"}},"
        "{\"name\": \"extra\", \"statistics\": {\"numExamples\": 12}},"
        "{\"name\": \"many\", \"numShards\": \"9\", \"statistics\": {\"numExamples\": 12}},"
        "{\"name\": \"unsaid\"}],"
        "\"supervisedKeys\": {\"input\": \"image\", \"output\": \"label\"}}"), 0);
    expect_shard(&manifest, "mnist-train.tfrecord-00000-of-00002", "train", 6);
    expect_shard(&manifest, "mnist-train.tfrecord-00001-of-00002", "train", 7);
    expect_shard(&manifest, "mnist-test.tfrecord-00000-of-00001", "test", 10000);
    expect_shard(&manifest, "mnist-extra.tfrecord-00000-of-00001", "extra", 12);
    assert_int_equal(manifest.count, 4);
    assert_string_equal(manifest.image_key, "image");
    assert_string_equal(manifest.label_key, "label");
    manifest_release(&manifest);
}

TEST(templates_name_the_files)
{
    static const struct { const char *template, *file; } good[] = {
        { "{SPLIT}-{SHARD_INDEX}-of-{NUM_SHARDS}.{FILEFORMAT}", "train-00000-of-00001.tfrecord" },
        { "all of {DATASET}", "all of d" }, { "x{SHARD_X_OF_Y}x{SHARD_X_OF_Y}", "x00000-of-00001x00000-of-00001" },
        { "", "d-train.tfrecord-00000-of-00001" },
    };
    static const char *const bad[] = { "{OTHER}", "{SPLIT", "../{SPLIT}", "a/{SPLIT}", ".{SPLIT}", "{}" };
    struct manifest manifest;
    char text[512];
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        snprintf(text, sizeof(text), "{\"name\": \"d\", \"splits\": [{\"name\": \"train\", \"shardLengths\": [1], "
                 "\"filepathTemplate\": \"%s\"}]}", good[i].template);
        assert_int_equal(read_info(&manifest, text), 0);
        expect_shard(&manifest, good[i].file, "train", 1);
        manifest_release(&manifest);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(text, sizeof(text), "{\"name\": \"d\", \"splits\": [{\"name\": \"train\", \"shardLengths\": [1], "
                 "\"filepathTemplate\": \"%s\"}]}", bad[i]);
        assert_int_equal(read_info(&manifest, text), -EBADMSG);
    }
}

TEST(what_is_no_description_is_refused)
{
    static const struct bad_text cases[] = {
        { "", "line 1" },
        { "[]", "no name and splits" },
        { "{\"name\": \"d\"}", "no name and splits" },
        { "{\"splits\": []}", "no name and splits" },
        { "{\"name\": \"d\", \"splits\": [{}]}", "a split has no name" },
        { "{\"name\": \"d\", \"fileFormat\": \"array_record\", \"splits\": []}", "array_record files, only tfrecord" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"shardLengths\": 3}]}", "no list" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"shardLengths\": [\"x\"]}]}", "no numbers" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"shardLengths\": [-1]}]}", "no numbers" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"shardLengths\": [\"99999999999999999999\"]}]}",
          "no numbers" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"shardLengths\": [\"1 \"]}]}", "no numbers" },
        { "{\"name\": \"d\", \"splits\": [{\"name\": \"a\", \"numShards\": \"3\", \"shardLengths\": [1, 2]}]}",
          "not the number of its shardLengths" },
    };
    expect_problems(read_info, cases, sizeof(cases) / sizeof(*cases));
}

TEST(features_name_the_keys_where_nothing_else_does)
{
    static const char features[] =
        "{\"pythonClassName\": \"x.FeaturesDict\", \"featuresDict\": {\"features\": {"
        "\"id\": {\"text\": {}}, \"species\": {\"classLabel\": {\"numClasses\": \"3\"}},"
        "\"photo\": {\"image\": {\"shape\": {\"dimensions\": [\"-1\", \"-1\", \"3\"]}, \"dtype\": \"uint8\"}}}}}";
    static const char bare[] = "{\"name\": \"d\", \"splits\": [{\"name\": \"train\", \"shardLengths\": [1]}]}";
    struct manifest manifest;
    assert_int_equal(read_info(&manifest, bare), 0);
    assert_null(manifest.image_key);
    assert_int_equal(dataset_features_read(&manifest, "{}", 2, problem, sizeof(problem)), 0);
    assert_null(manifest.image_key);
    assert_int_equal(dataset_features_read(&manifest, features, strlen(features), problem, sizeof(problem)), 0);
    assert_string_equal(manifest.image_key, "photo");
    assert_string_equal(manifest.label_key, "species");
    manifest_release(&manifest);
    assert_int_equal(read_info(&manifest, new_form), 0);
    assert_int_equal(dataset_features_read(&manifest, features, strlen(features), problem, sizeof(problem)), 0);
    assert_string_equal(manifest.image_key, "img");
    manifest_release(&manifest);
}

TEST(the_number_of_classes_is_that_of_the_label_in_use)
{
    static const char *const forms[] = {
        "{\"featuresDict\": {\"features\": {\"photo\": {\"image\": {}}, \"coarse\": {\"classLabel\": {\"numClasses\": "
        "\"20\"}}, \"fine\": {\"classLabel\": {\"numClasses\": 100}}, \"open\": {\"classLabel\": {}}}}}",
        "{\"type\": \"FeaturesDict\", \"content\": {\"photo\": {\"content\": {\"encoding_format\": \"png\"}}, \"coarse\": "
        "{\"content\": {\"num_classes\": 20}}, \"fine\": {\"content\": {\"num_classes\": 100}}, \"open\": {\"content\": "
        "{\"num_classes\": null}}}}",
    };
    static const struct {
        const char *key;
        uint64_t classes;
    } rows[] = {
        { NULL, 20 },
        { "coarse", 20 },
        { "fine", 100 },
        { "open", 0 },
        { "photo", 0 },
        { "other", 0 },
    };
    const char *said_in;
    for (size_t form = 0; form < sizeof(forms) / sizeof(*forms); form++) {
        struct manifest manifest;
        assert_int_equal(read_info(&manifest, "{\"name\": \"d\", \"splits\": [{\"name\": \"train\"}]}"), 0);
        assert_int_equal(dataset_features_read(&manifest, forms[form], strlen(forms[form]), problem, sizeof(problem)), 0);
        assert_string_equal(manifest.image_key, "photo");
        assert_string_equal(manifest.label_key, "coarse");
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            assert_int_equal(manifest_classes(&manifest, rows[i].key, &said_in), rows[i].classes);
            assert_string_equal(said_in, "features.json");
        }
        manifest_release(&manifest);
    }
    struct manifest ours;
    assert_int_equal(read_text(&ours, "{\"splits\": {}, \"classes\": 7, \"label_key\": \"fine\", \"image\": {\"key\": "
                                      "\"photo\"}}"),
                     0);
    assert_int_equal(manifest_classes(&ours, NULL, &said_in), 7);
    assert_string_equal(said_in, "dataset.json");
    assert_int_equal(manifest_classes(&ours, "fine", &said_in), 7);
    assert_int_equal(manifest_classes(&ours, "image/class/text", &said_in), 7);
    assert_int_equal(manifest_classes(&ours, "coarse", &said_in), 0);
    manifest_release(&ours);
}

TESTS_MAIN(NULL, NULL)
