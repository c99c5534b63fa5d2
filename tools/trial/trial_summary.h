/* summary.json of a trial, read back. Main only. */
#ifndef PIPETRAIN_TRIAL_SUMMARY_H
#define PIPETRAIN_TRIAL_SUMMARY_H

#include "tools/trial/trial.h"

/* Fill in what the summary tells; the rest is 0, "" or NAN. 0; -ENODATA without such a file; -EBADMSG where it is no
 * summary. */
int trial_summary_read(const char *path, struct trial_result *result_out);

#endif
