/* What logits say: which class is the likeliest, and how likely. Pure functions. The order is that of the backends'
 * counts: a larger logit first, of equal ones the lower class. */
#ifndef PIPETRAIN_RANKING_H
#define PIPETRAIN_RANKING_H

#include <stdint.h>

/* The first largest; a logit that is not a number counts as the largest. */
uint32_t ranking_best(const float *logits, uint32_t classes);
/* How many classes come before `label`. */
uint32_t ranking_place(const float *logits, uint32_t classes, uint32_t label);

struct ranked { uint32_t class; double probability; };
/* The first `count` <= classes, with their softmax. */
void ranking_top(const float *logits, uint32_t classes, uint32_t count, struct ranked *top_out);

#endif
