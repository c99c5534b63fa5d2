/* Which set of a data set a shard's name tells of. */
#ifndef PIPETRAIN_SPLIT_NAME_H
#define PIPETRAIN_SPLIT_NAME_H

enum split { SPLIT_UNSAID, SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST };

/* From the words of a file's name, a word being letters without anything between them: the last one that
 * names a set decides. "mnist-train.tfrecord", "train2017-1-of-9", "Val.tfrecord". */
enum split split_of_name(const char *name);

#endif
