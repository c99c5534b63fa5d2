/* best.safetensors in a run directory: the evaluation after which its weights were saved (doc/checkpoints.md). */
#ifndef PIPETRAIN_BEST_FILE_H
#define PIPETRAIN_BEST_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/run/run_progress.h"

struct best_file {
    bool is_checkpoint;         /* a whole checkpoint, not only weights and statistics */
    uint32_t epoch;             /* from 1 */
    uint64_t step;              /* training steps done */
    struct run_progress progress;       /* with this evaluation as the best one */
};

/* Read the description from the metadata of the file, which is untrusted; `verifies`: compare all tensors with their
 * hashes, too. 0; -ENOENT: there is no such file, or it does not describe an evaluation; -EBADMSG: it is damaged;
 * -ENOMEM; or -ENODATA: it cannot be read. */
int best_file_read(struct best_file *best_out, const char *path, bool verifies);

#endif
