/* Moving averages of a tower's weights and running statistics (Polyak, Juditsky 1992): behind update t each number of
 * the average moves by 1 - decay of the way to the tower's; behind the first it is that. As PyTorch's AveragedModel
 * with get_ema_multi_avg_fn and use_buffers. Used from the tower's thread.
 *
 * Evaluation and the weights that a run leaves are of the average: it then lies where the weights do, and they
 * where it does. Training goes on with the weights as they were. */
#ifndef PIPETRAIN_AVERAGE_H
#define PIPETRAIN_AVERAGE_H

#include "compute/tower.h"

struct average {                        /* begins as all 0 */
    float *weights, *statistics;        /* as in the tower's arenas, of weights what is updated; NULL: none is kept, or
                                         * there is nothing of the kind */
    bool is_left_out;                   /* the step's update was, on the host: kept by the tower */
    bool is_shown;                      /* they hold what the tower trains, and its arenas the average */
};

/* Bytes of device memory that a tower's average takes. */
size_t average_bytes(const struct tower *tower);
/* Take them: who owns the average gives them back. 0 or a negative errno. */
int average_open(struct average *average, struct tower *tower);

/* Where the tower of spec.average_decay 0 has no average, these do nothing. They queue behind what is on the compute
 * stream; 0 or a negative errno. */

/* Update number `step` of the run, from 0, is queued, or would be if the tower had samples. The average is not
 * shown. It does not move where the update was left out (skip.h), but for the first, behind which it is what the tower
 * began with. */
int average_step(struct average *average, struct tower *tower, uint64_t step);
/* Let the tower compute with its average, or with what it trains again. Between two steps, when no reduction of
 * gradients is under way: it goes by way of the gradients. */
int average_show(struct average *average, struct tower *tower, bool is_shown);

#endif
