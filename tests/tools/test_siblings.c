/* Which folders beside each other are splits, and which are classes. */
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/convert/siblings.h"

#define SIBLINGS_MAX 8u

/* Folders "a b c", with "/" at the end of those that contain folders, and "-" of those without images. */
static size_t parse(const char *text, struct sibling siblings[SIBLINGS_MAX])
{
    size_t count = 0;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, ",");
        const bool has_folders = text[bytes - 1] == '/', is_empty = text[bytes - 1] == '-';
        siblings[count++] = (struct sibling){ text, bytes - has_folders - is_empty, !is_empty, has_folders };
        text += bytes + (text[bytes] == ',');
    }
    return count;
}

static enum siblings_meaning meaning_of(const char *text)
{
    struct sibling siblings[SIBLINGS_MAX];
    return siblings_read(siblings, parse(text, siblings)).meaning;
}

TEST(names_decide_together)
{
    static const struct { enum siblings_meaning meaning; const char *siblings[32]; } cases[] = {
        { SIBLINGS_SPLITS,
          { "train", "train,val", "train/,val/", "training_set/,test_set/", "train2017/,val2017/", "train,test1",
            "seg_train/,seg_test/,seg_pred", "Training Data/,Test Data/", "trainset/,testset/", "cars_train/,cars_test/",
            "TRAIN,VAL,TEST", "train/,valid/", "train_data/,val_data/", "train/,val/,annotations-", "train,dev,test",
            "imagenet_train/,imagenetv2_val/", "images_train/,test/", "train_photos,test_photos", "train/,unlabeled",
            "training shoes,test shoes", "train/,train2/", "Train/,Test,Meta", "Meta,Train/,Test/", "train/,val/,a,b" } },
        { SIBLINGS_CLASSES,
          { "cat,dog", "bus,car,train", "bus,train", "car,train,test-", "valid,invalid", "test_strip,thermometer",
            "test strip,test tube", "train station,bus station,harbour", "training shoes,shoes,boots", "control,test",
            "testament,valley,trainers", "train station,train track", "train station,test track", "pred,real", "dev,ops",
            "valid,invalid,unsure", "val_d_isere,zermatt", "seg_train/", "0,1,2", "train,train station", "predator,prey",
            "plane,Train,ship,truck", "" } },
        { SIBLINGS_NO_TRAIN, { "test", "val,test", "val2017/,test2017/", "test1,test2", "x_val,x_test", "Test Data/" } },
        { SIBLINGS_STRANGER,
          { "train/,extra/", "train,val,extra", "cat,dog,test", "cat,dog,train2017", "cat,test/", "seg_train,seg_test,cat",
            "cat,dog,val", "train/,bus,car", "Train,Test,Meta", "train/,test,Meta/", "train/,test,Meta,a/",
            "cat/,dog/,train/,test/", "a,b,training_set" } },
        { SIBLINGS_UNCLEAR, { "test strip,train", "train,my_test", "seg_train,seg_test,x_val" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < 32 && cases[i].siblings[k] != NULL; k++)
            if (meaning_of(cases[i].siblings[k]) != cases[i].meaning)
                fail_msg("'%s' is %d, not %d", cases[i].siblings[k], meaning_of(cases[i].siblings[k]),
                         cases[i].meaning);
}

TEST(the_order_of_folders_does_not_matter_and_the_folders_at_fault_are_named)
{
    static const char *const orders[] = { "cat,dog,test", "test,cat,dog", "dog,test,cat" };
    for (size_t i = 0; i < 3; i++) {
        struct sibling siblings[SIBLINGS_MAX];
        const struct siblings_reading reading = siblings_read(siblings, parse(orders[i], siblings));
        assert_int_equal(reading.meaning, SIBLINGS_STRANGER);
        assert_memory_equal(siblings[reading.named].name, "test", 4);
        assert_memory_not_equal(siblings[reading.other].name, "tes", 3);
    }
}

/* "a b,a c": siblings with their folders. */
static bool hold_the_same(const char *text)
{
    struct held list[64], first, second;
    size_t count = 0, holders = 1;
    while (*text != '\0') {
        const size_t bytes = strcspn(text, " ,");
        list[count++] = (struct held){ text, bytes };
        holders += text[bytes] == ',';
        text += bytes + (text[bytes] != '\0');
    }
    const bool is_same = siblings_hold_the_same(list, count, holders, &first, &second);
    assert_true(!is_same || first.bytes != second.bytes || memcmp(first.name, second.name, first.bytes) != 0);
    return is_same;
}

TEST(folders_with_the_same_folders_are_no_classes)
{
    static const char *const same[] = {
        "cat dog,cat dog",
        "dog cat,cat dog,dog cat",
        "cat dog fox,dog cat",
        "cat dog,cat,cat dog,dog",
        "0 1,0 1,0,0 1",
        "bus train,train bus",
        "a b c d,a b c,b c d",
        "cat dog,cat dog,dog",
    };
    static const char *const others[] = {
        "pug boxer,tabby siamese",
        "black white tabby,black white brown",
        "2023,2023,2023",
        "images,images",
        "2023 2024,2024 2023",
        "2023-01-05 2023-02-01,2023-01-05 2023-02-01",
        "part1 part2,part1 part2",
        "cat dog",
        "pug,tabby,finch",
        "train val,train val",
        "a b c d e,a",
        "a b,c d,a d",
        "20,20",
        "catdog,cat dog",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (!hold_the_same(same[i]))
            fail_msg("%s", same[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (hold_the_same(others[i]))
            fail_msg("%s", others[i]);
}

TESTS_MAIN(NULL, NULL)
