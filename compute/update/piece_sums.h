/* Gradients of the pieces of a slice, added up: those of all but the last piece in an arena of their own, and into the
 * last one's as these become ready, so that they are reduced while its backward goes on. Used from the tower's
 * thread. */
#ifndef PIPETRAIN_PIECE_SUMS_H
#define PIPETRAIN_PIECE_SUMS_H

#include "compute/tower.h"

struct piece_sums {
    float *floats;              /* of what is updated, the tower's; NULL where slices are computed as wholes */
    bool has_any;               /* a piece of the slice is in them */
    size_t added;               /* floats at the front of the last piece's gradients that they are in */
    int result;                 /* of the first one of piece_sums_add that failed */
};

/* Queue: the tower's gradients, of a piece that is not the last, are part of the sums. 0 or a negative errno. */
int piece_sums_take(struct piece_sums *sums, struct tower *tower);
/* The first `floats` gradients of the last piece are queued: queue the addition of the sums to those. */
void piece_sums_add(struct piece_sums *sums, struct tower *tower, size_t floats);
/* All of them were: the next slice begins with none. 0, or what failed. */
int piece_sums_end(struct piece_sums *sums);

#endif
