/* What --check says of the records of a run's data sets. From main's thread. */
#ifndef PIPETRAIN_DATA_CHECK_H
#define PIPETRAIN_DATA_CHECK_H

#include <stdio.h>

#include "loader/dataset.h"
#include "stage/schedule.h"

/* Read labels and decode images of some records of the sets that are there, and print how many records each class
 * has, the range of pixels, and the label_offset that suits where it is another one. 0, or an exit code: labels are
 * out of range or, unless damage is skipped, a record looked at cannot be read, which is said on stderr; or a signal
 * asked for an end. */
int data_check(const struct dataset *const datasets[PHASE_COUNT], FILE *out);

#endif
