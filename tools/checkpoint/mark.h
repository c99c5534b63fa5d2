/* What a saved state says besides its tensors: where in the run it is, and what was counted up to there. */
#ifndef PIPETRAIN_CHECKPOINT_MARK_H
#define PIPETRAIN_CHECKPOINT_MARK_H

#include <stdint.h>

#include "stage/schedule.h"
#include "tools/results/run_directory.h"

#define CHECKPOINT_SUMS_BYTES 1536u
#define CHECKPOINT_VERSION "1"          /* of the metadata; a reader refuses others */
#define CHECKPOINT_FILE_BYTES 48u       /* of a file's name, with its end */

/* Keys of the metadata. */
#define CHECKPOINT_KEY_VERSION "pipetrain.checkpoint"
#define CHECKPOINT_KEY_MODEL "pipetrain.model"
#define CHECKPOINT_KEY_SETTINGS "pipetrain.settings"
#define CHECKPOINT_KEY_POSITION "pipetrain.position"
#define CHECKPOINT_KEY_TOWERS "pipetrain.towers"
#define CHECKPOINT_KEY_LINES "pipetrain.lines"
#define CHECKPOINT_KEY_SUMS "pipetrain.sums"
#define CHECKPOINT_KEY_HEADER "pipetrain.xxh3"
#define CHECKPOINT_KEY_TENSOR "pipetrain.xxh3."         /* and the tensor's name */
#define CHECKPOINT_HASH_DIGITS 16u

struct checkpoint_mark {
    struct position position;
    uint64_t lines_bytes[RUN_LINES_COUNT];      /* how long the files of lines were */
    char sums[CHECKPOINT_SUMS_BYTES];           /* as their owner writes and reads them */
};

/* "checkpoint-00000123.safetensors", by the steps that are done. */
void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES]);
/* The steps of a file of such a name; UINT64_MAX: it has another. */
uint64_t checkpoint_file_step(const char *name);

#endif
