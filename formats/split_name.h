/* What a name says about the split of a data set: of a folder, an archive, a shard, a table, a value of a column. Names
 * are read as words, so "train2017", "seg_train", "Test Data" and "x_testset" say a split, and "trainers", "valley" and
 * "testament" do not. */
#ifndef PIPETRAIN_SPLIT_NAME_H
#define PIPETRAIN_SPLIT_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum split { SPLIT_UNSAID, SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST, SPLIT_UNLABELLED };

struct split_name {
    enum split split;           /* of the last word that says one, but "train_val" trains and "train_test" is none */
    bool is_whole;              /* the name says nothing else: "Test Data", but not "test strip" */
    bool is_bare;               /* it is a single word without digits: "train", "testing" */
    char rest[64];              /* the other words, in lower case: "seg"; cut if they are longer */
};

struct split_name split_name_read(const char *name, size_t bytes);
/* "train", "validation", "test" or "unlabelled". */
const char *split_text(enum split split);

#endif
