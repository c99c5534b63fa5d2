/* Which tensors a saved state consists of (doc/checkpoints.md). Those of tower 0 have the names that people's tools
 * know ("conv1.weight"), the optimizer's buffers "optim.0." in front of them, and what the backend carries from step
 * to step is "carried". Where averages are kept, these have the plain names, and what they are the averages of "raw."
 * in front of them. What other towers have of their own stands behind "tower.1.": in a run whose towers are one
 * model only the statistics of batch normalisation and what is carried, else all. Used by one thread at a time. */
#ifndef PIPETRAIN_CHECKPOINT_LAYOUT_H
#define PIPETRAIN_CHECKPOINT_LAYOUT_H

#include <stdbool.h>

#include "compute/net.h"

#define CHECKPOINT_NAME_BYTES 112u      /* of a tensor, with its end */

/* Of a run. */
struct checkpoint_shape {
    const struct net *net;      /* lent */
    uint32_t towers;
    uint32_t states;            /* buffers of the optimizer */
    size_t carried_bytes;       /* of a tower; 0 = none */
    bool averages;              /* are kept, of weights and statistics */
    bool weights_differ;        /* between the towers, while they train */
    bool stays;                 /* snapshots are SNAPSHOT_LAST: there is one state, put together in the towers */
};

/* CHECKPOINT_VALUE is what evaluation uses: averages where they are kept. Only then there is CHECKPOINT_RAW, which is
 * what is trained. */
enum checkpoint_part { CHECKPOINT_VALUE, CHECKPOINT_RAW, CHECKPOINT_STATE, CHECKPOINT_CARRIED };

/* What a tensor is: `parameter` of all but what is carried, `state` of states. */
struct checkpoint_place {
    enum checkpoint_part part;
    uint32_t tower, state, parameter;
};

struct checkpoint_tensor {
    struct checkpoint_place place;
    char name[CHECKPOINT_NAME_BYTES];
    size_t offset, bytes;       /* in the data of the file */
};

struct checkpoint_layout {
    struct checkpoint_tensor *tensors;  /* in the order of the data */
    uint32_t count;
    size_t bytes;               /* of all */
};

void checkpoint_name(const struct net *net, struct checkpoint_place place, char name_out[CHECKPOINT_NAME_BYTES]);
/* Has the tower a tensor of its own there? */
bool checkpoint_has(const struct checkpoint_shape *shape, struct checkpoint_place place);
/* 0 or -ENOMEM. */
int checkpoint_layout_open(struct checkpoint_layout *layout, const struct checkpoint_shape *shape);
/* Accepts a layout that is all 0. */
void checkpoint_layout_close(struct checkpoint_layout *layout);

#endif
