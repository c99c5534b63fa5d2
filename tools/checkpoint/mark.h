/* What a saved state says besides its tensors: where in the run it is, and what was counted up to there. */
#ifndef PIPETRAIN_CHECKPOINT_MARK_H
#define PIPETRAIN_CHECKPOINT_MARK_H

#include <stdint.h>

#include "stage/schedule.h"
#include "tools/results/run_directory.h"
#include "tools/results/tensor_file.h"

#define CHECKPOINT_SUMS_BYTES 1536u
#define CHECKPOINT_COURSE_BYTES 256u
#define CHECKPOINT_VERSION "1"          /* of the metadata; a reader refuses others */
#define CHECKPOINT_BEST_FILE "best.safetensors"
#define CHECKPOINT_TOWERS_MAX 65536u    /* of all processes of a run; a state that says more is refused */
#define CHECKPOINT_FILE_BYTES 48u       /* of a file's name, with its end */

/* Keys of the metadata. */
#define CHECKPOINT_KEY_VERSION "pipetrain.checkpoint"
#define CHECKPOINT_KEY_SETTINGS "pipetrain.settings"
#define CHECKPOINT_KEY_POSITION "pipetrain.position"
#define CHECKPOINT_KEY_TOWERS "pipetrain.towers"
#define CHECKPOINT_KEY_LINES "pipetrain.lines"
#define CHECKPOINT_KEY_SUMS "pipetrain.sums"
#define CHECKPOINT_KEY_COURSE "pipetrain.course"
#define CHECKPOINT_KEY_HEADER "pipetrain.xxh3"
#define CHECKPOINT_KEY_TENSOR TENSOR_HASH_KEY
#define CHECKPOINT_HASH_DIGITS 16u

/* The files that a state becomes: one of the newest, by its steps, or the one of the best evaluation; or both. */
enum checkpoint_files { CHECKPOINT_NEWEST = 1, CHECKPOINT_BEST = 2 };

struct checkpoint_mark {
    struct position position;
    unsigned files;             /* enum checkpoint_files */
    uint64_t lines_bytes[RUN_LINES_COUNT];      /* how long the files of lines were */
    char sums[CHECKPOINT_SUMS_BYTES];           /* as their owner writes and reads them */
    char course[CHECKPOINT_COURSE_BYTES];       /* the same; "" in states of versions that wrote none */
};

/* "checkpoint-00000123.safetensors", by the steps that are done. */
void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES]);
/* The steps of a file of such a name; UINT64_MAX: it has another. */
uint64_t checkpoint_file_step(const char *name);
/* 0 for CHECKPOINT_BEST_FILE, else UINT64_MAX. */
uint64_t checkpoint_best_number(const char *name);

#endif
