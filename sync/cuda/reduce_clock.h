/* When sums ran on a tower's communication stream, for its track of a trace: timed events around each, read when they
 * have passed. Sums are queued by one thread at a time, which may be another tower's; they are recorded by the tower's
 * own. NULL, where nothing is traced, is accepted everywhere. */
#ifndef PIPETRAIN_REDUCE_CLOCK_H
#define PIPETRAIN_REDUCE_CLOCK_H

#include "sync/reduce.h"

struct reduce_clock;

/* For tower `tower` with so many buckets, from its thread; what is on its communication stream is waited for. NULL
 * where the member has no track. 0 or a negative errno. */
int reduce_clock_open(struct reduce_clock **clock_out, const struct reduce_member *member, uint32_t tower,
                      uint32_t buckets);
void reduce_clock_close(struct reduce_clock *clock);

/* What is queued between them is the sum of a bucket of a batch. 0 or a negative errno. */
int reduce_clock_begin(struct reduce_clock *clock, uint32_t bucket, uint64_t batch);
int reduce_clock_end(struct reduce_clock *clock);
/* Record the sums that have ended since. */
void reduce_clock_record(struct reduce_clock *clock);

#endif
