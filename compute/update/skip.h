/* Steps whose reduced gradients are not finite, left out: nothing is updated, and running statistics, which the step's
 * forward pass has moved, become what they were before it. Backends on devices do it there (backend.h: check,
 * restore_if_nonfinite, update); for those on memory of the host it is done here. Used from the tower's thread. */
#ifndef PIPETRAIN_SKIP_H
#define PIPETRAIN_SKIP_H

#include "compute/backend.h"

/* Of a tower; all 0: no step is left out. */
struct skip {
    bool is_on;
    const struct backend_spec *spec;
    const struct backend_ops *ops;
    struct backend *backend;
    float *const *statistics;   /* the tower's, device memory */
    float *kept;                /* room for them, the same */
    size_t count;               /* of both; 0: the tower has none */
    bool is_broken;             /* on the host: a gradient of this step that was looked at */
    bool was_broken;            /* and of the step whose result is not asked for yet */
};

/* Keep the statistics: a training step's forward is queued next. 0 or a negative errno, as of all. */
int skip_begin(struct skip *skip);
/* Look at gradients of the step. */
int skip_check(struct skip *skip, const float *gradients, size_t count);
/* All are looked at: take the statistics back where one was not finite. On the host *left_out says that no update is to
 * follow; on a device it is queued all the same, and leaves itself out. */
int skip_end(struct skip *skip, bool *left_out);

/* Was the step left out, on the host, whose result is asked for? Once for each. */
bool skip_was_broken(struct skip *skip);

#endif
