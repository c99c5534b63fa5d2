/* Writes the text of dataset.json (doc/formats.md). */
#ifndef PIPETRAIN_SET_DESCRIPTION_H
#define PIPETRAIN_SET_DESCRIPTION_H

#include "tools/convert/convert.h"

/* Check that class names are still different in JSON, where invalid UTF-8 is replaced by U+FFFD. 0, or a negative
 * errno after stop_fail. */
int set_description_check(const struct conversion *conversion, struct stop *stop);
/* Warn if the pixels of raw images hardly vary: for example, images with only 0 and 1 look black. */
void set_description_warn(const struct shard_set *set, const char *output);
/* Returns the text for a data set that has been written, to be freed; NULL if out of memory. Like the shards, it
 * depends only on the samples and the options. */
char *set_description(const struct conversion *conversion, const struct shard_set *set,
                      const struct convert_options *options);

#endif
