/* What a tower is told, from the settings and the plan. Used by main only. */
#ifndef PIPETRAIN_TOWER_PLAN_H
#define PIPETRAIN_TOWER_PLAN_H

#include "compute/tower.h"
#include "tools/config/settings.h"
#include "tools/run/run_plan.h"

/* Of tower `tower` of the run; net, device and compute stream are left to the caller. */
struct tower_spec tower_plan(const struct run_plan *plan, const struct settings *settings, uint32_t tower);

#endif
