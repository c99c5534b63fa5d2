/* The section [train] as a whole. Used by main only. */
#ifndef PIPETRAIN_SETTINGS_TRAIN_H
#define PIPETRAIN_SETTINGS_TRAIN_H

#include "tools/config/settings.h"

/* What is not given becomes what train.optimizer is usually used with, where that is not the table's default; what
 * does not go together is added to `problems`. */
void settings_finish_train(struct settings *settings, struct problems *problems);

#endif
