/* Service times of the stages, out of the trace of a run (doc/trace.md). */
#ifndef PIPETRAIN_STAGE_TIMES_H
#define PIPETRAIN_STAGE_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/tune/feed_model.h"

/* In the order they began in, of the time that all threads of a stage have entries of. Each is what was found: a run
 * without a loader reads nothing. */
struct stage_times {
    struct feed_times read, decode, copy;       /* a span each; owned, as steps are */
    struct feed_times steps;            /* of tower 0, from the begin of each to that of the next */
    uint32_t pieces;                    /* decodes of a tower's batch; 0: there are none, or no batch is whole */
};

/* 0; a negative errno where the file cannot be read; -EBADMSG where it is no trace; -ENODATA where it has no two
 * steps. stage_times_release after any. */
int stage_times_read(struct stage_times *times_out, const char *path);
void stage_times_release(struct stage_times *times);

#endif
