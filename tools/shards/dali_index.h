/* The index of a TFRecord file that NVIDIA DALI and tfrecord2idx use: one line "OFFSET SIZE" for every record, in the
 * order of the file. SIZE includes the frame. */
#ifndef PIPETRAIN_DALI_INDEX_H
#define PIPETRAIN_DALI_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/shards/shard_index.h"

#define DALI_INDEX_SUFFIX ".idx"

/* Returns the text of the index of a shard, which the caller frees; NULL if out of memory. */
char *dali_index_text(const struct shard_index *index, size_t *bytes_out);
/* Whether a text is the index of the shard. If not, *problem_out describes the difference, to be printed after
 * "PATH: ". */
bool dali_index_agrees(const char *text, size_t bytes, const struct shard_index *index, char *problem_out,
                       size_t problem_size);

#endif
