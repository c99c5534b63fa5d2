/* Whether a tower's weights and statistics are finite, asked while steps go on: what is queued behind a
 * step is read when the step is through. Used from the tower's thread. */
#ifndef PIPETRAIN_HEALTH_H
#define PIPETRAIN_HEALTH_H

#include "compute/tower.h"

/* Where in either the first number lies that is not finite. */
struct health { uint64_t weights, statistics; };

/* Queue a look at both behind what is on the compute stream: *health_out (pinned host memory) is there
 * once the stream has come that far. Allocates nothing. 0 or a negative errno. */
int health_queue(struct tower *tower, struct health *health_out);
/* The name of a parameter that holds such a number there, NULL when all are finite. */
const char *health_broken(const struct tower *tower, const struct health *health);
/* The name of the first parameter of the net that does as the tower is now, NULL: none, or there is no memory to look.
 * For a run that ends over it: waits for all that is queued, reads every parameter, and allocates. */
const char *health_search(struct tower *tower);
/* That of a step: health is what was queued behind it (NULL: nothing was), loss_sum what it came to. Searches where
 * health says that there is one, or the loss is not finite and its update was not to be left out. */
const char *health_of_step(struct tower *tower, const struct health *health, double loss_sum);

#endif
