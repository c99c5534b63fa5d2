/* Rank 0 opens the data sets and sends the others what it has found in them (dataset_start.h), so that the files are
 * opened at the start by one rank and not by all. Used by main only. */
#ifndef PIPETRAIN_DATA_SHARE_H
#define PIPETRAIN_DATA_SHARE_H

#include "loader/dataset.h"
#include "stage/schedule.h"
#include "sync/ranks/ranks.h"

/* What other ranks than 0 have received. */
struct data_share {
    struct dataset_start starts[PHASE_COUNT];
    const struct dataset_start *given[PHASE_COUNT];     /* NULL: this rank opens the set for itself, as it has damage */
};

/* Rank 0, with sets that were opened with options.keeps_start (which are released here), or `code`, the exit code of an
 * error. 0, or an exit code after a message or when a rank has failed. */
int data_share_send(struct ranks *ranks, struct dataset *const datasets[PHASE_COUNT], int code);
/* Other ranks: wait for what rank 0 sends. 0; the exit code of rank 0, without a message; or an exit code as from
 * data_share_send. */
int data_share_receive(struct ranks *ranks, struct data_share *share_out);
/* Accepts a struct of zeros. */
void data_share_release(struct data_share *share);

#endif
