/* --overfit=N: check that the network can memorise a few samples (doc/training.md). Main thread only. */
#ifndef PIPETRAIN_OVERFIT_H
#define PIPETRAIN_OVERFIT_H

#include "tools/lib/config/settings.h"

/* The least steps, and epochs, before the samples count as not learnt. */
#define OVERFIT_STEPS 500
#define OVERFIT_EPOCHS 100

/* Override the settings of the file, but not of --set: train on `samples` >= 1 records, spread over the training set,
 * validate on the same records, and stop when all are right; without augmentation, dropout, weight decay, smoothing,
 * averages and schedules; results go to another folder. Called before settings_finish. 0 or -ENOMEM. */
int overfit_apply(struct settings *settings, int64_t samples);
/* Choose a run directory next to that of the normal run. After settings_finish. 0 or -ENOMEM. */
int overfit_finish(struct settings *settings);
/* Called when the training set of `records` records is open: limit the samples to the records and the batch to the
 * samples, and set the epochs. Does nothing without records or without --overfit. */
void overfit_fit(struct settings *settings, uint64_t records);

#endif
