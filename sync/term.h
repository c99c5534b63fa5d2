/* Terms of a sum over the towers of several ranks. A rank adds its own towers as far as the order of additions
 * (stage/pairwise.h) allows; the results are the terms that ranks exchange. Adding them in the same order gives the
 * bits of one process with all towers. */
#ifndef PIPETRAIN_TERM_H
#define PIPETRAIN_TERM_H

#include <stdint.h>

/* Towers of one rank that form a subtree of the order of additions. */
struct term { uint32_t first, count, rank; };

/* Find the terms of `run` towers, of which each rank has `per_rank`, in the order of additions. The terms of a rank are
 * consecutive. terms_out has space for `run` terms; NULL: only their number is wanted. Returns their number. */
uint32_t terms_find(uint32_t run, uint32_t per_rank, struct term *terms_out);

#endif
