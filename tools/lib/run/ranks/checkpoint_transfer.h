/* Messages between ranks about checkpoints, which rank 0 writes. After every batch with snapshots rank 0 decides
 * whether they are saved. If so, each other rank sends the snapshots of its towers in parts, one for each request of
 * rank 0, which therefore stores only one part at a time.
 *
 * There is no deadlock, because no waits form a cycle, and all waits end when a rank fails:
 * - Main of another rank, with the snapshots of a batch, waits for the decision of rank 0's main, which waits for
 * reports of this batch that were sent before.
 * - Main of any rank waits for its own saving thread while two checkpoints are unfinished.
 * - The saving threads wait for each other. All save checkpoints in the order of batches, and none waits for main or a
 * tower.
 * - Towers wait for their snapshots, which saving threads return. */
#ifndef PIPETRAIN_CHECKPOINT_TRANSFER_H
#define PIPETRAIN_CHECKPOINT_TRANSFER_H

#include "sync/ranks/ranks.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"

/* A rank's end of the transfer. */
struct checkpoint_transfer;

/* Main of rank 0: send the decision whether the snapshots after batch `next` - 1 are saved. An error here also fails
 * the run. */
void checkpoint_transfer_decide(struct checkpoint_transfer *transfer, uint64_t next, bool is_saved);
/* Main of rank 0: announce that no more snapshots are saved; checkpoint_transfer_await then returns false at once. */
void checkpoint_transfer_give_up(struct checkpoint_transfer *transfer);
/* Main of another rank, for each batch for which rank 0 calls checkpoint_transfer_decide: wait for the decision. Also
 * false when a rank failed. */
bool checkpoint_transfer_await(struct checkpoint_transfer *transfer, uint64_t next);

#define CHECKPOINT_TRANSFER_PART_BYTES ((size_t)16 << 20)        /* the size of a part, at most */

/* An upper limit of the memory that the transfer uses where no rank sends more than `total` bytes of a checkpoint. */
size_t checkpoint_transfer_bytes(size_t total);
/* `towers`: of each rank. 0 or -ENOMEM. */
int checkpoint_transfer_open(struct checkpoint_transfer **transfer_out, struct ranks *ranks, uint32_t towers,
                             size_t total);
/* Accepts NULL. */
void checkpoint_transfer_close(struct checkpoint_transfer *transfer);
/* For rank 0: a source of the parts of all other ranks. Used by one thread at a time, not necessarily main. */
struct checkpoint_source checkpoint_transfer_source(struct checkpoint_transfer *transfer);
/* For other ranks: a sink for the rank's parts. Used by one thread at a time, not necessarily main. */
struct checkpoint_sink checkpoint_transfer_sink(struct checkpoint_transfer *transfer);

#endif
