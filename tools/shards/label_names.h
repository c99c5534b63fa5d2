/* The names that a data set's manifest has for its labels. */
#ifndef PIPETRAIN_LABEL_NAMES_H
#define PIPETRAIN_LABEL_NAMES_H

#include <stdint.h>

#include "formats/manifest.h"

/* The manifest beside a shard; one of zeros where there is none that can be read. To be released. */
struct manifest label_names_read(const char *shard_path);
/* The name of a label, NULL where it has none. */
const char *label_name(const struct manifest *manifest, int64_t label);

#endif
