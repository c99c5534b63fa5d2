/* pipetrain --doctor: check the machine, and a run on it, for performance problems. Main thread only. */
#ifndef PIPETRAIN_DOCTOR_H
#define PIPETRAIN_DOCTOR_H

#include <stdbool.h>

#include "tools/lib/config/settings.h"

enum doctor_form { DOCTOR_TABLE, DOCTOR_JSON };

/* Parses NAME of --doctor=NAME; "json" is the only name. Returns 0, or -EINVAL after a message. */
int doctor_form_find(const char *name, enum doctor_form *form_out);
/* Print the findings on stdout. `settings`: the complete settings of the run to check; NULL: only the machine is
 * checked. Trains nothing and writes no files; takes a few seconds. To be called before any thread uses a device.
 * Returns the exit code: EXIT_CODE_OK, also with warnings, or EXIT_CODE_MEMORY. */
int doctor_run(const struct settings *settings, enum doctor_form form);

#endif
