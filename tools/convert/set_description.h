/* The text of dataset.json (doc/formats.md). */
#ifndef PIPETRAIN_SET_DESCRIPTION_H
#define PIPETRAIN_SET_DESCRIPTION_H

#include "tools/convert/convert.h"

/* Whether names of classes that differ still do in JSON, which is UTF-8: bytes that are none become U+FFFD. 0, or a
 * negative errno after stop_fail. */
int set_description_check(const struct conversion *conversion, struct stop *stop);
/* Warn of raw images that hardly differ from one number, as those of 0 and 1 do not, which look black. */
void set_description_warn(const struct shard_set *set, const char *output);
/* What is to be said of a set that is written, on the caller's behalf (free), or NULL without memory. It
 * depends on the samples and the options only, like the shards. */
char *set_description(const struct conversion *conversion, const struct shard_set *set,
                      const struct convert_options *options);

#endif
