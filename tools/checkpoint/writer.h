/* Saving states as files of the run's directory: one safetensors file each, which appears whole or not at all, with
 * the xxh3 of every tensor and of the header in it. All memory is taken when it is opened; of a state that stays in the
 * towers it is little. */
#ifndef PIPETRAIN_CHECKPOINT_WRITER_H
#define PIPETRAIN_CHECKPOINT_WRITER_H

#include "compute/snapshot.h"
#include "tools/checkpoint/layout.h"
#include "tools/checkpoint/mark.h"
#include "tools/results/weights_about.h"

struct checkpoint_writer;

/* What opening takes, or a little more, for the plan, and what a file is no larger than. `settings` as for
 * checkpoint_writer_open. */
size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings);
size_t checkpoint_file_bytes(const struct checkpoint_shape *shape, const char *settings);
/* `settings` is the text by which a run knows that the state is one of its own, `about` what makes its weights usable
 * without the run; both are lent while states are written. 0 or -ENOMEM. */
int checkpoint_writer_open(struct checkpoint_writer **writer_out, const struct checkpoint_shape *shape,
                           const char *settings, const struct weights_about *about);
/* Accepts NULL. */
void checkpoint_writer_close(struct checkpoint_writer *writer);
/* Copy the state that a snapshot of every tower holds, complete, in the order of the towers, and hash it: then they may
 * go back, unless the state stays in them. Allocates nothing. 0, or a negative errno of the backend. */
int checkpoint_writer_take(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_mark *mark);
/* Write what was taken as the files of its mark, each appearing whole. Where one of the newest was written all such but
 * the `keep` newest up to it are removed: those of later steps are of a way that the run did not go. Blocks until it is
 * on the disk. 0 or the negative errno of what failed: then that file is as it was. -EDOM: a weight is not a finite
 * number, *broken_out names it, and nothing is written. */
int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out);
/* The same of a mark with CHECKPOINT_NEWEST only, in two halves: the file is on the disk under a temporary name, and
 * the towers may go; it has its name and others are removed. Between them it may be dropped. */
int checkpoint_writer_prepare(struct checkpoint_writer *writer, struct run_directory *directory,
                              const char **broken_out);
int checkpoint_writer_appear(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep);
void checkpoint_writer_drop(struct checkpoint_writer *writer, struct run_directory *directory);

#endif
