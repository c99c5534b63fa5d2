/* All that looks at a run besides its own reports: files for TensorBoard. What goes wrong with one of them is said,
 * and the run goes on. Used by main only. NULL, where nothing observes, is accepted everywhere. */
#ifndef PIPETRAIN_OBSERVERS_H
#define PIPETRAIN_OBSERVERS_H

#include "tools/config/settings.h"
#include "tools/run/observe/observation.h"
#include "tools/run/run_plan.h"

struct observers;

/* Take the room for what the settings ask for. `directory` is that of the run, NULL: nothing is observed. All is lent
 * until observers_close. NULL: nothing observes. */
struct observers *observers_open(const struct settings *settings, const struct run_plan *plan, const char *directory);
/* After every batch; the first call begins what is written. */
void observers_begin(struct observers *observers);
/* With every row of training and of validation. */
void observers_put(struct observers *observers, const struct observation *observation);
void observers_close(struct observers *observers);

#endif
