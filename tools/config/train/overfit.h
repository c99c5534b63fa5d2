/* The check whether a few samples can be learnt at all (--overfit=N; doc/training.md). Used by main only. */
#ifndef PIPETRAIN_OVERFIT_H
#define PIPETRAIN_OVERFIT_H

#include "tools/config/settings.h"

/* Steps at least, and passes over the samples, before they count as not learnt. */
#define OVERFIT_STEPS 500
#define OVERFIT_EPOCHS 100

/* In place of what the file says, but not of --set: train on `samples` >= 1 records that are spread over the training
 * set, validate on the same ones, end when all of them are right; without what makes learning by heart harder
 * (augmentation, dropout, decay, smoothing, averages, schedules), and with its results elsewhere. Before
 * settings_finish. 0 or -ENOMEM. */
int overfit_apply(struct settings *settings, int64_t samples);
/* Behind settings_finish, which knows the run's directory: one beside that of the run that is meant. 0 or -ENOMEM. */
int overfit_finish(struct settings *settings);
/* The training set is open and has so many records: no more samples than these, no larger batch than the
 * samples, and the epochs. Changes nothing where there are none, or the run
 * is to learn nothing by heart. */
void overfit_fit(struct settings *settings, uint64_t records);

#endif
