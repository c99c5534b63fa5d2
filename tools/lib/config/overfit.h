/* --overfit=N: check that the network can learn a few samples by heart (doc/training.md). Main thread only. */
#ifndef PIPETRAIN_OVERFIT_H
#define PIPETRAIN_OVERFIT_H

#include "tools/lib/config/settings.h"

/* Minimum of steps, and epochs, before the samples count as not learnt. */
#define OVERFIT_STEPS 500
#define OVERFIT_EPOCHS 100

/* Override the file, but not --set: train on `samples` >= 1 records that are spread over the training set, validate on
 * the same records, stop when all are right; without augmentation, dropout, weight decay, smoothing, averages and
 * schedules; with results in another folder. Before settings_finish. 0 or -ENOMEM. */
int overfit_apply(struct settings *settings, int64_t samples);
/* Choose a run directory next to that of the normal run. After settings_finish. 0 or -ENOMEM. */
int overfit_finish(struct settings *settings);
/* After opening the training set of so many records: limit the samples to them and the batch to the samples, and set
 * the epochs. Does nothing without records or without --overfit. */
void overfit_fit(struct settings *settings, uint64_t records);

#endif
