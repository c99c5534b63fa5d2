/* Writes checkpoints to the run's directory: one safetensors file for each, which appears atomically and contains the
 * XXH3 of every tensor and of the header. All memory is allocated when the writer is opened; only little if the buffer
 * is the towers' memory (checkpoint_shape.stays). */
#ifndef PIPETRAIN_CHECKPOINT_WRITER_H
#define PIPETRAIN_CHECKPOINT_WRITER_H

#include "compute/snapshot.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/weights.h"

struct checkpoint_writer;

/* Upper limits of the memory that opening allocates, for the plan, and of the size of a file. */
size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings);
size_t checkpoint_file_bytes(const struct checkpoint_shape *shape, const char *settings);
/* `source` may be NULL if all towers are in this process; `settings` is the identity of the run
 * (tools/lib/run/run_identity.h), `about` makes the weights usable without the run; both are borrowed until the writer
 * is closed. 0 or -ENOMEM. */
int checkpoint_writer_open(struct checkpoint_writer **writer_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_source *source, const char *settings,
                           const struct weights_about *about);
/* Accepts NULL. */
void checkpoint_writer_close(struct checkpoint_writer *writer);
/* Copy and hash complete snapshots of all towers of this process, in the order of the towers, and the source's pieces of
 * other towers, which are received completely even after an error. Afterwards the snapshots may be returned, unless
 * the buffer is the towers' memory. Allocates nothing. 0, or a negative errno of the backend or the source. */
int checkpoint_writer_copy(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_metadata *metadata);
/* Write the copied state to the files that its metadata name, and wait until they are on the disk. Then remove all but
 * the `keep` newest checkpoints; also those of later steps, which a rollback has abandoned. 0, or a negative errno: the
 * file that failed is unchanged. -EDOM: a weight is not finite; *broken_out is its name, and nothing is written. */
int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out);
/* checkpoint_writer_write in two steps, for CHECKPOINT_NEWEST only. Prepare: write the file to the disk under a
 * temporary name; then the towers may be closed. Appear: rename it, and remove older ones. Drop: remove the temporary
 * file instead. */
int checkpoint_writer_prepare(struct checkpoint_writer *writer, struct run_directory *directory,
                              const char **broken_out);
int checkpoint_writer_appear(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep);
void checkpoint_writer_drop(struct checkpoint_writer *writer, struct run_directory *directory);

/* ---- the thread that saves during training ---- */

/* The thread copies the snapshots for a checkpoint, returns them, and writes the copy. Weights of an evaluation are
 * written from their snapshots, which are returned afterwards. While it writes, one more item may wait; a further one
 * blocks the caller. An error is printed, and the run continues with earlier
 * checkpoints. In a process that does not write checkpoints the thread sends the snapshots to the process that does,
 * which prints errors and counts checkpoints. */
struct checkpoint_saver;

struct checkpoint_counts {
    uint64_t saved, failures;   /* numbers of checkpoints */
    bool best_failed;           /* the latest weights of checkpoint_saver_put_best could not be saved */
    uint64_t latest_ns;         /* the time to save the latest checkpoint, from the towers' snapshots to the disk */
};

/* All members are borrowed until checkpoint_saver_end. */
struct checkpoint_saver_spec {
    struct checkpoint_writer *writer;
    struct run_directory *directory;
    struct checkpoint_sender *sender;   /* not NULL: this process sends; writer, directory and keep are not used */
    /* For checkpoint_saver_put_best; may be NULL without it. weights_sender: likewise, with the layout weights_shape. */
    struct weights *weights;
    struct checkpoint_sender *weights_sender;
    uint32_t towers, best_towers;       /* towers of this process with snapshots of states, and of evaluations */
    uint32_t keep;
    void (*give_back)(void *arg, uint32_t tower, struct snapshot *snapshot);    /* called by the thread */
    void *arg;
};

/* 0, -ENOMEM or -EAGAIN. */
int checkpoint_saver_start(struct checkpoint_saver **saver_out, const struct checkpoint_saver_spec *spec);
/* Save complete snapshots of all towers of this process, which are borrowed until give_back. Blocks while another
 * checkpoint is waiting. `metadata` are needed only for writing. */
void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_metadata *metadata);
/* Save the weights of the best evaluation, complete SNAPSHOT_EVALUATEDs of best_towers towers, which are borrowed until
 * give_back. Otherwise as checkpoint_saver_put; what is put first is saved first. */
void checkpoint_saver_put_best(struct checkpoint_saver *saver, struct snapshot *const *evaluated,
                               const struct checkpoint_metadata *metadata);
/* The current counts. Accepts NULL: *counts_out is unchanged. */
void checkpoint_saver_count(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);
/* Count a checkpoint that was saved (rc 0) in this time, or failed. */
void checkpoint_counts_add(struct checkpoint_counts *counts, int rc, uint64_t took_ns);
/* Wait until all checkpoints are written and counted, and end the thread. Accepts NULL. */
void checkpoint_saver_end(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);

#endif
