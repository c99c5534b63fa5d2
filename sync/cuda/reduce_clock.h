/* Traces the times of reductions on a tower's communication stream: a pair of timed events around each reduction, which
 * are read when they have passed. Reductions are queued by one thread at a time, possibly another tower's; they are
 * recorded by the tower's own thread. All functions accept NULL: nothing is traced. */
#ifndef PIPETRAIN_REDUCE_CLOCK_H
#define PIPETRAIN_REDUCE_CLOCK_H

#include "sync/reduce.h"

struct reduce_clock;

/* Open the clock of tower `tower` with this number of buckets. Called by the tower's thread; waits for its
 * communication stream. *clock_out becomes NULL if the member has no track. 0 or a negative errno. */
int reduce_clock_open(struct reduce_clock **clock_out, const struct reduce_member *member, uint32_t tower,
                      uint32_t buckets);
void reduce_clock_close(struct reduce_clock *clock);

/* Mark the begin and the end of the reduction of a bucket on the communication stream. 0 or a negative errno. */
int reduce_clock_begin(struct reduce_clock *clock, uint32_t bucket, uint64_t batch);
int reduce_clock_end(struct reduce_clock *clock);
/* Record the reductions that have ended since the last call. */
void reduce_clock_record(struct reduce_clock *clock);

#endif
