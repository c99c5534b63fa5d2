/* What --check says of labels. From main's thread. */
#ifndef PIPETRAIN_LABEL_REPORT_H
#define PIPETRAIN_LABEL_REPORT_H

#include <stdio.h>

#include "loader/dataset.h"
#include "stage/schedule.h"

/* Survey the labels of the sets that are there and print how many records each class has; the label_offset
 * that suits where it is another one. 0, or an exit code: labels are out of range or, unless damage is skipped, a
 * record looked at cannot be read, which is said on stderr; or a signal asked for an end. */
int label_report_check(const struct dataset *const datasets[PASS_COUNT], FILE *out);

#endif
