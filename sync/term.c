/* The largest subtrees of the order of additions that lie in one rank. Called when a reduction is opened. */
#include "sync/term.h"

#include <stddef.h>

#include "stage/pairwise.h"

/* Append the terms of the subtree of `count` towers from tower `first` on to `found` terms. Returns how many they then
 * are. */
static uint32_t append_terms(struct term *terms, uint32_t found, uint32_t first, uint32_t count, uint32_t per_rank)
{
    const uint32_t rank = first / per_rank;
    if ((first + count - 1) / per_rank == rank) {
        if (terms != NULL)
            terms[found] = (struct term){ first, count, rank };
        return found + 1;
    }
    const uint32_t left = pairwise_left(count);
    found = append_terms(terms, found, first, left, per_rank);
    return append_terms(terms, found, first + left, count - left, per_rank);
}

uint32_t terms_find(uint32_t run, uint32_t per_rank, struct term *terms_out)
{
    return append_terms(terms_out, 0, 0, run, per_rank);
}
