/* What names say about splits. */
#include <string.h>

#include "formats/split_name.h"
#include "tests/helpers/test.h"

TEST(words_that_mean_a_split_are_found_in_any_spelling)
{
    static const struct { enum split split; const char *names[24]; } cases[] = {
        { SPLIT_TRAIN, { "train", "Train", "TRAIN", "training", "training_set", "train2017", "trainset", "train_data",
                         "Training Data", "train-images", "images_train", "trainval", "xtrain", "TrainSet", "train_1",
                         "TRAINING SET", "imgtrain", "train.tar.gz", "train-00000-of-00004", "traindata",
                         "train_val", "train-valid.tar.gz", "val_train" } },
        { SPLIT_VALIDATION, { "val", "VAL", "Valid", "validation", "dev", "eval", "holdout", "hold-out", "held_out",
                              "val2017", "valset", "validation_data", "Validation Set", "val.zip", "valImages", "devset",
                              "minival2014" } },
        { SPLIT_TEST, { "test", "Testing", "test1", "testset", "test_set", "Test Data", "TestImages", "test.tar.bz2",
                        "ytest", "x_test.npy", "test-0-of-1" } },
        { SPLIT_UNLABELLED, { "pred", "unlabeled", "unlabelled_data", "Predict" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < 24 && cases[i].names[k] != NULL; k++) {
            const char *const text = cases[i].names[k];
            const struct split_name name = split_name_read(text, strlen(text));
            if (name.split != cases[i].split)
                fail_msg("%s is %s", text, split_text(name.split));
            if (!name.is_whole)
                fail_msg("%s says more: %s", text, name.rest);
        }
}

TEST(words_that_only_contain_one_say_nothing)
{
    static const char *const names[] = {
        "testament", "trainers", "valley", "contest", "latest", "constrained", "values", "valves", "device", "developer",
        "strain", "restraint", "attest", "protest", "trainee", "Testarossa", "entrainement", "invalid",
        "\xc3\xa9train", "", "000", "cat", "evalu", "predator", "of", "set", "xtrainer",
        "train_test_split.tar.gz", "test-train", "train_val_test", "oftrain", "trainof", "gztest", "vtest", "testv",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (split_name_read(names[i], strlen(names[i])).split != SPLIT_UNSAID)
            fail_msg("%s", names[i]);
}

/* As those of folders in a path do. */
TEST(names_end_before_other_letters)
{
    static const struct { const char *text; size_t bytes; enum split split; } cases[] = {
        { "TESTs", 4, SPLIT_TEST }, { "testament", 4, SPLIT_TEST }, { "trainers", 5, SPLIT_TRAIN }, { "RGBTrain", 8, SPLIT_TRAIN },
        { "train", 4, SPLIT_UNSAID }, { "hold-out", 6, SPLIT_UNSAID },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (split_name_read(cases[i].text, cases[i].bytes).split != cases[i].split)
            fail_msg("%.*s", (int)cases[i].bytes, cases[i].text);
}

TEST(the_other_words_are_reported)
{
    static const struct { const char *name, *rest; } cases[] = {
        { "seg_train", "seg" }, { "SegTest", "seg" }, { "cars_train", "cars" }, { "train station", "station" },
        { "training shoes", "shoes" }, { "test_strip", "strip" }, { "RGBTrain", "rgb" }, { "train", "" },
        { "my own test set 3", "my own" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct split_name name = split_name_read(cases[i].name, strlen(cases[i].name));
        assert_string_equal(name.rest, cases[i].rest);
        assert_int_equal(name.is_whole, cases[i].rest[0] == '\0');
    }
    assert_true(split_name_read("train", 5).is_bare);
    assert_false(split_name_read("train2017", 9).is_bare);
    assert_false(split_name_read("train set", 9).is_bare);
}

TEST(names_of_any_length_are_read)
{
    char name[400];
    memset(name, 'a', sizeof(name));
    for (size_t i = 5; i < sizeof(name); i += 6)
        name[i] = '_';
    memcpy(name + 390, "_test", 5);
    for (size_t bytes = 0; bytes <= sizeof(name); bytes++)
        assert_true(split_name_read(name, bytes).split == SPLIT_UNSAID || bytes >= 395);
    assert_int_equal(split_name_read(name, 395).split, SPLIT_TEST);
    assert_in_range(strlen(split_name_read(name, 395).rest), 1, 63);
}

TESTS_MAIN(NULL, NULL)
