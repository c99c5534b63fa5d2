/* Writing checkpoints to the run's directory: one safetensors file each, which appears whole or not at all and contains
 * the XXH3 of every tensor and of the header. All memory is allocated when the writer is opened; little, if the towers'
 * memory is the buffer (checkpoint_shape.stays). */
#ifndef PIPETRAIN_CHECKPOINT_WRITER_H
#define PIPETRAIN_CHECKPOINT_WRITER_H

#include "compute/snapshot.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/weights.h"

struct checkpoint_writer;

/* Provides the tensors of towers of other processes, which a checkpoint_sender sends. */
struct checkpoint_source {
    /* The next tensor of this tower in the order of the layout. 0 or a negative errno. */
    int (*take)(void *arg, uint32_t tower, void *out, size_t bytes);
    void *arg;
};

/* Upper limits of the memory that opening allocates, for the plan, and of the size of a file. */
size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings);
size_t checkpoint_file_bytes(const struct checkpoint_shape *shape, const char *settings);
/* `source` may be NULL if all towers are here; `settings` is the identity of the run (tools/lib/run/run_identity.h),
 * `about` makes the weights usable without the run; both are borrowed until the writer is closed. 0 or -ENOMEM. */
int checkpoint_writer_open(struct checkpoint_writer **writer_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_source *source, const char *settings,
                           const struct weights_about *about);
/* Accepts NULL. */
void checkpoint_writer_close(struct checkpoint_writer *writer);
/* Copy and hash a complete snapshot of every tower of this process, in the order of the towers, and what the source
 * provides of others: all of it, also after an error. Afterwards the snapshots may be returned, unless the towers'
 * memory is the buffer. Allocates nothing. 0, or a negative errno of the backend or the source. */
int checkpoint_writer_copy(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_metadata *metadata);
/* Write the copied state to the files that its metadata name, and wait until they are on the disk. Of the newest
 * checkpoints all but the `keep` newest are then removed, also those of later steps, which a rollback has abandoned. 0,
 * or the negative errno of what failed: that file stays as it was. -EDOM: a weight is not finite; *broken_out is its
 * name, and nothing is written. */
int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out);
/* The same in two halves, for CHECKPOINT_NEWEST only. Prepare: the file is on the disk under a temporary name, and the
 * towers may be closed. Appear: it gets its name, and others are removed. Drop removes the temporary file instead. */
int checkpoint_writer_prepare(struct checkpoint_writer *writer, struct run_directory *directory,
                              const char **broken_out);
int checkpoint_writer_appear(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep);
void checkpoint_writer_drop(struct checkpoint_writer *writer, struct run_directory *directory);

/* ---- the thread that saves during training ---- */

/* It copies the snapshots for a checkpoint, returns them, and writes the copy. While it writes one, another one may
 * wait; a third blocks the caller. An error is printed, and the run continues with earlier checkpoints. In a process
 * that does not write it sends the snapshots to the one that does, which prints errors and counts checkpoints. */
struct checkpoint_saver;

struct checkpoint_counts {
    uint64_t saved, failures;   /* checkpoints */
    uint64_t latest_ns;         /* the time to save the latest one, from the towers' snapshots to the disk */
};

/* All borrowed until checkpoint_saver_end. */
struct checkpoint_saver_spec {
    struct checkpoint_writer *writer;
    struct run_directory *directory;
    struct checkpoint_sender *sender;   /* not NULL: it sends; writer, directory and keep are not used */
    uint32_t towers, keep;              /* towers of this process */
    void (*give_back)(void *arg, uint32_t tower, struct snapshot *snapshot);    /* called by the thread */
    void *arg;
};

/* 0, -ENOMEM or -EAGAIN. */
int checkpoint_saver_start(struct checkpoint_saver **saver_out, const struct checkpoint_saver_spec *spec);
/* Save a complete snapshot of every tower of this process; they are borrowed until give_back. Blocks while another
 * checkpoint is waiting. Metadata are needed only for writing. */
void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_metadata *metadata);
/* The counts up to now. Accepts NULL: *counts_out stays as it is. */
void checkpoint_saver_count(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);
/* Add a checkpoint that was saved (rc 0) in this time, or failed. */
void checkpoint_counts_add(struct checkpoint_counts *counts, int rc, uint64_t took_ns);
/* Wait until all checkpoints are written and counted, and end the thread. Accepts NULL. */
void checkpoint_saver_end(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);

#endif
