/* The settings that decide what a run comes to, as hyperparameters of its session. Pure. */
#ifndef PIPETRAIN_HYPERPARAMETERS_H
#define PIPETRAIN_HYPERPARAMETERS_H

#include "formats/events/tfevent.h"
#include "tools/config/settings.h"

/* Put them into the event, with the name that readers group sessions by, and when this one began, in seconds since
 * 1970. */
void hyperparameters_put(struct tfevent *event, const struct settings *settings, const char *group, double time);

#endif
