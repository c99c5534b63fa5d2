/* How towers work together, as the settings say it. */
#ifndef PIPETRAIN_SETTINGS_SYNC_H
#define PIPETRAIN_SETTINGS_SYNC_H

#include "tools/config/problems.h"
#include "tools/config/settings.h"

/* What the mode does in a run of settings' towers; `computes`: the towers compute, else all modes are one. */
const struct sync_ops *settings_sync(const struct settings *settings, bool computes);
/* Do gradients travel as bf16? Between towers, so not of one. */
bool settings_use_bf16_grads(const struct settings *settings);
/* Report what a mode cannot do. */
void settings_check_sync(struct settings *settings, struct problems *problems);

#endif
