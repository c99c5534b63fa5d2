/* Checkpoints of a run of several processes: what these tell each other (sync/ranks/ranks.h). Rank 0 writes. After
 * every batch with snapshots it decides whether it saves them; the others then send those of their towers, or drop
 * them. They send parts, each when rank 0 asks for it, so that it never holds more than one.
 *
 * Who waits for whom, so that all go on:
 * - main of another rank, with the snapshots of a batch, for the decision of rank 0's main, which has the reports of
 * that batch by then: they were sent before anybody waited;
 * - main of any rank for its own saving thread, when two checkpoints are not finished yet;
 * - rank 0's saving thread for those of the others, and these for it; both take checkpoints in the order of batches,
 * and neither waits for a main or a tower;
 * - towers for their snapshots, which saving threads return. All these waits end when a rank fails. */
#ifndef PIPETRAIN_CHECKPOINT_TRANSFER_H
#define PIPETRAIN_CHECKPOINT_TRANSFER_H

#include "sync/ranks/ranks.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"

/* The message of one rank. */
struct checkpoint_transfer;

/* From main of rank 0: are the snapshots after the batch before `next` saved? That it cannot be sent means that the run
 * has failed. */
void checkpoint_transfer_decide(struct checkpoint_transfer *transfer, uint64_t next, bool is_saved);
/* From main of rank 0: none are from now on, and no other rank waits for a decision any more. */
void checkpoint_transfer_give_up(struct checkpoint_transfer *transfer);
/* Wait for the decision, from main of another rank, for each of the same batches. False also when a rank failed. */
bool checkpoint_transfer_await(struct checkpoint_transfer *transfer, uint64_t next);

#define CHECKPOINT_TRANSFER_PART_BYTES ((size_t)16 << 20)        /* of a part, at most */

/* An upper limit of the memory that a rank needs, where no rank sends more than `total` bytes of a checkpoint. */
size_t checkpoint_transfer_bytes(size_t total);
/* Every rank has `towers` towers. 0 or -ENOMEM. */
int checkpoint_transfer_open(struct checkpoint_transfer **transfer_out, struct ranks *ranks, uint32_t towers, size_t total);
/* Accepts NULL. */
void checkpoint_transfer_close(struct checkpoint_transfer *transfer);
/* Where rank 0 takes parts from; by one thread at a time, which need not be main. */
struct checkpoint_source checkpoint_transfer_source(struct checkpoint_transfer *transfer);
/* Where another rank puts its parts; the same. */
struct checkpoint_sink checkpoint_transfer_sink(struct checkpoint_transfer *transfer);

#endif
