/* How long answers took: a histogram of times, in steps of 3 %, of constant size. One thread at a time. */
#ifndef PIPETRAIN_LATENCIES_H
#define PIPETRAIN_LATENCIES_H

#include <stdint.h>

#define LATENCY_STEPS 32u       /* of each doubling */
#define LATENCY_PLACES (59u * LATENCY_STEPS + LATENCY_STEPS)

/* All zeros: no time was added. */
struct latencies { uint64_t count, places[LATENCY_PLACES]; };

void latencies_add(struct latencies *latencies, uint64_t time_ns);
/* The time that a share of all times does not exceed, within 2 %; 0 if there is none. 0 < share <= 1. */
uint64_t latencies_quantile(const struct latencies *latencies, double share);

#endif
