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

/* model.parts: every tower has some neighbouring parts of each parameter of the dense layers at the end of the network
 * (compute/share.h), which are ranges of its numbers. A file contains whole parameters. */
struct checkpoint_parts {
    uint32_t all;               /* parts of a parameter; 0: every tower has all parameters */
    uint32_t first;             /* the first layer whose parameters are divided; so are those of all later layers */
};

/* The contents of a run's checkpoints, or of its weights. */
struct checkpoint_shape {
    const struct net *net;      /* borrowed */
    uint32_t towers;            /* number of towers of the run */
    struct checkpoint_parts parts;      /* with is_same */
    struct tower_range here;    /* those of this process; count 0: all of them */
    uint32_t states;            /* number of optimizer buffers for each parameter */
    size_t carried_bytes;       /* bytes of backend state that is kept from step to step, for each tower; 0 = none */
    bool averages;              /* averages of weights and statistics are kept (train.ema) */
    bool weights_differ;        /* the weights of towers differ while they train */
    /* All towers have the same state (train.slices), but for parts: only that of tower 0 is saved, with the parts of
     * the others, as if it were the only tower. */
    bool is_same;
    bool by_name;               /* tensors are in the order of their names */
    /* Snapshots are SNAPSHOT_LAST: there is one checkpoint, at the end, and its buffer is the towers' own memory. */
    bool stays;
};

/* The parts of a checkpoint. CHECKPOINT_VALUE: the weights and statistics that evaluation uses, which with train.ema
 * are averages; CHECKPOINT_RAW then are the trained ones. */
enum checkpoint_part { CHECKPOINT_VALUE, CHECKPOINT_RAW, CHECKPOINT_STATE, CHECKPOINT_CARRIED };

/* Identifies a tensor, or a piece of one. `parameter` has no meaning for CHECKPOINT_CARRIED; `state` only for
 * CHECKPOINT_STATE. */
struct checkpoint_place {
    enum checkpoint_part part;
    uint32_t tower, state, parameter;
    uint32_t piece;             /* of a divided parameter: which part of it */
};

struct checkpoint_tensor {
    struct checkpoint_place place;
    char name[TENSOR_NAME_BYTES];
    size_t bytes;
};

/* A tensor consists of a piece for each part of a divided parameter, otherwise of one. */
struct checkpoint_piece {
    uint32_t tensor;
    struct checkpoint_place place;      /* with the tower that has it */
    size_t bytes;
};

struct checkpoint_layout {
    struct checkpoint_tensor *tensors;  /* in the order of the file */
    struct checkpoint_piece *pieces;    /* likewise */
    uint32_t count, piece_count;
    size_t bytes;               /* of all tensors together */
};

/* Weights and statistics of tower 0 have their plain names ("conv1.weight"), so that other tools can read them.
 * Prefixes: "raw." for trained weights where averages have the plain names, "optim.0." for the optimizer's buffers,
 * "tower.1." for tensors of another tower. The backend's state is "carried". */
void checkpoint_name(const struct net *net, struct checkpoint_place place, char name_out[TENSOR_NAME_BYTES]);
/* Is it the name of a tensor of a checkpoint other than weights or statistics? */
bool checkpoint_name_is_state(const char *name);
/* Is this tensor of this tower saved? Towers that are one model share all tensors but the statistics of batch
 * normalization and the carried data. A tensor of a divided parameter is one of tower 0. */
bool checkpoint_has(const struct checkpoint_shape *shape, struct checkpoint_place place);
/* Is this tower one of this process? */
bool checkpoint_is_here(const struct checkpoint_shape *shape, uint32_t tower);
/* Is anything of towers other than tower 0 saved? If not, the other processes of a run have nothing to send. */
bool checkpoint_has_others(const struct checkpoint_shape *shape);
/* The number of towers of this process that make snapshots, those with the lowest numbers. */
uint32_t checkpoint_snapshots(const struct checkpoint_shape *shape);
/* An upper limit of the memory of a layout. */
size_t checkpoint_layout_bytes(const struct checkpoint_shape *shape);
/* Make the lists of tensors and pieces. 0 or -ENOMEM. */
int checkpoint_layout_open(struct checkpoint_layout *layout, const struct checkpoint_shape *shape);
/* Free the memory of a layout. Accepts a struct of zeros. */
void checkpoint_layout_close(struct checkpoint_layout *layout);

