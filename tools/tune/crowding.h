/* How much steps suffer where there are not enough cores: found from a setting that ran. */
#ifndef PIPETRAIN_CROWDING_H
#define PIPETRAIN_CROWDING_H

#include "tools/tune/feed_model.h"

/* Set model->crowding so that steps of `setting` take as long in the model, without what towers wait for input, as was
 * measured: `seconds` each. It is as near as it may come, and 1 where that setting tells nothing: it has cores enough,
 * or so nearly enough that what times differ by would decide. The time that is waited does not go in: it is the
 * loader's. 0 or -ENOMEM. */
int crowding_fit(struct feed_model *model, const struct feed_setting *setting, double seconds);

#endif
