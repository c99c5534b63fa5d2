/* The split that a name indicates: the name of a folder, an archive, a shard or a table, or a value in a column. Names
 * are read as words: "train2017", "seg_train", "Test Data" and "x_testset" indicate a split, "trainers", "valley" and
 * "testament" do not. */
#ifndef PIPETRAIN_SPLIT_NAME_H
#define PIPETRAIN_SPLIT_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum split { SPLIT_UNSAID, SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST, SPLIT_UNLABELLED };

struct split_name {
    enum split split;           /* the last split named; "train_val" is SPLIT_TRAIN, "train_test" SPLIT_UNSAID */
    bool is_whole;              /* the name has only the split and neutral words: "Test Data", but not "test strip" */
    bool is_bare;               /* the name is a single word without digits: "train", "testing" */
    char rest[64];              /* the other words, in lower case, truncated to fit: "seg" */
};

struct split_name split_name_read(const char *name, size_t bytes);
/* "train", "validation", "test", "unlabelled", or "" for SPLIT_UNSAID. */
const char *split_text(enum split split);

#endif
