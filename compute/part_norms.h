/* Norms over the parts of a head (compute/share.h). clip_norm and LARS need sums of squares of whole parameters, and
 * train.on_nan = skip whether a gradient of any tower is not finite; but a tower has its own parts of the head alone.
 * So before an update every tower puts the sums of its own parts where the towers exchange them, and then adds those of
 * all parts, in pairs: the sums are the same in every tower, and for any number of towers. All backends use these rules,
 * on the host and on the device. */
#ifndef PIPETRAIN_PART_NORMS_H
#define PIPETRAIN_PART_NORMS_H

#include "compute/floats.h"
#include "compute/part_loss.h"

/* Pointers are to device memory. */
struct part_norms {
    uint32_t parts, first, count;       /* all parts; own parts first .. first + count - 1 */
    uint32_t sums;                      /* sums of squares of a part: of gradients, then of weights */
    uint32_t gradient_sums;             /* of gradients */
    double *own;                        /* [count][sums][SQUARES_ROOM] */
    double *exchanged;                  /* [parts][1 + sums]: is a gradient not finite (1 or 0), sums */
    double *totals;                     /* [sums]: over all parts */
    double *all_squares;                /* clip_norm: the sum of squares of all other gradients, to which the totals of
                                         * gradients are added; else NULL */
};

/* The numbers of a part that are exchanged. */
MIXING_RULE uint32_t part_norms_numbers(const struct part_norms *norms)
{
    return 1 + norms->sums;
}

/* Sum `sum` of own part `part`, from 0: SQUARES_ROOM doubles. */
MIXING_RULE double *part_norms_own(const struct part_norms *norms, uint32_t part, uint32_t sum)
{
    return norms->own + ((size_t)part * norms->sums + sum) * SQUARES_ROOM;
}

/* Put number `i` of the own parts, in order, where it is exchanged. */
MIXING_RULE void part_norms_put(const struct part_norms *norms, uint32_t i, bool is_nonfinite)
{
    const uint32_t numbers = part_norms_numbers(norms), part = i / numbers, number = i % numbers;
    double *const to = norms->exchanged + (size_t)(norms->first + part) * numbers + number;
    *to = number > 0 ? *part_norms_own(norms, part, number - 1) : is_nonfinite;
}

/* Add sum `sum` of all parts. */
MIXING_RULE void part_norms_add(const struct part_norms *norms, uint32_t sum)
{
    struct part_sum total = { 0, { 0 } };
    for (uint32_t p = 0; p < norms->parts; p++)
        part_sum_add(&total, norms->exchanged[(size_t)p * part_norms_numbers(norms) + 1 + sum]);
    norms->totals[sum] = part_sum_total(&total);
}

/* After that of all sums. */
MIXING_RULE void part_norms_add_gradients(const struct part_norms *norms)
{
    for (uint32_t sum = 0; sum < norms->gradient_sums && norms->all_squares != NULL; sum++)
        *norms->all_squares += norms->totals[sum];
}

/* Is a gradient of any part not finite? */
MIXING_RULE bool part_norms_nonfinite(const struct part_norms *norms)
{
    bool is_nonfinite = false;
    for (uint32_t p = 0; p < norms->parts; p++)
        is_nonfinite = is_nonfinite || norms->exchanged[(size_t)p * part_norms_numbers(norms)] != 0;
    return is_nonfinite;
}

#endif
