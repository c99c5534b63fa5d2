/* What the rows of a run tell of it, in the names of summary.json, where there is none yet. */
#ifndef PIPETRAIN_RUN_SO_FAR_H
#define PIPETRAIN_RUN_SO_FAR_H

#include <stdbool.h>

#include "tools/report/metrics.h"
#include "tools/report/settings_list.h"

/* steps, images, seconds, mean_images_per_second, loss and fractions of training; validation; what the settings say of
 * model, devices and training, as texts; ended, in words: without a summary the run goes on or was killed, or
 * has_summary says that it could not be read. The caller owns it. 0 or -ENOMEM. */
int run_so_far(const struct metrics *metrics, const struct settings_list *settings, bool has_summary,
               json_t **summary_out);

#endif
