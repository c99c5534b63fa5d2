/* pipetrain --doctor: what the machine is to a run, and what holds it up there. Used by main. */
#ifndef PIPETRAIN_DOCTOR_H
#define PIPETRAIN_DOCTOR_H

#include <stdbool.h>

#include "tools/config/settings.h"

enum doctor_form { DOCTOR_TABLE, DOCTOR_JSON };

/* "json" is the one name. 0, or -EINVAL after a message. */
int doctor_form_find(const char *name, enum doctor_form *form_out);
/* Print findings on stdout; with settings, which are finished, also what they mean for that run: it is not run, and
 * nothing is written. NULL: of the machine alone. Takes a few seconds. The exit code, EXIT_CODE_OK also where something
 * is not fine. No other thread has used a device. */
int doctor_run(const struct settings *settings, enum doctor_form form);

#endif
