/* Whether a tower's weights and statistics are finite, and how long its gradient is, asked while steps go on: what is
 * queued behind a step is read when the step is through. Used from the tower's thread. */
#ifndef PIPETRAIN_HEALTH_H
#define PIPETRAIN_HEALTH_H

#include "compute/tower.h"

/* Where in either the first number lies that is not finite; and of the gradients that the last update was made of,
 * where it limits their norm, the sum of squares and the factor that made them means, else NAN and 0. */
struct health {
    uint64_t weights, statistics;
    double gradient_squares;
    float gradient_scale;
};

/* Queue a look at all of it behind what is on the compute stream: *health_out (pinned host memory) is there
 * once the stream has come that far. Allocates nothing. 0 or a negative errno. */
int health_queue(struct tower *tower, struct health *health_out);
/* The norm of the mean gradients there, which were scaled by loss_scale; NAN: it is not known. */
double health_gradient_norm(const struct health *health, float loss_scale);
/* The name of a parameter that holds such a number there, NULL when all are finite. */
const char *health_nonfinite(const struct tower *tower, const struct health *health);
/* The name of the first parameter of the net that does as the tower is now, NULL: none, or there is no memory to look.
 * For a run that ends over it: waits for all that is queued, reads every parameter, and allocates. */
const char *health_search(struct tower *tower);
/* That of a step: health is what was queued behind it (NULL: nothing was), loss_sum what it came to. Searches where
 * health says that there is one, or the loss is not finite and its update was not to be left out. */
const char *health_of_step(struct tower *tower, const struct health *health, double loss_sum);

#endif
