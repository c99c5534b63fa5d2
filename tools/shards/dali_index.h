/* The index that NVIDIA DALI and tfrecord2idx keep beside a TFRecord file: for every record, in the order of the
 * file, a line "OFFSET SIZE" in decimal numbers, where SIZE counts the frame, too. */
#ifndef PIPETRAIN_DALI_INDEX_H
#define PIPETRAIN_DALI_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/shards/shard_index.h"

#define DALI_INDEX_SUFFIX ".idx"

/* The index of a shard as a text, which the caller frees; NULL without memory. */
char *dali_index_text(const struct shard_index *index, size_t *bytes_out);
/* Whether a text is the index of the shard: what has been cut, is of another file or of an earlier state of this
 * one, or has its lines in another order is not. If not, what is wrong, to follow "PATH: ". */
bool dali_index_agrees(const char *text, size_t bytes, const struct shard_index *index, char *problem_out,
                       size_t problem_size);

#endif
