/* What limited the run and what to change: one line from the accounted times. */
#ifndef PIPETRAIN_VERDICT_H
#define PIPETRAIN_VERDICT_H

#include <stddef.h>

#include "loader/loader.h"
#include "tools/config/settings.h"
#include "tools/run/account.h"
#include "tools/run/run_plan.h"

/* Training steps of a process that a verdict is made of, at least: the first ones wait for what later ones do not. */
#define VERDICT_STEPS 20u
/* Below these shares of tower time a wait does not limit. */
#define VERDICT_INPUT_WAIT 0.02
#define VERDICT_REDUCTION 0.05

/* One line without a line end. `steps`: that were trained; `wall_ns`: how long the loader ran. */
void verdict_write(char *text, size_t text_size, uint64_t steps, const struct fractions *fractions,
                   const struct loader_counts *loader, uint64_t wall_ns, const struct run_plan *plan,
                   const struct settings *settings);

#endif
