/* Health checks of a tower: whether weights and statistics are finite, and the norm of its gradient. They are queued
 * after a step and read when the step is complete, so that training continues meanwhile. Used from the tower's
 * thread. */
#ifndef PIPETRAIN_HEALTH_H
#define PIPETRAIN_HEALTH_H

#include "compute/tower.h"

/* The indices of the first number that is not finite in the weights and in the statistics. When the last update clipped
 * the norm of the gradients: their sum of squares and the factor that turns them into means; else NAN and 0. */
struct health {
    uint64_t weights, statistics;
    double gradient_squares;
    float gradient_scale;
};

/* Queue the checks on the compute stream: *health_out (pinned host memory) is complete once the stream has executed
 * them. Allocates nothing. 0 or a negative errno. */
int health_queue(struct tower *tower, struct health *health_out);
/* The norm of the mean gradients, which were scaled by loss_scale; NAN: unknown. */
double health_gradient_norm(const struct health *health, float loss_scale);
/* The name of a parameter with a number that is not finite, NULL when all that the tower has are finite. */
const char *health_nonfinite(const struct tower *tower, const struct health *health);
/* The name of the first parameter of tower_net that is not finite now, NULL: none, or out of memory. Blocks, reads all
 * parameters and allocates, for a run that is about to end. */
const char *health_search(struct tower *tower);
/* health_search after a step with the loss `loss_sum`, for which `health` was queued (NULL: it was not). Searches only
 * when `health` found a number that is not finite, or when the loss is not finite and steps with gradients that are not
 * finite are not skipped. */
const char *health_of_step(struct tower *tower, const struct health *health, double loss_sum);

#endif
