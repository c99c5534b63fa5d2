/* Buckets: the gradient arena cut into ranges that are reduced and updated as wholes.
 * Cuts lie on parameter boundaries, in arena order (the order backward fills it). */
#ifndef PIPETRAIN_BUCKET_H
#define PIPETRAIN_BUCKET_H

#include "compute/arena.h"

#define BUCKETS_MAX 256

struct bucket { size_t offset, count; };                /* floats */
struct buckets { uint32_t count; struct bucket bucket[BUCKETS_MAX]; };

/* Buckets of at least bucket_bytes each but for the last (a parameter is never cut);
 * larger ones when there would be more than BUCKETS_MAX. At least one. */
void buckets_init(struct buckets *buckets, const struct arena *arena, size_t bucket_bytes);

#endif