/* Functions for pieces in the snapshots of this process' towers, which are in the order of the towers. Call them once
 * for each piece, in an order in which the pieces of a parameter are in that of enum checkpoint_part. */

/* The memory of its tower that is used as the piece's buffer; NULL: there is none (checkpoint_shape.stays). */
void *checkpoint_room(const struct checkpoint_shape *shape, struct checkpoint_place place,
                      struct snapshot *const *snapshots);
/* Does checkpoint_room return memory for this piece? */
bool checkpoint_has_room(const struct checkpoint_shape *shape, struct checkpoint_place place);
/* Convert the piece to its plain form. 0 or a negative errno of the backend. */
int checkpoint_take(const struct checkpoint_shape *shape, struct checkpoint_place place,
                    struct snapshot *const *snapshots, void *out);
/* The same for a CHECKPOINT_VALUE in snapshots of an evaluation, whose memory is used for the plain form
 * (snapshot_value_in_place). */
int checkpoint_take_in_place(const struct checkpoint_shape *shape, struct checkpoint_place place,
                             struct snapshot *const *snapshots, float *between, const float **plain_out);
/* Convert a CHECKPOINT_VALUE of the towers of this process, which run no steps, without snapshots: the values with which
 * they compute now. Blocks. 0 or a negative errno. */
int checkpoint_read(const struct checkpoint_shape *shape, struct checkpoint_place place, struct tower *const *towers,
                    float *out);

/* Provides the pieces of towers of other processes, which a checkpoint_sender of the same layout sends. */
struct checkpoint_source {
    /* Receive the next piece of this tower in the order of the layout. 0 or a negative errno. */
    int (*take)(void *arg, uint32_t tower, void *out, size_t bytes);
    void *arg;
};

/* ---- metadata ---- */

#define CHECKPOINT_SUMS_BYTES 2048u
#define CHECKPOINT_PROGRESS_BYTES 512u
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
#define CHECKPOINT_NO_HASH "0000000000000000"      /* written instead of the hash while it is computed */

/* The metadata contain the hash of the header (CHECKPOINT_KEY_HEADER), which is computed with zeros in its place.
 * Replace the zeros by the hash; or check it, which does not change an intact header. */
void checkpoint_header_seal(char *header, size_t bytes);
bool checkpoint_header_is_intact(char *header, size_t bytes);

/* The files to which a checkpoint is written: one of the newest, named by its steps, that of the best evaluation, or
 * both; or only weights and statistics of the best evaluation. */
enum checkpoint_files { CHECKPOINT_NEWEST = 1, CHECKPOINT_BEST = 2, CHECKPOINT_BEST_WEIGHTS = 4 };

/* The metadata of a checkpoint: its position in the run, and the counts up to there. */
struct checkpoint_metadata {
    struct position position;
    unsigned files;             /* enum checkpoint_files */
    uint64_t lines_bytes[RUN_LINES_COUNT];      /* lengths of the files of JSON lines */
    char sums[CHECKPOINT_SUMS_BYTES];           /* a text of account_text_write */
    char progress[CHECKPOINT_PROGRESS_BYTES];   /* a text of run_progress_write; "" in early versions */
    /* With CHECKPOINT_BEST_WEIGHTS: train.best_by, and this measure of the evaluation; may be NAN. */
    const char *best_by;
    double best_value;
};

/* ---- files ---- */

#define CHECKPOINT_BEST_FILE "best.safetensors"
#define CHECKPOINT_FILE_BYTES 48u       /* size of a file's name, terminated */

/* Write the file name for a number of completed steps: "checkpoint-00000123.safetensors". */
void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES]);
/* The steps in such a name; UINT64_MAX for other names. */
uint64_t checkpoint_file_step(const char *name);
/* The text of CHECKPOINT_KEY_POSITION. */
void checkpoint_position_write(struct position position, char *text_out, size_t text_size);
/* 0, or -EINVAL if the text is not one. */
int checkpoint_position_read(struct position *position_out, const char *text);
/* The number of the epoch, from 1, that ends with the evaluation before this position. */
uint32_t checkpoint_epoch(struct position position);

#endif
