/* Reads checkpoints. No data of a file are used before all of its hashes have been verified. Used by main only. */
#ifndef PIPETRAIN_CHECKPOINT_READER_H
#define PIPETRAIN_CHECKPOINT_READER_H

#include <limits.h>

#include "compute/tower.h"
#include "tools/lib/config/config.h"
#include "tools/lib/results/checkpoint_format.h"

/* An intact checkpoint. */
struct checkpoint_reader {
    char path[PATH_MAX];
    struct tensor_file file;
    struct checkpoint_metadata metadata;
    const char *settings;       /* the identity of the run (tools/lib/run/run_identity.h) */
    uint32_t towers;
};

/* The description of a problem with a file. */
struct checkpoint_problem { char text[512]; };

/* Open the newest intact checkpoint in the folder with fewer than `before` steps (UINT64_MAX: any); damaged newer ones
 * are reported on stderr and skipped. -ENOENT: there is none (or no folder); -EBADMSG: none is intact; -ENOMEM; or
 * another negative errno: the folder cannot be read. */
int checkpoint_reader_find(struct checkpoint_reader **reader_out, const char *folder, uint64_t before,
                           struct checkpoint_problem *problem);
/* Open a file and read it completely. 0, or a negative errno with the problem in *problem. */
int checkpoint_reader_open(struct checkpoint_reader **reader_out, const char *path, struct checkpoint_problem *problem);
/* The same for a copy that is already open; `path` names the file in messages. Takes over the descriptor, also after an
 * error. */
int checkpoint_reader_take(struct checkpoint_reader **reader_out, int fd, const char *path,
                           struct checkpoint_problem *problem);
/* Accepts NULL. */
void checkpoint_reader_close(struct checkpoint_reader *reader);

/* Load tower `index` of `towers`, which has its memory and runs no steps yet. If the file has the same number of
 * towers, the tower gets its own state; otherwise the tensors that all towers share, and the means of the others over
 * the towers of the file. 0; -EINVAL: the file does not fit, with the reason in *problem; -ENOMEM; or a negative errno
 * of reading or of the device. */
int checkpoint_reader_write(const struct checkpoint_reader *reader, struct tower *tower, uint32_t index,
                            uint32_t towers, struct checkpoint_problem *problem);

#endif
