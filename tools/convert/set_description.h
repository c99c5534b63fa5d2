/* The text of dataset.json (doc/formats.md). */
#ifndef PIPETRAIN_SET_DESCRIPTION_H
#define PIPETRAIN_SET_DESCRIPTION_H

#include "tools/convert/convert.h"

/* What is to be said of a set that is written, on the caller's behalf (free), or NULL without memory. It
 * depends on the samples and the options only, like the shards. */
char *set_description(const struct conversion *conversion, const struct shard_set *set,
                      const struct convert_options *options);

#endif
