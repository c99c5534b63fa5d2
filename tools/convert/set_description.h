/* Writes the text of dataset.json (doc/formats.md). */
#ifndef PIPETRAIN_SET_DESCRIPTION_H
#define PIPETRAIN_SET_DESCRIPTION_H

#include "tools/convert/convert.h"

/* Check that different class names stay different in JSON, where invalid UTF-8 becomes U+FFFD. 0, or a negative errno
 * after stop_fail. */
int set_description_check(const struct conversion *conversion, struct stop *stop);
/* Warn if the pixels of raw images hardly vary, for example because they are only 0 and 1, which looks black. */
void set_description_warn(const struct shard_set *set, const char *output);
/* The text for a set that has been written, to be freed, or NULL without memory. Like the shards it depends only on the
 * samples and the options. */
char *set_description(const struct conversion *conversion, const struct shard_set *set,
                      const struct convert_options *options);

#endif
