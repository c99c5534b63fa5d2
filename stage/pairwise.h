/* Pairwise summation, in an order that depends only on the number of terms: neighbours are added in pairs, then
 * neighbouring sums, and so on; the last one of an odd number is carried to the next round. Adding whole subtrees first
 * gives the same bits. Used for slices and towers: stage/schedule.h, compute/tower.h, sync/. */
#ifndef PIPETRAIN_PAIRWISE_H
#define PIPETRAIN_PAIRWISE_H

#include <stdbool.h>
#include <stdint.h>

/* The number of terms in the left operand of the last addition of `count` >= 2 terms: the largest power of two below
 * count. */
static inline uint32_t pairwise_left(uint32_t count)
{
    uint32_t left = 1;
    while (left * 2 < count)
        left *= 2;
    return left;
}

/* A running pairwise sum. Starts as all zeros. */
struct pairwise_sum {
    uint32_t count;
    double sums[32];            /* [n]: the sum of 2^n terms, if bit n of count is set */
};

static inline void pairwise_add(struct pairwise_sum *sum, double term)
{
    uint32_t level = 0;
    for (; sum->count >> level & 1; level++)
        term = sum->sums[level] + term;
    sum->sums[level] = term;
    sum->count++;
}

/* 0 without terms. */
static inline double pairwise_total(const struct pairwise_sum *sum)
{
    double total = 0;
    bool is_begun = false;
    for (uint32_t level = 0; level < 32 && sum->count >> level > 0; level++)
        if (sum->count >> level & 1) {
            total = is_begun ? sum->sums[level] + total : sum->sums[level];
            is_begun = true;
        }
    return total;
}

#endif
