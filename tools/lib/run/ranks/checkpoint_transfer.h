/* Messages between ranks about checkpoints. Rank 0 writes them. After every batch with snapshots it decides whether
 * these are saved. If so, the other ranks send the snapshots of their towers in parts, each on request of rank 0,
 * which therefore holds one part at a time.
 *
 * No wait is part of a circle, and all end when a rank fails:
 * - Main of another rank, with the snapshots of a batch, waits for the decision of rank 0's main. That one has
 * received all reports of the batch, which were sent before.
 * - Main of any rank waits for its own saving thread while two checkpoints are unfinished.
 * - The saving threads wait for each other. All of them save checkpoints in the order of batches, and none waits for
 * main or a tower.
 * - Towers wait for their snapshots, which saving threads return. */
#ifndef PIPETRAIN_CHECKPOINT_TRANSFER_H
#define PIPETRAIN_CHECKPOINT_TRANSFER_H

#include "sync/ranks/ranks.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"

/* One rank's side. */
struct checkpoint_transfer;

/* Main of rank 0: send the decision on the snapshots after batch `next` - 1. If that fails, the run has failed, too. */
void checkpoint_transfer_decide(struct checkpoint_transfer *transfer, uint64_t next, bool is_saved);
/* Main of rank 0: no snapshots are saved any more, and checkpoint_transfer_await returns false at once. */
void checkpoint_transfer_give_up(struct checkpoint_transfer *transfer);
/* Main of another rank, for the same batches: wait for the decision. False also when a rank failed. */
bool checkpoint_transfer_await(struct checkpoint_transfer *transfer, uint64_t next);

#define CHECKPOINT_TRANSFER_PART_BYTES ((size_t)16 << 20)        /* the size of a part, at most */

/* An upper limit of the memory that this takes, where no rank sends more than `total` bytes of a checkpoint. */
size_t checkpoint_transfer_bytes(size_t total);
/* Every rank has `towers` towers. 0 or -ENOMEM. */
int checkpoint_transfer_open(struct checkpoint_transfer **transfer_out, struct ranks *ranks, uint32_t towers,
                             size_t total);
/* Accepts NULL. */
void checkpoint_transfer_close(struct checkpoint_transfer *transfer);
/* For rank 0: a source of all parts. For one thread at a time, which need not be main. */
struct checkpoint_source checkpoint_transfer_source(struct checkpoint_transfer *transfer);
/* For other ranks: a sink for their parts; the same. */
struct checkpoint_sink checkpoint_transfer_sink(struct checkpoint_transfer *transfer);

#endif
