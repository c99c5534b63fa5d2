/* The largest subtrees of the order of additions that lie in one rank. Called when a reduction is opened. */
#include "sync/term.h"

#include "stage/pairwise.h"

/* Append the terms of the subtree of `count` towers from tower `first` on. */
static struct term *append_terms(struct term *at, uint32_t first, uint32_t count, uint32_t per_rank)
{
    const uint32_t rank = first / per_rank;
    if ((first + count - 1) / per_rank == rank) {
        *at = (struct term){ first, count, rank };
        return at + 1;
    }
    const uint32_t left = pairwise_left(count);
    at = append_terms(at, first, left, per_rank);
    return append_terms(at, first + left, count - left, per_rank);
}

uint32_t terms_find(uint32_t run, uint32_t per_rank, struct term *terms_out)
{
    return (uint32_t)(append_terms(terms_out, 0, run, per_rank) - terms_out);
}
