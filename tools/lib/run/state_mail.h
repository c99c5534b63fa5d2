/* Checkpoints of a run of several processes: what these tell each other (sync/ranks/ranks.h). Rank 0 writes. After every
 * batch with snapshots it decides whether it saves them; the others then send those of their towers, or drop them. They
 * send parts, each when rank 0 asks for it, so that it never holds more than one.
 *
 * Who waits for whom, so that all go on:
 * - main of another rank, with the snapshots of a batch, for the decision of rank 0's main, which has the reports of
 *   that batch by then: they were sent before anybody waited;
 * - main of any rank for its own saving thread, when two checkpoints are not finished yet;
 * - rank 0's saving thread for those of the others, and these for it; both take checkpoints in the order of batches, and
 *   neither waits for a main or a tower;
 * - towers for their snapshots, which saving threads return.
 * All these waits end when a rank fails. */
#ifndef PIPETRAIN_STATE_MAIL_H
#define PIPETRAIN_STATE_MAIL_H

#include "sync/ranks/ranks.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"

/* The mail of one rank. */
struct state_mail;

/* From main of rank 0: are the snapshots after the batch before `next` saved? That it cannot be sent means that the run
 * has failed. */
void state_mail_decide(struct state_mail *mail, uint64_t next, bool is_saved);
/* From main of rank 0: none are from now on, and no other rank waits for a decision any more. */
void state_mail_give_up(struct state_mail *mail);
/* Wait for the decision, from main of another rank, for each of the same batches. False also when a rank failed. */
bool state_mail_await(struct state_mail *mail, uint64_t next);

#define STATE_MAIL_PART_BYTES ((size_t)16 << 20)        /* of a part, at most */

/* An upper limit of the memory that a rank needs, where no rank sends more than `total` bytes of a checkpoint. */
size_t state_mail_bytes(size_t total);
/* Every rank has `towers` towers. 0 or -ENOMEM. */
int state_mail_open(struct state_mail **mail_out, struct ranks *ranks, uint32_t towers, size_t total);
/* Accepts NULL. */
void state_mail_close(struct state_mail *mail);
/* Where rank 0 takes parts from; by one thread at a time, which need not be main. */
struct checkpoint_source state_mail_source(struct state_mail *mail);
/* Where another rank puts its parts; the same. */
struct checkpoint_sink state_mail_sink(struct state_mail *mail);

#endif
