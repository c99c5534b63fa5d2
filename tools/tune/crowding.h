/* How much steps suffer where there are not enough cores: found from a setting that ran. */
#ifndef PIPETRAIN_CROWDING_H
#define PIPETRAIN_CROWDING_H

#include "tools/tune/feed_model.h"

/* Set model->crowding so that the model says of `setting` what was measured. Where that has cores enough, or was faster
 * than the model says, it is 1. 0 or -ENOMEM. */
int crowding_fit(struct feed_model *model, const struct feed_setting *setting, double images_per_second);

#endif
