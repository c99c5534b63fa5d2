/* From the section [data] to how a data set is opened. */
#ifndef PIPETRAIN_DATA_OPTIONS_H
#define PIPETRAIN_DATA_OPTIONS_H

#include "loader/dataset.h"
#include "tools/lib/config/settings.h"

/* The options of every set that the section determines by itself: keys, labels, pixels, limit, damage, index files. The
 * others are 0. Strings are borrowed from the settings. */
struct dataset_options data_options(const struct data_settings *data);

#endif
