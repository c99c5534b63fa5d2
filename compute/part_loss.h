/* The softmax loss of a sample whose logits are divided into parts (LAYER_PART_LOSS): from the statistics of every part
 * follow the loss, the predicted class, and the gradient of every logit. All backends use these rules, on the host and
 * on the device. Sums over parts are added in pairs (stage/pairwise.h), so that they do not depend on who computes which
 * part. */
#ifndef PIPETRAIN_PART_LOSS_H
#define PIPETRAIN_PART_LOSS_H

#include <math.h>

#include "compute/mixing.h"
#include "compute/plan/plan.h"

/* How losses are computed, for all classes of the whole net. */
struct part_rule {
    double smoothing;           /* spec.label_smoothing; 0 in an evaluation */
    uint32_t classes;
    const float *class_weights; /* [classes], NULL: all 1, as in an evaluation */
    double weight_total;        /* their sum; classes without class weights */
};

/* Target probability of class c * its class weight. */
MIXING_RULE double part_target(const struct part_rule *rule, const struct mixed_label *label, uint32_t c)
{
    const double own = c == (uint32_t)label->label ? (double)label->share : 0;
    const double other = c == (uint32_t)label->other ? 1 - (double)label->share : 0;
    const double target = (1 - rule->smoothing) * (own + other) + rule->smoothing / rule->classes;
    return rule->class_weights != NULL ? target * (double)rule->class_weights[c] : target;
}

/* The sum of part_target over all classes. */
MIXING_RULE double part_target_total(const struct part_rule *rule, const struct mixed_label *label)
{
    if (rule->class_weights == NULL)
        return 1;
    const double share = (double)label->share;
    return (1 - rule->smoothing) * (share * (double)rule->class_weights[label->label] +
                                    (1 - share) * (double)rule->class_weights[label->other]) +
           rule->smoothing / rule->classes * rule->weight_total;
}

/* The softmax over all classes of a sample. */
struct part_softmax {
    double log_sum;             /* log(sum of exp(logit)) */
    double target;              /* sum of part_target * logit */
    uint32_t predicted;
};

#define PART_LEVELS 7u          /* of a tree of SHARE_PARTS_MAX parts */

/* A running sum in pairs of at most 2^(PART_LEVELS - 1) terms. */
struct part_sum { uint32_t count; double sums[PART_LEVELS]; };

MIXING_RULE void part_sum_add(struct part_sum *sum, double term)
{
    uint32_t level = 0;
    for (; sum->count >> level & 1; level++)
        term = sum->sums[level] + term;
    sum->sums[level] = term;
    sum->count++;
}

MIXING_RULE double part_sum_total(const struct part_sum *sum)
{
    double total = 0;
    bool is_begun = false;
    for (uint32_t level = 0; level < PART_LEVELS; level++)
        if (sum->count >> level & 1) {
            total = is_begun ? sum->sums[level] + total : sum->sums[level];
            is_begun = true;
        }
    return total;
}

/* The part with the first largest logit; the first with a NaN, if there is any. */
MIXING_RULE uint32_t part_with_largest(const struct part_stats *stats, uint32_t rows, uint32_t parts)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < parts; p++) {
        const float largest = stats[(size_t)best * rows].largest;
        if (!isnan(largest) && !(stats[(size_t)p * rows].largest <= largest))
            best = p;
    }
    return best;
}

/* Combine the statistics of a sample: those of part p are stats[p * rows]. */
MIXING_RULE struct part_softmax part_combine(const struct part_stats *stats, uint32_t rows, uint32_t parts)
{
    const struct part_stats *const best = &stats[(size_t)part_with_largest(stats, rows, parts) * rows];
    struct part_sum sum = { 0, { 0 } }, target = { 0, { 0 } };
    for (uint32_t p = 0; p < parts; p++) {
        const struct part_stats *const part = &stats[(size_t)p * rows];
        /* Logits that are all -inf add nothing, whatever their sum is. */
        part_sum_add(&sum, part->largest == -INFINITY
                               ? 0
                               : part->sum * exp((double)part->largest - (double)best->largest));
        part_sum_add(&target, part->target);
    }
    const struct part_softmax softmax = { log(part_sum_total(&sum)) + (double)best->largest, part_sum_total(&target),
                                          best->predicted };
    return softmax;
}

/* The loss of a sample that has a label. */
MIXING_RULE double part_loss(const struct part_rule *rule, const struct mixed_label *label,
                             const struct part_softmax *softmax)
{
    return part_target_total(rule, label) * softmax->log_sum - softmax->target;
}

/* The gradient of the logit of class c. 0 for a sample without a label; NaN if the loss is not finite, so that a check
 * of gradients finds it too. */
MIXING_RULE float part_gradient(const struct part_rule *rule, const struct mixed_label *label, double total,
                                const struct part_softmax *softmax, uint32_t c, float logit)
{
    if (label->label < 0)
        return 0;
    if (!isfinite(softmax->log_sum - softmax->target))
        return NAN;
    return (float)(total * exp((double)logit - softmax->log_sum) - part_target(rule, label, c));
}

#endif
