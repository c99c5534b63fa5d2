/* The format of checkpoints (doc/checkpoints.md), for the reader and the writer: tensors, metadata, names of files.
 * Used by one thread at a time. */
#ifndef PIPETRAIN_CHECKPOINT_FORMAT_H
#define PIPETRAIN_CHECKPOINT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/snapshot.h"
#include "stage/schedule.h"
#include "tools/lib/results/run_directory.h"
#include "tools/lib/results/tensor_file.h"

/* ---- tensors ---- */

/* What the checkpoints of a run contain. */
struct checkpoint_shape {
    const struct net *net;      /* borrowed */
    uint32_t towers;            /* of the run */
    struct tower_range here;    /* those of this process; count 0: all of them */
    uint32_t states;            /* buffers of the optimizer for each parameter */
    size_t carried_bytes;       /* that the backend carries from step to step, for each tower; 0 = none */
    bool averages;              /* averages of weights and statistics are kept (train.ema) */
    bool weights_differ;        /* between towers, while they train */
    bool is_same;               /* all towers have the same state (train.slices): only tower 0's is saved, as if it were
                                 * the only one */
    bool stays;                 /* snapshots are SNAPSHOT_LAST: there is one checkpoint, at the end, and its buffer
                                 * is the towers' own memory */
};

/* CHECKPOINT_VALUE: the weights and statistics that evaluation uses, which are averages with train.ema; then
 * CHECKPOINT_RAW are the trained ones. */
enum checkpoint_part { CHECKPOINT_VALUE, CHECKPOINT_RAW, CHECKPOINT_STATE, CHECKPOINT_CARRIED };

/* Identifies a tensor. `parameter` has no meaning for CHECKPOINT_CARRIED; `state` only for CHECKPOINT_STATE. */
struct checkpoint_place {
    enum checkpoint_part part;
    uint32_t tower, state, parameter;
};

struct checkpoint_tensor {
    struct checkpoint_place place;
    char name[TENSOR_NAME_BYTES];
    size_t offset, bytes;       /* in the data of the file */
};

struct checkpoint_layout {
    struct checkpoint_tensor *tensors;  /* in the order of the data */
    uint32_t count;
    size_t bytes;               /* of all */
};

/* Weights and statistics of tower 0 have their plain names ("conv1.weight"), so that other tools can read them.
 * Prefixes: "raw." for trained weights where averages have the plain names, "optim.0." for the optimizer's buffers,
 * "tower.1." for tensors of another tower. The backend's state is "carried". */
void checkpoint_name(const struct net *net, struct checkpoint_place place, char name_out[TENSOR_NAME_BYTES]);
/* Is it the name of such a tensor, and not of weights or statistics? */
bool checkpoint_name_is_state(const char *name);
/* Is such a tensor of this tower saved? Towers that are one model share all but the statistics of batch normalization
 * and what is carried. */
bool checkpoint_has(const struct checkpoint_shape *shape, struct checkpoint_place place);
/* Is this tower one of this process? */
bool checkpoint_is_here(const struct checkpoint_shape *shape, uint32_t tower);
/* Is a tensor saved of towers other than tower 0? If not, the other processes of a run have nothing to send. */
bool checkpoint_has_others(const struct checkpoint_shape *shape);
/* 0 or -ENOMEM. */
int checkpoint_layout_open(struct checkpoint_layout *layout, const struct checkpoint_shape *shape);
/* Free the memory of a layout. One that is all zero is accepted. */
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* Tensors in the snapshots of this process' towers, which are in the order of the towers. Call the functions for each
 * tensor once, in the order of the layout. */

/* The memory in its tower that is the tensor's buffer; NULL: it has none there, see checkpoint_shape.stays. */
void *checkpoint_room(const struct checkpoint_shape *shape, struct checkpoint_place place,
                      struct snapshot *const *snapshots);
/* Does checkpoint_room return memory for this tensor? */
bool checkpoint_has_room(const struct checkpoint_shape *shape, struct checkpoint_place place);
/* Convert the tensor to its plain form. 0 or a negative errno of the backend. */
int checkpoint_take(const struct checkpoint_shape *shape, struct checkpoint_place place,
                    struct snapshot *const *snapshots, void *out);

/* ---- metadata ---- */

#define CHECKPOINT_SUMS_BYTES 1536u
#define CHECKPOINT_PROGRESS_BYTES 256u
#define CHECKPOINT_VERSION "1"          /* of the metadata; the reader rejects others */
#define CHECKPOINT_TOWERS_MAX 65536u    /* of all processes of a run; the reader rejects more */

#define CHECKPOINT_KEY_VERSION "pipetrain.checkpoint"
#define CHECKPOINT_KEY_SETTINGS "pipetrain.settings"
#define CHECKPOINT_KEY_POSITION "pipetrain.position"
#define CHECKPOINT_KEY_TOWERS "pipetrain.towers"
#define CHECKPOINT_KEY_LINES "pipetrain.lines"
#define CHECKPOINT_KEY_SUMS "pipetrain.sums"
#define CHECKPOINT_KEY_PROGRESS "pipetrain.course"
#define CHECKPOINT_KEY_HEADER "pipetrain.xxh3"
#define CHECKPOINT_NO_HASH "0000000000000000"      /* in its place while it is computed */

/* The hash of the header in its metadata (CHECKPOINT_KEY_HEADER) is that of the header with zeros in its place. Replace
 * the zeros; or check it, which leaves a header that is intact unchanged. */
void checkpoint_header_seal(char *header, size_t bytes);
bool checkpoint_header_is_intact(char *header, size_t bytes);

/* The files a checkpoint is written to: one of the newest, named by its steps, the one of the best evaluation, or
 * both. */
enum checkpoint_files { CHECKPOINT_NEWEST = 1, CHECKPOINT_BEST = 2 };

/* The metadata of a checkpoint: where in the run it is, and the counts up to there. */
struct checkpoint_metadata {
    struct position position;
    unsigned files;             /* enum checkpoint_files */
    uint64_t lines_bytes[RUN_LINES_COUNT];      /* lengths of the files of lines */
    char sums[CHECKPOINT_SUMS_BYTES];           /* a text of account_text_write */
    char progress[CHECKPOINT_PROGRESS_BYTES];   /* a text of run_progress_write; "" in early versions */
};

/* ---- files ---- */

#define CHECKPOINT_BEST_FILE "best.safetensors"
#define CHECKPOINT_FILE_BYTES 48u       /* of a file's name, terminated */

/* "checkpoint-00000123.safetensors", for the number of steps done. */
void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES]);
/* The steps in such a name; UINT64_MAX for other names. */
uint64_t checkpoint_file_step(const char *name);
/* 0 for CHECKPOINT_BEST_FILE, else UINT64_MAX. */
uint64_t checkpoint_best_number(const char *name);

#endif
